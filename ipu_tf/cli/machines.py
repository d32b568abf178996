"""The machine that `--chip` names."""

from __future__ import annotations

from typing import Any

from ipu_tf.machine import CHIPS
from ipu_tf.user_objects import UsageError, is_path, named


def machine_named(chip: str) -> Any:
    """Returns the chip of that name, or the object named "module:name".

    Raises:
        UsageError: There is no such chip, module or name.
    """
    if chip in CHIPS:
        return chip
    if not is_path(chip):
        raise UsageError(
            f"--chip takes {', '.join(CHIPS)}, or MODULE:NAME of a target or system. "
            f"Received: {chip!r}."
        )
    return named(chip, "target or system")
