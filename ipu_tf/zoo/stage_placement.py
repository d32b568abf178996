"""Places the blocks of a network: which stage runs a block, which results are kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import keras

from ipu_tf.keras.layers.recomputation import RecomputationCheckpoint
from ipu_tf.keras.pipeline.scope import PipelineStage

Block: TypeAlias = tuple[str, Callable[..., keras.KerasTensor]]
"""A part of a network: its name, and the function from its inputs to its results."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlacement:
    """Where the blocks of a network run, and which of their results recomputation keeps.

    Attributes:
        stages: Names of the blocks that begin the pipeline stages 1, 2 and so on, in the order of
            the network; none for a network without stages.
        checkpoints: Names of the blocks after which activations are kept while the rest is
            recomputed.
    """

    stages: tuple[str, ...] = ()
    checkpoints: tuple[str, ...] = ()


WHOLE = StagePlacement()
"""A network in one piece, without checkpoints."""


def chain(
    inputs: keras.KerasTensor, blocks: Sequence[Block], placement: StagePlacement = WHOLE
) -> keras.KerasTensor:
    """Returns the result of blocks that are called one after the other.

    Args:
        inputs: Symbolic inputs of the first block.
        blocks: The blocks, in order.
        placement: Their stages and checkpoints.

    Raises:
        ValueError: The placement names a block that the network does not have, or its stages are
            not in the order of the blocks.
    """
    _check(placement, [name for name, _ in blocks])
    stage, values = 0, inputs
    for name, block in blocks:
        stage += name in placement.stages
        with PipelineStage(stage) if placement.stages else contextlib.nullcontext():
            values = block(values)
            if name in placement.checkpoints:
                values = RecomputationCheckpoint(name=f"checkpoint_{name}")(values)
    return values


def _check(placement: StagePlacement, names: Sequence[str]) -> None:
    for kind, blocks in (("stages", placement.stages), ("checkpoints", placement.checkpoints)):
        unknown = [name for name in blocks if name not in names]
        if unknown:
            raise ValueError(
                f"the network has no block {', '.join(map(repr, unknown))}. Name blocks of "
                f"{', '.join(names)}. Received: {kind}={list(blocks)!r}."
            )
    begins = [names.index(name) for name in placement.stages]
    if begins != sorted(set(begins)) or 0 in begins:
        raise ValueError(
            "stages begin at blocks in the order of the network, after its first block "
            f"{names[0]!r}. Received: stages={list(placement.stages)!r}."
        )
