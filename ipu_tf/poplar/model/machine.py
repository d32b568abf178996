"""The machine of a Poplar target."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from ipu_tf.machine.system import System, system_of
from ipu_tf.machine.target import CHIPS

_CHIPS = {"ipu1": "gc2", "ipu2": "gc200"}


class NotModelledError(Exception):
    """Cycles and memory of a program are not modelled; the message says why."""


def system_of_target(target: Mapping[str, Any]) -> System:
    """Returns the system with the numbers of a target.

    Raises:
        NotModelledError: The target is a CPU, or has several IPUs.
    """
    if target["kind"] == "cpu":
        raise NotModelledError(
            "A CPU target has no tiles, so there are no cycles to report. Use an IPUModel, or a "
            "device of TargetType::IPU."
        )
    if target["ipus"] != 1:
        raise NotModelledError(
            "Cycles and memory are modelled for graphs on one IPU. Use a device of one IPU. "
            f"Received: {target['ipus']}."
        )
    chip = CHIPS[_CHIPS[target["version"]]]
    own = dataclasses.replace(
        chip,
        tiles=target["tiles_per_ipu"],
        workers=target["workers"],
        tile_bytes=target["tile_bytes"],
        system_bytes=min(chip.system_bytes, target["tile_bytes"] - 1),
        exchange_bytes_per_cycle=target["exchange_bytes_per_cycle"],
        paired_exchange_bytes_per_cycle=2 * target["exchange_bytes_per_cycle"],
        clock_hz=target["clock_hz"],
    )
    return system_of(own)
