"""The machine that `--chip` and `--ipus`, or `--system`, name."""

from __future__ import annotations

import argparse
from typing import cast

from ipu_tf.base.user_objects import UsageError, is_path, named
from ipu_tf.machine import CHIPS, SYSTEMS, System, Target, system


def add_machine(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that name a machine."""
    parser.add_argument(
        "--chip",
        help=f"{', '.join(CHIPS)}, or MODULE:NAME of a target or system of your own; default: bow",
    )
    parser.add_argument("--ipus", type=int, help="IPUs of the system; default: 1")
    parser.add_argument(
        "--system",
        help=f"all IPUs of a system, in place of --chip and --ipus: {', '.join(SYSTEMS)}",
    )


def machine_of(options: argparse.Namespace) -> tuple[str | Target | System, int]:
    """Returns the chip or system of the arguments, and its number of IPUs.

    Raises:
        UsageError: There is no such chip or system, or both are given.
    """
    if options.system is None:
        chip = "bow" if options.chip is None else options.chip
        return machine_named(chip), 1 if options.ipus is None else options.ipus
    if options.chip is not None or options.ipus is not None:
        raise UsageError(
            "--system names chip and IPUs: leave out --chip and --ipus. "
            f"Received: --system {options.system}, --chip {options.chip}, --ipus {options.ipus}."
        )
    try:
        machine = system(options.system)
    except ValueError as error:
        raise UsageError(error) from error
    return machine, machine.ipus


def machine_named(chip: str) -> str | Target | System:
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
    return cast(Target | System, named(chip, "target or system"))
