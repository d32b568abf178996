"""A step that is split over several IPUs, and what a weight update costs on them. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.compiler.device_program import DeviceProgram, TileMemory
from ipu_tf.compiler.hlo import Phase
from ipu_tf.compiler.pipeline.options import Schedule
from ipu_tf.machine.target import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A value that one stage hands to another.

    Attributes:
        name: Name of its instruction.
        layer: Path of the layer that makes it, "" for none.
        source: The stage that makes it.
        destination: The stage that reads it.
        phase: When it crosses: with every micro-batch, or with the weight update.
        bytes: Its bytes.
        is_variable: Whether it is a variable that both stages use.
    """

    name: str
    layer: str
    source: int
    destination: int
    phase: Phase
    bytes: int
    is_variable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Moves:
    """Something that passes do, counted, or in cycles.

    Attributes:
        forward: In the forward pass of a micro-batch.
        backward: In its backward pass, what is computed again included.
        update: In the weight update.
    """

    forward: int = 0
    backward: int = 0
    update: int = 0

    @classmethod
    def of(cls, phase: Phase, amount: int) -> Moves:
        """Returns what is done in one phase alone."""
        return cls(**{phase: amount})

    def __add__(self, other: Moves) -> Moves:
        return Moves(
            forward=self.forward + other.forward,
            backward=self.backward + other.backward,
            update=self.update + other.update,
        )

    def times(self, factor: int) -> Moves:
        """Returns each so many times as much."""
        return Moves(
            forward=factor * self.forward,
            backward=factor * self.backward,
            update=factor * self.update,
        )


_NO_MOVES = Moves()


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStage:
    """One stage.

    Attributes:
        index: Its number.
        ipu: Its IPU within a replica.
        program: What it runs for one micro-batch and a weight update.
        forward_cycles: Cycles of its forward pass.
        backward_cycles: Cycles of its backward pass, what it computes again included.
        recomputed_cycles: Those of them in which it computes activations again.
        update_cycles: Cycles of its share of the weight update.
        fifo_bytes: Bytes that wait between its passes.
        fifo_depth: Micro-batches that wait at most, besides the one at hand.
        streamed: Cycles, of those above, of transfers from and to streaming memory.
        gathered: Cycles, of those above, in which replicas put weights together that they share.
        streaming_bytes: Bytes that it has in streaming memory, FIFOs included.
    """

    index: int
    ipu: int
    program: DeviceProgram
    forward_cycles: int
    backward_cycles: int
    recomputed_cycles: int
    update_cycles: int
    fifo_bytes: int
    fifo_depth: int
    streamed: Moves = _NO_MOVES
    gathered: Moves = _NO_MOVES
    streaming_bytes: int = 0

    @property
    def micro_batch_cycles(self) -> int:
        """Cycles of both passes of a micro-batch."""
        return self.forward_cycles + self.backward_cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """How long the micro-batches of one weight update take, in cycles.

    Attributes:
        slots: Times that all IPUs meet.
        ramp_up_cycles: Until the last stage has work.
        steady_cycles: From there until the last stage has no more.
        ramp_down_cycles: The rest.
        link_cycles: Those of all of these in which IPUs send to each other.
        busy_cycles: Cycles that each IPU works, by IPU.
    """

    slots: int
    ramp_up_cycles: int
    steady_cycles: int
    ramp_down_cycles: int
    link_cycles: int
    busy_cycles: tuple[int, ...]

    @property
    def cycles(self) -> int:
        """All cycles."""
        return self.ramp_up_cycles + self.steady_cycles + self.ramp_down_cycles

    @property
    def bubble_share(self) -> float:
        """Share of the IPUs' time in which they wait for other stages, in [0, 1]."""
        available = len(self.busy_cycles) * (self.cycles - self.link_cycles)
        whole = len(self.busy_cycles) * self.cycles
        return (available - sum(self.busy_cycles)) / whole if whole else 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PipelineIpu:
    """One IPU of a replica.

    Attributes:
        ipu: Its number within the replica.
        stages: The stages that it runs.
        memory: Bytes of every tile.
        streaming_bytes: Bytes that it has in streaming memory.
    """

    ipu: int
    stages: tuple[int, ...]
    memory: TileMemory
    streaming_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PipelineProgram:
    """A function compiled for several IPUs.

    Attributes:
        name: Name of the function.
        target: The chip of every IPU.
        system: Name of the system that its links are those of.
        schedule: In which order stages work on micro-batches.
        recompute: Whether stages compute activations again.
        micro_batches: Micro-batches of a weight update on each replica.
        replicas: Copies of the pipeline.
        replica_ipus: IPUs of each copy.
        stages: The stages, in order.
        crossings: What they hand to each other.
        ipus: The IPUs of a replica that have stages.
        timeline: The micro-batches of a weight update.
        update_cycles: Cycles of the weight update, transfers between stages included.
        all_reduce_cycles: Cycles in which the replicas add up their gradients, and hand out the
            weights of which each has updated a share.
        samples_per_run: Samples of a micro-batch; 0 if unknown.
        notes: What a reader of its figures has to know.
        streaming_limit_bytes: Bytes of streaming memory that all of its IPUs have.
    """

    name: str
    target: Target
    system: str
    schedule: Schedule
    recompute: bool
    micro_batches: int
    replicas: int
    replica_ipus: int
    stages: tuple[PipelineStage, ...]
    crossings: tuple[Crossing, ...]
    ipus: tuple[PipelineIpu, ...]
    timeline: Timeline
    update_cycles: int
    all_reduce_cycles: int
    samples_per_run: int = 0
    notes: tuple[str, ...] = ()
    streaming_limit_bytes: int = 0

    @property
    def cycles(self) -> int:
        """Cycles from one weight update to the next."""
        return self.timeline.cycles + self.all_reduce_cycles + self.update_cycles

    @property
    def samples_per_update(self) -> int:
        """Samples that a weight update sees; 0 if unknown."""
        return self.samples_per_run * self.micro_batches * self.replicas

    @property
    def limiting_stage(self) -> PipelineStage:
        """The stage that the others wait for: the one with the longest passes."""
        return max(self.stages, key=lambda stage: stage.micro_batch_cycles)

    @property
    def streaming_bytes(self) -> int:
        """Bytes of all replicas in streaming memory."""
        return self.replicas * sum(ipu.streaming_bytes for ipu in self.ipus)

    @property
    def fits(self) -> bool:
        """Whether no tile of any IPU, nor streaming memory, has to hold more than it can."""
        fit = self.streaming_bytes <= self.streaming_limit_bytes
        return fit and all(ipu.memory.fits for ipu in self.ipus)

    @property
    def complete(self) -> bool:
        """Whether everything in it has a cost."""
        return all(stage.program.complete for stage in self.stages)
