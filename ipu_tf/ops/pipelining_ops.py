"""What a pipeline is told: the order of its stages, what it computes again, options of stages."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


class PipelineSchedule(enum.Enum):
    """In which order the stages of different micro-batches run.

    Grouped runs the forward passes of all stages at once, then all backward passes. Interleaved
    runs a forward and a backward pass by turns, with less to stash. Sequential runs one
    micro-batch at a time.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(enum.Enum):
    """How the backward pass of a stage gets the activations of its forward pass.

    Auto leaves it to the configuration and the schedule. RecomputeThenBackpropagate computes all
    of a stage again, then its backward pass. RecomputeAndBackpropagateInterleaved computes again
    from checkpoint to checkpoint.
    """

    Auto = 0
    RecomputeThenBackpropagate = 1
    RecomputeAndBackpropagateInterleaved = 2


@dataclass(frozen=True)
class PipelineStageOptions:
    """Options of the operations of one stage, by the names that the machine's libraries use.

    Attributes:
        convolution_options: Options of convolutions.
        matmul_options: Options of matrix products.
        slice_options: Options of lookups.
    """

    convolution_options: Mapping[str, str] | None = None
    matmul_options: Mapping[str, str] | None = None
    slice_options: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for name in ("convolution_options", "matmul_options", "slice_options"):
            options = getattr(self, name) or {}
            if not isinstance(options, Mapping) or not all(
                isinstance(part, str) for item in options.items() for part in item
            ):
                raise TypeError(
                    f"`{name}` must map names of options to their values, both strings. "
                    f"Received: {options!r}."
                )
            object.__setattr__(self, name, dict(options))


@tf.autograph.experimental.do_not_convert
def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """Returns the tensors, which a pipeline stage keeps when it computes activations again.

    Args:
        tensors: A tensor, or a structure of tensors.
        name: Name of the operations.
    """
    return tf.nest.map_structure(lambda tensor: tf.identity(tensor, name=name), tensors)


def schedule_depth(schedule: PipelineSchedule, ipus: Sequence[int], *, training: bool) -> int:
    """Returns the number that the micro-batches of a run of a pipeline are a multiple of.

    Grouped: the passes that are scheduled, forward and in training backward. Interleaved: how
    many micro-batches the IPUs can be shared among so that no IPU has two passes at once, which is
    the number of rotations of the IPUs' order that do not meet. Sequential: 1.

    Args:
        schedule: Order of the stages.
        ipus: IPU of each stage.
        training: Whether the passes back are scheduled, too.
    """
    passes = [*ipus, *reversed(ipus)] if training else list(ipus)
    if schedule is PipelineSchedule.Sequential:
        return 1
    if schedule is PipelineSchedule.Grouped:
        return len(passes)
    return len(_rotations_apart(passes))


def _rotations_apart(passes: Sequence[int]) -> list[list[int]]:
    """Returns rotations of a sequence of which no two have the same value at the same place."""
    kept: list[list[int]] = []
    for offset in range(len(passes)):
        rotation = [*passes[offset:], *passes[:offset]]
        if all(a != b for other in kept for a, b in zip(rotation, other, strict=True)):
            kept.append(rotation)
    return kept
