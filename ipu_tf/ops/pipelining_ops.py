"""The options of a pipeline: the order of its stages, recomputation, options of stages."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf


class PipelineSchedule(enum.Enum):
    """The order in which the stages of different micro-batches run.

    Grouped runs the forward passes of all stages at once, then all backward passes. Interleaved
    alternates forward and backward passes, with less to stash. Sequential runs one micro-batch at a
    time.
    """

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(enum.Enum):
    """How the backward pass of a stage gets the activations of its forward pass.

    Auto leaves it to the configuration and the schedule. RecomputeThenBackpropagate recomputes a
    whole stage, then runs its backward pass. RecomputeAndBackpropagateInterleaved recomputes from
    checkpoint to checkpoint.
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
    """Returns the tensors; a pipeline stage keeps them when it recomputes activations.

    Args:
        tensors: A tensor, or a structure of tensors.
        name: Name of the operations.
    """
    return tf.nest.map_structure(lambda tensor: tf.identity(tensor, name=name), tensors)


def schedule_depth(schedule: PipelineSchedule, ipus: Sequence[int], *, training: bool) -> int:
    """Returns the number that must divide the micro-batches of a pipeline's run.

    Grouped: the number of scheduled passes, forward and in training also backward. Interleaved: the
    number of micro-batches that the IPUs can share so that no IPU has two passes at once, which is
    the number of rotations of the IPUs' order that do not meet. Sequential: 1.

    Args:
        schedule: Order of the stages.
        ipus: IPU of each stage.
        training: Whether backward passes are scheduled, too.
    """
    passes = [*ipus, *reversed(ipus)] if training else list(ipus)
    if schedule is PipelineSchedule.Sequential:
        return 1
    if schedule is PipelineSchedule.Grouped:
        return len(passes)
    return len(_rotations_apart(passes))


def _rotations_apart(passes: Sequence[int]) -> list[list[int]]:
    """Returns rotations of a sequence, no two of which have the same value at the same place."""
    kept: list[list[int]] = []
    for offset in range(len(passes)):
        rotation = [*passes[offset:], *passes[:offset]]
        if all(a != b for other in kept for a, b in zip(rotation, other, strict=True)):
            kept.append(rotation)
    return kept
