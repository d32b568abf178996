"""The names of the vendor's public interface."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ipu_tf.compat.modules import SHOWS_ITS_MODULES, current_name


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorName:
    """A name of the vendor's public interface.

    Attributes:
        name: Dotted, with the short names of packages: `ipu` for `tensorflow.python.ipu`.
        kind: "function", "class", "enum", "option", or a member of a class.
        priority: "A" where published examples use it, "B" where the user guide does, or "C".
        signature: Its parameters with defaults, or the members of an enum.
    """

    name: str
    kind: str
    priority: str
    signature: str


@cache
def vendor_api() -> dict[str, VendorName]:
    """Returns every name of the vendor's public interface, in the order of its reference."""
    text = resources.files(__package__).joinpath("vendor_api.csv").read_text()
    return {row["name"]: VendorName(**row) for row in csv.DictReader(text.splitlines())}


def full_name(short: str, name: str) -> str | None:
    """Returns a name as the interface lists it, or None if a module has no such name.

    `ipu.nn_ops.gelu` is `ipu.ops.nn_ops.gelu`; `ipu.optimizers` shows the classes of its modules.
    """
    prefixes = _prefixes(short)
    for whole_name in vendor_api():
        prefix, _, last = whole_name.rpartition(".")
        if last == name and (prefix in prefixes or _re_exports(prefix, current_name(short))):
            return whole_name
    return None


def names_below(short: str) -> set[str]:
    """Returns the names of the interface that a module has, without the module's own name."""
    prefixes = _prefixes(short)
    parts = (whole_name.rpartition(".") for whole_name in vendor_api())
    return {last for prefix, _, last in parts if prefix in prefixes or _re_exports(prefix, short)}


def _prefixes(short: str) -> tuple[str, ...]:
    short = current_name(short)
    return (
        (short, f"ipu.ops.{short.removeprefix('ipu.')}") if short.startswith("ipu.") else (short,)
    )


def _re_exports(module: str, package: str) -> bool:
    """Returns whether a package shows the names of that module as its own."""
    return (
        module.rpartition(".")[0] == package
        and package in SHOWS_ITS_MODULES
        and module not in vendor_api()
    ) or (package, module) == ("ipu", "ipu.ops.functional_ops")
