"""The share of every tile in a superstep: computed when a report asks for it, not when it compiles.

Models what the cost model charges, tile by tile: vertices run for the same time on every tile of a
stage, and on the tiles of a plan in proportion to their blocks. Data leaves tiles in proportion to
what they hold, and arrives in proportion to what they get.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.target import Target
from ipu_tf.machine.tile_figures import TileFigures
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.plan_blocks import plan_blocks
from ipu_tf.planner.shapes import OpShape
from ipu_tf.tile_program.layouts.layout import BlockLayout, View, tile_counts
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.layouts.plan_layout import plan_blocks_of


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorRoute:
    """A tensor on its way between tiles, as a part of an exchange.

    Attributes:
        source: The tiles that send.
        destination: The tiles that receive; None for those of the stage.
        received_bytes: Bytes that the receivers get together.
        sent_bytes: Bytes that the senders send together, each once however many tiles listen.
    """

    source: Placement
    destination: Placement | None = None
    received_bytes: int
    sent_bytes: int

    def part(self, share: float) -> TensorRoute:
        """Returns the way of a part of the tensor.

        Args:
            share: The part, above 0 and at most 1.
        """
        return dataclasses.replace(
            self,
            received_bytes=math.ceil(self.received_bytes * share),
            sent_bytes=math.ceil(self.sent_bytes * share),
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageWork:
    """The work of a superstep whose vertices take as long on every tile that computes.

    Attributes:
        tiles: Tiles of the chip.
        where: The tiles that compute, and receive.
        routes: The known parts of the exchange; the rest is between the tiles of the stage.
        times: Runs of the stage in sequence.
    """

    tiles: int
    where: Placement
    routes: tuple[TensorRoute, ...] = ()
    times: int = 1

    def figures(self, superstep: Superstep) -> TileFigures:
        """Returns the figures of every tile; they add up to those of the superstep."""
        received_bytes, sent_bytes = _route_bytes(self.routes, self.where, self.tiles)
        received_bytes, sent_bytes = self.times * received_bytes, self.times * sent_bytes
        even = np.ones(self.where.tiles, np.int64)
        remainder = proportional_shares(superstep.exchange_bytes - int(received_bytes.sum()), even)
        _add(received_bytes, remainder, self.where.first_tile)
        _add(sent_bytes, remainder, self.where.first_tile)
        compute = np.zeros(self.tiles, np.int64)
        _add(compute, proportional_shares(superstep.busy_tile_cycles, even), self.where.first_tile)
        return _figures(superstep, compute, received_bytes, sent_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class HostWork:
    """The work of a transfer between tiles and host: no tile computes.

    Attributes:
        tiles: Tiles of the chip.
        operands: Tensors that go to the host.
        results: Tensors that come from it.
    """

    tiles: int
    operands: tuple[Placement, ...]
    results: tuple[Placement, ...]

    def figures(self, superstep: Superstep) -> TileFigures:
        """Returns the figures of every tile; bytes in and out add up to those of the superstep."""
        compute, received_bytes, sent_bytes = np.zeros((3, self.tiles), np.int64)
        for placements, direction_bytes in (
            (self.operands, sent_bytes),
            (self.results, received_bytes),
        ):
            for placement in placements:
                _add(
                    direction_bytes,
                    proportional_shares(placement.bytes, held_elements(placement)),
                    placement.first_tile,
                )
        return _figures(superstep, compute, received_bytes, sent_bytes)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BroadcastWork:
    """The work of a superstep in which tile 0 sends a value to all others and all act on it.

    Attributes:
        tiles: Tiles of the chip.
    """

    tiles: int

    def figures(self, superstep: Superstep) -> TileFigures:
        """Returns the figures of every tile; they add up to those of the superstep."""
        everyone = np.ones(self.tiles, np.int64)
        receivers = everyone.copy()
        receivers[0] = self.tiles == 1
        received_bytes = proportional_shares(superstep.exchange_bytes, receivers)
        sent_bytes = np.zeros(self.tiles, np.int64)
        sent_bytes[0] = received_bytes.max()
        return _figures(
            superstep,
            proportional_shares(superstep.busy_tile_cycles, everyone),
            received_bytes,
            sent_bytes,
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PlanWork:
    """The work of a superstep of a contraction: tiles compute in proportion to their blocks.

    A tile whose blocks differ from one serial step to the next counts with their mean.

    Attributes:
        target: The machine.
        shape: The contraction.
        plan: How it is split.
        first_tile: The first tile of the plan.
        routes: Parts of the exchange besides those of the plan.
    """

    target: Target
    shape: OpShape
    plan: Plan
    first_tile: int = 0
    routes: tuple[TensorRoute, ...] = ()

    def figures(self, superstep: Superstep) -> TileFigures:
        """Returns the figures of every tile; they add up to those of the superstep."""
        tiles = self.target.tiles
        blocks = tile_counts(plan_blocks_of(self.shape, self.plan))
        received_bytes, sent_bytes = _route_bytes(self.routes, None, tiles)
        own_bytes = superstep.exchange_bytes - int(received_bytes.sum())
        _add(received_bytes, proportional_shares(own_bytes, blocks), self.first_tile)
        stage_bytes = self._multicast_bytes() if superstep.name == "multiply" else own_bytes
        _add(sent_bytes, proportional_shares(stage_bytes, blocks), self.first_tile)
        compute = np.zeros(tiles, np.int64)
        shares = proportional_shares(
            superstep.busy_tile_cycles, blocks, most=superstep.compute_cycles
        )
        _add(compute, shares, self.first_tile)
        return _figures(superstep, compute, received_bytes, sent_bytes)

    def _multicast_bytes(self) -> int:
        """Returns the bytes of operand blocks that more than one tile reads: each is sent once."""
        plans = Candidates.of(self.plan)
        blocks = plan_blocks(self.shape, plans, self.target)
        sides = (
            (blocks.left_bytes, plans.tile_parts(self.shape.left_shared_by)),
            (blocks.right_bytes, plans.tile_parts(self.shape.right_shared_by)),
        )
        shares = (ceil_div(held_bytes, readers) for held_bytes, readers in sides if readers > 1)
        return int(sum(shares)) * self.plan.tiles


def held_elements(placement: Placement) -> NDArray[np.int64]:
    """Returns the elements on every tile of a placement, int64[placement.tiles].

    Tiles of a layout that is only known by name count alike.
    """
    layout = placement.layout.base if isinstance(placement.layout, View) else placement.layout
    blocks = layout if isinstance(layout, BlockLayout) else placement.blocks
    if blocks is None or blocks.elements != placement.elements or blocks.tiles > placement.tiles:
        return np.ones(placement.tiles, np.int64)
    counts = np.zeros(placement.tiles, np.int64)
    counts[: blocks.tiles] = tile_counts(blocks)
    return counts


def proportional_shares(
    total: int, weights: NDArray[np.int64], *, most: int | None = None
) -> NDArray[np.int64]:
    """Returns whole numbers in proportion to weights that add up to a total.

    Args:
        total: Their sum.
        weights: int64[tiles], not all of them 0.
        most: The largest of them may be no larger; None for no limit.
    """
    whole = int(weights.sum())
    kinds, place = np.unique(weights, return_inverse=True)
    shares = np.array([total * int(kind) // whole for kind in kinds], np.int64)[place]
    takers = (weights > 0) & (shares < most) if most is not None else weights > 0
    shares[np.flatnonzero(takers)[: total - int(shares.sum())]] += 1
    return shares


def _route_bytes(
    routes: Sequence[TensorRoute], where: Placement | None, tiles: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Returns the bytes that every tile receives and sends on some routes."""
    received_bytes, sent_bytes = np.zeros((2, tiles), np.int64)
    for route in routes:
        to = route.destination or where
        if to is None:
            continue
        even = np.ones(to.tiles, np.int64)
        shares_of_tiles = even if route.destination is None else held_elements(to)
        _add(
            received_bytes,
            proportional_shares(route.received_bytes, shares_of_tiles),
            to.first_tile,
        )
        share_bytes = proportional_shares(route.sent_bytes, held_elements(route.source))
        _add(sent_bytes, share_bytes, route.source.first_tile)
    return received_bytes, sent_bytes


def _add(counts: NDArray[np.int64], shares: NDArray[np.int64], first_tile: int) -> None:
    """Adds the shares of consecutive tiles to the counts of all; tile 0 follows the last one."""
    counts[(first_tile + np.arange(len(shares))) % len(counts)] += shares


def _figures(
    superstep: Superstep,
    compute: NDArray[np.int64],
    received_bytes: NDArray[np.int64],
    sent_bytes: NDArray[np.int64],
) -> TileFigures:
    return TileFigures.of(
        compute=compute,
        received_bytes=received_bytes,
        sent_bytes=sent_bytes,
        compute_cycles=superstep.compute_cycles,
        exchange_cycles=superstep.exchange_cycles,
    )
