"""Deprecated names: each still works for one version, with a warning that names the new one."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Mapping


def deprecated_names(
    module: str, names: Mapping[str, str], others: Mapping[str, str] | None = None
) -> Callable[[str], object]:
    """Returns the `__getattr__` of a module that finds its deprecated names, and warns.

    Args:
        module: Name of the module.
        names: The new name of each deprecated one, with its module: "ipu_tf.compiler.Name".
        others: Full names of those that still exist, because the new one takes other arguments.
    """

    def find(name: str) -> object:
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        warn(f"{module}.{name}", names[name])
        home, _, attribute = (others or {}).get(name, names[name]).rpartition(".")
        return getattr(importlib.import_module(home), attribute)

    return find


def warn(old: str, new: str) -> None:
    """Warns that the code which called the caller uses a deprecated name.

    Args:
        old: The deprecated name.
        new: The name to use instead.
    """
    warnings.warn(
        f"{old} is deprecated, and the next version removes it. Use {new}.",
        DeprecationWarning,
        stacklevel=3,
    )
