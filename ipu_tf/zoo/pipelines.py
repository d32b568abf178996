"""Puts the blocks of a network on the IPUs of a pipeline."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from ipu_tf.zoo.stage_placement import StagePlacement

HEAD = "head"
"""The block that reads the weights of the first one, in networks that say so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedPipeline:
    """How a network runs that no single IPU holds.

    Attributes:
        placement: Its stages.
        micro_batches: Micro-batches of a weight update on each replica.
        options: Further options, as `set_pipelining_options` takes them.
    """

    placement: StagePlacement
    micro_batches: int
    options: Mapping[str, object] = field(default_factory=dict)


def with_head_on_first_ipu(
    placement: StagePlacement,
) -> tuple[StagePlacement, list[int] | None]:
    """Returns the placement with the head as a stage of its own, and the IPU of every stage.

    Stages that share weights run on one IPU, so the head is on that of the embeddings.

    Args:
        placement: Of a network whose head reads the weights of its first block.
    """
    if not placement.stages:
        return placement, None
    body = tuple(name for name in placement.stages if name != HEAD)
    mapping = [*range(len(body) + 1), 0]
    return dataclasses.replace(placement, stages=(*body, HEAD)), mapping
