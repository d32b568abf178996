"""A compiled function: its stages on their IPUs, and the cost of a run.

A function on one IPU has one stage. Plain data: code that reports, exports or compares programs
reads it from here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, TypeAlias

from ipu_tf.machine.target import Target
from ipu_tf.tile_program.moves import (
    NO_MOVES,
    Moves,
    ahead_cycles,
    overlapped_cycles,
    step_cycles,
    waits,
)
from ipu_tf.tile_program.phase import Phase
from ipu_tf.tile_program.program import Front, Step, Tensor, TileMemory, TileProgram

Schedule: TypeAlias = Literal["grouped", "interleaved", "sequential"]
"""grouped: all stages run forward side by side, then all backward. interleaved: at any time half of
the stages run forward, the other half backward. sequential: one stage at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A value that one stage hands to another.

    Attributes:
        name: Name of its instruction.
        layer: Path of the layer that makes it, "" for none.
        source: The stage that makes it.
        destination: The stage that reads it.
        phase: When it crosses: in every micro-batch, or in the weight update.
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
class StageProgram:
    """One stage.

    Attributes:
        index: Its number.
        ipu: Its IPU within a replica.
        program: Its program for one micro-batch and a weight update.
        forward_cycles: Cycles of its forward pass.
        backward_cycles: Cycles of its backward pass, recomputation included.
        update_cycles: Cycles of its share of the weight update.
        recomputed_cycles: Cycles of its backward pass that recompute activations.
        fifo_bytes: Bytes that wait between its passes.
        fifo_depth: The most micro-batches that wait, besides the current one.
        streamed: Cycles, of those above, of transfers from and to streaming memory.
        gathered: Cycles, of those above, in which replicas gather weights that they share.
        streaming_bytes: Its bytes in streaming memory, FIFOs included.
        overlapped: Cycles of transfers that I/O tiles make beside its passes, host included; not
            among those above.
        waiting: Cycles, of those above, in which its tiles wait for these transfers, or for the
            host's connection to the gateway.
    """

    index: int
    ipu: int
    program: TileProgram
    forward_cycles: int
    backward_cycles: int
    update_cycles: int
    recomputed_cycles: int = 0
    fifo_bytes: int = 0
    fifo_depth: int = 0
    streamed: Moves = NO_MOVES
    gathered: Moves = NO_MOVES
    streaming_bytes: int = 0
    overlapped: Moves = NO_MOVES
    waiting: Moves = NO_MOVES

    @property
    def micro_batch_cycles(self) -> int:
        """Cycles of both passes of a micro-batch."""
        return self.forward_cycles + self.backward_cycles


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The time of the micro-batches of one weight update, in cycles.

    Attributes:
        slots: Number of slots, each ended by a sync of all IPUs.
        steady_cycles: From the first to the last work of the last stage.
        busy_cycles: Cycles that each IPU works, by IPU.
        ramp_up_cycles: Until the last stage has work.
        ramp_down_cycles: From when the last stage has no more work.
        link_cycles: The part of all these cycles in which IPUs send to each other.
        slot_link_cycles: These cycles by slot; empty if there are none, and in older files.
    """

    slots: int
    steady_cycles: int
    busy_cycles: tuple[int, ...]
    ramp_up_cycles: int = 0
    ramp_down_cycles: int = 0
    link_cycles: int = 0
    slot_link_cycles: tuple[int, ...] = ()

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
class IpuMemory:
    """The memory of one IPU of a replica.

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
class DeviceProgram:
    """A function compiled for the machine.

    A run is a weight update: `micro_batches` passes through all stages, on each of `replicas`. A
    function that is no training step, or updates after every batch, has one micro-batch.

    Attributes:
        name: Name of the function.
        target: The chip of every IPU.
        system: Name of the system whose links it uses.
        stages: The stages, in order.
        ipus: The IPUs of a replica that have stages.
        timeline: The micro-batches of a run.
        update_cycles: Cycles of the weight update, transfers between stages included.
        all_reduce_cycles: Cycles in which the replicas add up their gradients, and gather the
            weights of which each has updated a share.
        crossings: Values that stages hand to each other.
        schedule: The order in which stages work on micro-batches.
        recompute: Whether stages recompute activations.
        checkpoints: Layers after which they keep activations then, besides the function's own
            checkpoints.
        micro_batches: Micro-batches of a run on each replica.
        replicas: Copies of the stages.
        replica_ipus: IPUs of each copy.
        samples_per_run: Samples (the leading dimension of its inputs) of a micro-batch; 0 if
            unknown.
        notes: Caveats for readers of its figures, such as a loop of unknown length.
        streaming_limit_bytes: Bytes of streaming memory that all of its IPUs have.
        round_trip_cycles: Cycles of a call from the host besides its runs: the way there and back;
            0 if unknown, as in earlier files.
        in_step: Whether its stages are the parts of one program, one on each IPU, which all run it
            in step; then there is no pipeline.
    """

    name: str
    target: Target
    system: str
    stages: tuple[StageProgram, ...]
    ipus: tuple[IpuMemory, ...]
    timeline: Timeline
    update_cycles: int
    all_reduce_cycles: int = 0
    crossings: tuple[Crossing, ...] = ()
    schedule: Schedule = "sequential"
    recompute: bool = False
    checkpoints: tuple[str, ...] = ()
    micro_batches: int = 1
    replicas: int = 1
    replica_ipus: int = 1
    samples_per_run: int = 0
    notes: tuple[str, ...] = ()
    streaming_limit_bytes: int = 0
    round_trip_cycles: int = 0
    in_step: bool = False

    def __post_init__(self) -> None:
        for name in ("stages", "ipus"):
            if not getattr(self, name):
                raise ValueError(f"DeviceProgram.{name} must not be empty.")
        for name in ("micro_batches", "replicas", "replica_ipus"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"DeviceProgram.{name} must be positive. Received: {getattr(self, name)}."
                )
        for number in chain.from_iterable(ipu.stages for ipu in self.ipus):
            if not 0 <= number < len(self.stages):
                raise ValueError(
                    f"DeviceProgram.ipus must have stages from 0 to {len(self.stages) - 1}. "
                    f"Received: {number}."
                )

    @property
    def cycles(self) -> int:
        """Cycles of one run."""
        return self.timeline.cycles + self.all_reduce_cycles + self.update_cycles

    @property
    def samples_per_update(self) -> int:
        """Samples of a run on all replicas; 0 if unknown."""
        return self.samples_per_run * self.micro_batches * self.replicas

    @property
    def samples_per_second(self) -> float | None:
        """Samples per second of all replicas; None if their number is not known."""
        if not self.samples_per_update or not self.cycles:
            return None
        return self.samples_per_update / self.target.seconds(self.cycles)

    @property
    def times(self) -> Mapping[Phase, int]:
        """How often each phase of a step runs in a run of the program."""
        return {"forward": self.micro_batches, "backward": self.micro_batches, "update": 1}

    @property
    def front(self) -> Front:
        """What it was made from."""
        return self.stages[0].program.front

    @property
    def is_pipeline(self) -> bool:
        """Whether its stages have different work."""
        return len(self.stages) > 1 and not self.in_step

    @property
    def timed_stages(self) -> tuple[StageProgram, ...]:
        """The stages whose cycles add up: one of those that run in step."""
        return self.stages[:1] if self.in_step else self.stages

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of all stages."""
        return tuple(chain.from_iterable(stage.program.steps for stage in self.stages))

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors on the tiles of all IPUs."""
        return tuple(chain.from_iterable(stage.program.tensors for stage in self.stages))

    @property
    def fullest_ipu(self) -> IpuMemory:
        """The IPU with the fullest tile."""
        return max(self.ipus, key=lambda ipu: int(ipu.memory.peak_tile_bytes.max(initial=0)))

    @property
    def memory(self) -> TileMemory:
        """Bytes of every tile of the IPU with the fullest tile."""
        return self.fullest_ipu.memory

    @property
    def limiting_stage(self) -> StageProgram:
        """The stage that the others wait for: the one with the longest passes."""
        return max(self.stages, key=lambda stage: stage.micro_batch_cycles)

    @property
    def streaming_bytes(self) -> int:
        """Bytes of all replicas in streaming memory."""
        return self.replicas * sum(ipu.streaming_bytes for ipu in self.ipus)

    @property
    def fits(self) -> bool:
        """Whether every tile of every IPU, and streaming memory, can hold its part."""
        fit = self.streaming_bytes <= self.streaming_limit_bytes
        return fit and all(ipu.memory.fits for ipu in self.ipus)

    @property
    def unsupported(self) -> Mapping[str, tuple[str, ...]]:
        """Opcodes without a cost, with the layers that they are in."""
        layers_of_opcodes: dict[str, tuple[str, ...]] = {}
        for stage in self.stages:
            for opcode, layers in stage.program.unsupported.items():
                layers_of_opcodes[opcode] = tuple(
                    dict.fromkeys((*layers_of_opcodes.get(opcode, ()), *layers))
                )
        return layers_of_opcodes

    @property
    def complete(self) -> bool:
        """Whether everything in it has a cost."""
        return not self.unsupported


def on_one_ipu(
    program: TileProgram,
    *,
    system: str,
    samples_per_run: int = 0,
    recompute: bool = False,
    checkpoints: tuple[str, ...] = (),
    round_trip_cycles: int = 0,
) -> DeviceProgram:
    """Returns the device program of a function that runs on a single IPU, once per batch.

    Args:
        program: The program of the IPU.
        system: Name of the system that it is part of.
        samples_per_run: Samples of one run; 0 if unknown.
        recompute: Whether its backward pass recomputes activations.
        checkpoints: Layers after which it keeps activations then.
        round_trip_cycles: Cycles of a call from the host besides its runs; 0 if unknown.
    """
    busy, overlapped = step_cycles(program), overlapped_cycles(program)
    wait_moves = waits(busy, overlapped + ahead_cycles(program))
    cycles = busy + wait_moves
    stage = StageProgram(
        index=0,
        ipu=0,
        program=program,
        forward_cycles=cycles.forward,
        backward_cycles=cycles.backward,
        update_cycles=cycles.update,
        overlapped=overlapped,
        waiting=wait_moves,
        recomputed_cycles=program.recomputed_cycles,
    )
    return DeviceProgram(
        name=program.name,
        target=program.target,
        system=system,
        stages=(stage,),
        ipus=(IpuMemory(ipu=0, stages=(0,), memory=program.memory),),
        timeline=Timeline(
            slots=1,
            steady_cycles=stage.micro_batch_cycles,
            busy_cycles=(stage.micro_batch_cycles,),
        ),
        update_cycles=stage.update_cycles,
        recompute=recompute,
        checkpoints=checkpoints,
        samples_per_run=samples_per_run,
        notes=program.notes,
        round_trip_cycles=round_trip_cycles,
    )


def on_all_ipus(
    programs: Sequence[TileProgram], *, system: str, replicas: int = 1
) -> DeviceProgram:
    """Returns the device program of the parts of a program, which its IPUs run in step.

    Args:
        programs: The part of each IPU; all have as many cycles.
        system: Name of the system that has the IPUs.
        replicas: Copies of the program, which run side by side.
    """
    one = on_one_ipu(programs[0], system=system)
    ipus = len(programs)
    return dataclasses.replace(
        one,
        stages=tuple(
            dataclasses.replace(one.stages[0], index=ipu, ipu=ipu, program=program)
            for ipu, program in enumerate(programs)
        ),
        ipus=tuple(
            IpuMemory(ipu=ipu, stages=(ipu,), memory=program.memory)
            for ipu, program in enumerate(programs)
        ),
        timeline=dataclasses.replace(one.timeline, busy_cycles=ipus * one.timeline.busy_cycles),
        replicas=replicas,
        replica_ipus=ipus,
        in_step=ipus > 1,
    )
