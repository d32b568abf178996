"""The ways to train a model on several IPUs that `auto_pipeline` compares."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.tile_program.device_program import DeviceProgram

Split: TypeAlias = Literal["whole", "balanced", "even"]
"""How layers are split. whole: every replica is one IPU that has all of them. balanced: the longest
stage is as short as possible. even: every stage has as many layers as any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineCandidate:
    """The modelled figures of one compiled way to train a model.

    Attributes:
        split: How its layers are split.
        stages: Stage of each call of a layer, in the order of the calls.
        options: How its stages run.
        cycles: Cycles from one weight update to the next.
        samples_per_second: Samples that all replicas train in a second.
        bubble_share: Share of the IPUs' time in which they wait for other stages, in [0, 1].
        limiting_stage: The stage with the longest passes.
        ipu_bytes: Bytes in use on the fullest tile of each IPU of a replica.
        tile_bytes: Bytes that a tile has.
    """

    split: Split
    stages: tuple[int, ...]
    options: Deployment
    cycles: int
    samples_per_second: float
    bubble_share: float
    limiting_stage: int
    ipu_bytes: tuple[int, ...]
    tile_bytes: int

    @classmethod
    def of(
        cls,
        program: DeviceProgram,
        *,
        split: Split,
        stages: tuple[int, ...],
        options: Deployment,
    ) -> PipelineCandidate:
        """Returns the figures of a program; the other arguments are attributes."""
        return cls(
            split=split,
            stages=stages,
            options=options,
            cycles=program.cycles,
            samples_per_second=program.samples_per_second or 0.0,
            bubble_share=program.timeline.bubble_share,
            limiting_stage=program.limiting_stage.index,
            ipu_bytes=tuple(int(ipu.memory.peak_tile_bytes.max()) for ipu in program.ipus),
            tile_bytes=program.target.tile_bytes,
        )

    @property
    def overflow_bytes(self) -> int:
        """Bytes by which the fullest tile of all exceeds the memory of a tile; 0 if it fits."""
        return max(0, max(self.ipu_bytes) - self.tile_bytes)

    @property
    def fits(self) -> bool:
        """Whether no tile needs more than it has."""
        return not self.overflow_bytes

    @property
    def cycles_per_micro_batch(self) -> float:
        """Cycles of a weight update, shared out among the micro-batches of all replicas."""
        return self.cycles / (self.options.micro_batches * self.options.replicas)

    @property
    def rank(self) -> tuple[int, float]:
        """The sort key, best first: bytes over the limit, then cycles of a micro-batch."""
        return self.overflow_bytes, self.cycles_per_micro_batch
