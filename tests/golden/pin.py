"""Pins the figures of the standard networks: `python -m tests.golden.pin` (or `./dev pin`).

A change of the model shows as a difference of tests/golden/figures.json; this command is the only
way to change that file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import keras

import ipu_tf
from ipu_tf import IPUConfig
from ipu_tf.profile.figures import program_figures as figures
from tests.networks import NETWORKS

PINNED = Path(__file__).with_name("figures.json")
CHIPS = ("gc200", "bow")


def _build(name: str) -> keras.Model:
    model = NETWORKS[name].build()
    model.compile(keras.optimizers.SGD(0.016, momentum=0.9), "categorical_crossentropy")
    return model


def figures_of(name: str, chip: str) -> dict[str, Any]:
    """Returns the figures of a network's train step on a chip."""
    config = IPUConfig()
    config.simulator.chip = chip
    keras.backend.clear_session()  # Layers are named anew.
    report = ipu_tf.estimate(
        lambda: _build(name), batch_size=NETWORKS[name].batch_size, config=config
    )
    device = report.programs[0].device
    shares, tile_bytes = figures.cycle_shares(device), figures.tile_bytes(device.memory)
    return {
        "cycles": shares.total,
        "compute_cycles": shares.compute,
        "exchange_cycles": shares.exchange,
        "sync_cycles": shares.sync,
        "host_cycles": shares.host,
        "flops": figures.flops(device),
        "steps": len(device.steps),
        "max_tile_bytes": int(tile_bytes.max()),
        "all_tiles_bytes": int(tile_bytes.sum()),
        "always_live_bytes": int(sum(each.sum() for each in device.memory.always_live.values())),
    }


def main() -> None:
    """Computes all figures and writes the file."""
    pinned = {name: {chip: figures_of(name, chip) for chip in CHIPS} for name in NETWORKS}
    PINNED.write_text(json.dumps(pinned, indent=2) + "\n")
    print(f"Pinned the figures of {len(pinned)} networks in {PINNED}.")


if __name__ == "__main__":
    main()
