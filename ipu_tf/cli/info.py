"""`ipu-tf info`: the chips and systems that can be simulated, and this build."""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ipu_tf import __version__
from ipu_tf.cli.command import Command
from ipu_tf.cli.output import add_json, print_json
from ipu_tf.machine import CHIPS, SYSTEMS, System, Target, streaming

_FLOPS_PER_MAC = 2
_TYPES = ("float16", "float32")
_PACKAGES = ("tensorflow", "keras", "numpy")


def _run(options: argparse.Namespace) -> int:
    chips = [_chip(chip) for chip in CHIPS.values()]
    systems = [_system(system) for system in SYSTEMS.values()]
    build = _build()
    if options.json:
        print_json({"chips": chips, "systems": systems, "build": build})
        return 0
    from ipu_tf.profile.text.table import table
    from ipu_tf.profile.text.units import count

    header = ("tiles", "tile memory", "clock", "memory", "float16", "float32")
    rows = [
        (
            chip["chip"],
            f"{chip['tiles']:,}",
            f"{chip['tile_bytes'] // 1024} KiB",
            f"{chip['clock_hz'] / 1e9:g} GHz",
            count(chip["memory_bytes"], "B"),
            *(count(chip[f"{dtype}_flops_per_second"], "FLOP/s") for dtype in _TYPES),
        )
        for chip in chips
    ]
    print("\n".join(table(("chip", *header), rows)))
    print()
    header = ("chip", "IPUs", "memory", "streaming memory", "float16", "float32")
    rows = [
        (
            system["system"],
            system["chip"],
            f"{system['ipus']:,}",
            count(system["memory_bytes"], "B"),
            count(system["streaming_bytes"], "B") if system["streaming_bytes"] else "none",
            *(count(system[f"{dtype}_flops_per_second"], "FLOP/s") for dtype in _TYPES),
        )
        for system in systems
    ]
    print("\n".join(table(("system", *header), rows)))
    print()
    for name, value in build.items():
        print(f"{name.replace('_', ' '):<22}{value}")
    return 0


def _chip(chip: Target) -> dict[str, Any]:
    """Returns the figures of a chip."""
    peaks = {
        f"{dtype}_flops_per_second": _FLOPS_PER_MAC
        * chip.macs_per_cycle(dtype)
        * chip.tiles
        * chip.clock_hz
        for dtype in _TYPES
    }
    return {
        "chip": chip.chip,
        "tiles": chip.tiles,
        "tile_bytes": chip.tile_bytes,
        "clock_hz": chip.clock_hz,
        "memory_bytes": chip.tiles * chip.tile_bytes,
        **peaks,
    }


def _system(system: System) -> dict[str, Any]:
    """Returns the figures of a system: its IPUs times those of a chip."""
    chip = _chip(system.target)
    totals = {name: system.ipus * chip[name] for name in chip if name.endswith("_second")}
    return {
        "system": system.name,
        "chip": chip["chip"],
        "ipus": system.ipus,
        "memory_bytes": system.ipus * chip["memory_bytes"],
        "streaming_bytes": streaming.capacity_bytes(system, system.ipus),
        **totals,
    }


def _build() -> Mapping[str, str]:
    """Returns the versions of this installation, without loading what they are of."""
    versions = {"ipu_tf": __version__, "Python": platform.python_version()}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "missing"
    versions["tile_ops"] = (
        "built" if _has_tile_ops() else "not built: run `python -m ops.build_ops`"
    )
    if importlib.util.find_spec("ipu_tf._build_info") is not None:
        from ipu_tf import _build_info

        versions["built_for_TensorFlow"] = _build_info.TENSORFLOW_VERSION
        versions["built_with"] = _build_info.COMPILER
    return versions


def _has_tile_ops() -> bool:
    return (Path(__file__).resolve().parents[1] / "_ops.so").exists()


INFO = Command(
    name="info",
    summary="print the chips and systems, and this build",
    description="Prints the chips and systems that can be simulated, and what this is built for. "
    "The totals of a system are its IPUs times the figures of a chip.",
    add_arguments=add_json,
    run=_run,
)
