"""Checks of device programs that files describe: lengths, indices and sizes that make sense."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ipu_tf.base import codec
from ipu_tf.machine.tile_figures import TileRuns
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.program import Step, TileMemory, TileProgram

_MOST_TILES = 1 << 20
_MOST_IPUS = 1 << 20
_MOST_MICRO_BATCHES = 100_000


def check_device(device: DeviceProgram, path: str) -> None:
    """Checks a device program of a file.

    Args:
        device: The program.
        path: Where it stands in the file, for messages.

    Raises:
        CodecError: A number is no count, an array has not an entry for every tile or step, an index
            leads nowhere, or a size is beyond any machine.
    """
    _check_counts(device, path)
    _check_sizes(device, path)
    _check_arrays(device, path)
    for index, stage in enumerate(device.stages):
        _check_tensors(stage.program, device.target.tiles, f"{path}.stages[{index}].program")


def _check_sizes(device: DeviceProgram, path: str) -> None:
    numbers, stages = [ipu.ipu for ipu in device.ipus], len(device.stages)
    _check_range(device.target.tiles, 1, _MOST_TILES, f"{path}.target.tiles")
    _check_range(device.micro_batches, 1, _MOST_MICRO_BATCHES, f"{path}.micro_batches")
    _check_range(device.replicas * device.replica_ipus, 1, _MOST_IPUS, f"{path}.replicas: IPUs")
    for index, stage in enumerate(device.stages):
        if stage.ipu not in numbers:
            raise codec.CodecError(
                f"{path}.stages[{index}].ipu: expected one of the IPUs {numbers}. "
                f"Received: {stage.ipu}."
            )
    if len(device.timeline.busy_cycles) != len(numbers):
        raise codec.CodecError(
            f"{path}.timeline.busy_cycles: expected {len(numbers)} entries, one for each IPU. "
            f"Received: {len(device.timeline.busy_cycles)}."
        )
    for index, crossing in enumerate(device.crossings):
        for name in ("source", "destination"):
            where = f"{path}.crossings[{index}].{name}"
            _check_range(getattr(crossing, name), 0, stages - 1, where)


def _check_tensors(program: TileProgram, tiles: int, path: str) -> None:
    last = max(0, len(program.steps) - 1)
    for index, tensor in enumerate(program.tensors):
        where = f"{path}.tensors[{index}]"
        for name in ("first_step", "last_step"):
            _check_range(getattr(tensor, name), 0, last, f"{where}.{name}")
        _check_range(tensor.footprint.first_tile, 0, tiles - 1, f"{where}.footprint.first_tile")
        _check_range(tensor.footprint.tiles, 0, tiles, f"{where}.footprint.tiles")


def _check_range(value: int, least: int, most: int, path: str) -> None:
    if not least <= value <= most:
        raise codec.CodecError(f"{path}: expected {least} to {most:,}. Received: {value}.")


def _check_arrays(device: DeviceProgram, path: str) -> None:
    """Checks that arrays have an entry for every tile, or step."""
    tiles = device.target.tiles
    for index, stage in enumerate(device.stages):
        program, where = stage.program, f"{path}.stages[{index}].program"
        _check_memory(program.memory, tiles, len(program.steps), where)
        for number, step in enumerate(program.steps):
            _check_tiles(step, tiles, f"{where}.steps[{number}]")
    for index, ipu in enumerate(device.ipus):
        steps = len(ipu.memory.live_bytes)
        _check_memory(ipu.memory, tiles, steps, f"{path}.ipus[{index}]")


def _check_counts(value: object, path: str) -> None:
    """Checks that all numbers of a program are counts: cycles, bytes, tiles, steps."""
    if isinstance(value, np.ndarray):
        _check_count(int(value.min(initial=0)), path)
    elif isinstance(value, TileRuns):
        _check_count(min(value.values), path)
    elif isinstance(value, int | float):
        _check_count(value, path)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            _check_counts(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            _check_counts(entry, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            _check_counts(entry, f"{path}[{index}]")


def _check_count(count: float, path: str) -> None:
    if count < 0:
        raise codec.CodecError(f"{path}: expected a count, at least 0. Received: {count}.")


def _check_memory(memory: TileMemory, tiles: int, steps: int, path: str) -> None:
    lengths = {
        f"{name}.{category}": (len(values), tiles)
        for name in ("always_live", "not_always_live_peak")
        for category, values in getattr(memory, name).items()
    }
    for name in ("live_bytes", "max_tile_bytes"):
        lengths[name] = (len(getattr(memory, name)), steps)
    for name, (entries, length) in lengths.items():
        if entries != length:
            raise codec.CodecError(
                f"{path}.memory.{name}: expected {length} entries. Received: {entries}."
            )
    _check_range(memory.peak_step, 0, max(0, steps - 1), f"{path}.memory.peak_step")
    if not memory.limit_bytes:
        raise codec.CodecError(f"{path}.memory.limit_bytes: expected a positive int. Received: 0.")
    if not memory.always_live and not memory.not_always_live_peak:
        raise codec.CodecError(f"{path}.memory.always_live: expected a category. Received: none.")


def _check_tiles(step: Step, tiles: int, path: str) -> None:
    """Checks that the figures of supersteps have an entry for every tile."""
    for index, superstep in enumerate(step.supersteps):
        if superstep.tiles is None:
            continue
        for field in dataclasses.fields(superstep.tiles):
            run_tiles = sum(getattr(superstep.tiles, field.name).tiles)
            if run_tiles != tiles:
                raise codec.CodecError(
                    f"{path}.supersteps[{index}].tiles.{field.name}: expected runs of {tiles} "
                    f"tiles. Received: {run_tiles}."
                )
