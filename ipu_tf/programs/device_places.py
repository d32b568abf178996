"""Where the device computes an operation: step, superstep, stage, tiles."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from ipu_tf.machine.superstep import Superstep
from ipu_tf.programs.op_names import own_name
from ipu_tf.tile_program.device_program import DeviceProgram, StageProgram
from ipu_tf.tile_program.element_tiles import tile_of_element
from ipu_tf.tile_program.program import Step

Neighbours: TypeAlias = Callable[[str], Iterable[str]]
"""From the name of an operation to those beside it in the flow of values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpPlace:
    """The place of an operation.

    Attributes:
        step: Number of its step, among those of its stage.
        superstep: Name of the last superstep of the step with work for tiles, "" without one.
        tiles: Number of tiles that work in it.
        tile_ranges: First and last number of these tiles, range by range.
        tile: Number of the tile that computes the wanted element; None where it is not known.
        ipu: Number of the IPU within a replica; None in a program of one IPU.
        stage: Number of the pipeline stage; None in a program of one.
        joined_with: Name of the operation that the step is of, if it is not of this one; else "".
    """

    step: int
    superstep: str = ""
    tiles: int = 0
    tile_ranges: tuple[tuple[int, int], ...] = ()
    tile: int | None = None
    ipu: int | None = None
    stage: int | None = None
    joined_with: str = ""


class DevicePlaces:
    """Finds the places of operations in device programs.

    Args:
        devices: The programs; None for one that has none.
    """

    def __init__(self, *devices: DeviceProgram | None) -> None:
        self._steps: dict[str, list[tuple[DeviceProgram, StageProgram, int, Step]]] = {}
        for device in (one for one in devices if one is not None):
            for stage in device.stages:
                for number, step in enumerate(stage.program.steps):
                    if step.op_name and step.supersteps:
                        steps = self._steps.setdefault(own_name(step.op_name), [])
                        steps.append((device, stage, number, step))

    def of_neighbour(
        self,
        op_name: str,
        shape: Sequence[int],
        index: Sequence[int],
        neighbours: Callable[[], tuple[Neighbours, Neighbours] | None],
    ) -> OpPlace | None:
        """Returns the place of an operation, or of its `step_owner`; None if there is neither.

        Args:
            op_name: Its name in its function.
            shape: Shape of its result.
            index: Indices of an element of the result.
            neighbours: Returns the readers and the sources of operations, as `step_owner` takes
                them; None where they are not known.
        """
        place = self.of(op_name, shape, index)
        beside = neighbours() if place is None else None
        if beside is None:
            return place
        neighbour = self.step_owner(op_name, *beside)
        place = self.of(neighbour, shape, index)
        return None if place is None else dataclasses.replace(place, joined_with=neighbour)

    def step_owner(self, op_name: str, readers: Neighbours, sources: Neighbours) -> str:
        """Returns the operation whose step computes one without a step of its own; "" for none.

        The compiler joins element-wise operations with those that read them, and recognises chains
        of others: it is the nearest of those behind it, else of those before it.

        Args:
            op_name: Its name in its function.
            readers: From the name of an operation to those that read it.
            sources: From the name of an operation to those that it reads.
        """
        for neighbours in (readers, sources):
            visits, worklist = {op_name}, deque([op_name])
            while worklist:
                for name in neighbours(worklist.popleft()):
                    if name in self._steps:
                        return name
                    if name not in visits:
                        visits.add(name)
                        worklist.append(name)
        return ""

    def of(self, op_name: str, shape: Sequence[int], index: Sequence[int]) -> OpPlace | None:
        """Returns the place of an operation; None if no step of the program is its own.

        Of several steps it is the first whose result has the element, if there is one.

        Args:
            op_name: Its name in its function.
            shape: Shape of its result.
            index: Indices of an element of the result.
        """
        steps = self._steps.get(op_name)
        if steps is None:
            return None
        candidates = [(entry, _last_that_computes(entry[3])) for entry in steps]
        tiles = [
            None if one is None else tile_of_element(one, shape, index) for _, one in candidates
        ]
        pick = next((number for number, tile in enumerate(tiles) if tile is not None), 0)
        (device, stage, number, _), superstep = candidates[pick]
        ranges = () if superstep is None else _ranges(superstep)
        return OpPlace(
            step=number,
            superstep="" if superstep is None else superstep.name,
            tiles=sum(last - first + 1 for first, last in ranges),
            tile_ranges=ranges,
            tile=tiles[pick],
            ipu=stage.ipu if len(device.ipus) > 1 else None,
            stage=stage.index if len(device.stages) > 1 else None,
        )


def _last_that_computes(step: Step) -> Superstep | None:
    """Returns the last superstep of a step with work for tiles."""
    computing = (s for s in reversed(step.supersteps) if s.busy_tile_cycles and s.compute_cycles)
    return next(computing, None)


def _ranges(superstep: Superstep) -> tuple[tuple[int, int], ...]:
    """Returns the first and last number of the tiles that compute, range by range."""
    figures = superstep.tile_figures
    if figures is None:
        return ()
    busy = np.flatnonzero(figures.compute_cycles.counts)
    ranges = np.split(busy, np.flatnonzero(np.diff(busy) > 1) + 1)
    return tuple((int(one[0]), int(one[-1])) for one in ranges if one.size)
