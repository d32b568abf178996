"""Writes docs/compatibility.md: `python -m ipu_tf.compat.document [PATH]`."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import ipu_tf.compat
from ipu_tf.base.page_tables import table, with_table
from ipu_tf.compat.arguments import UNUSED_ARGUMENTS, UnusedArguments
from ipu_tf.compat.finder import install
from ipu_tf.compat.spellings.spelling import Spelling
from ipu_tf.compat.spellings.table import SPELLINGS
from ipu_tf.compat.states import NameState, State, states
from ipu_tf.compat.tf_keras.habits import SPELLINGS as HABITS
from ipu_tf.internals.patches import Patch, patches_of

_PAGE = Path("docs/compatibility.md")


def document(page: str) -> str:
    """Returns the page with its tables made anew; installs the vendor's names.

    Raises:
        ValueError: The page lacks the markers of the tables.
    """
    install()
    page = with_table(page, "TensorFlow", _spellings(SPELLINGS))
    page = with_table(page, "Keras 2.6", _spellings(HABITS))
    page = with_table(page, "replaced methods", _methods(replaced_methods()))
    page = with_table(page, "arguments", _arguments(UNUSED_ARGUMENTS))
    return with_table(page, "names", _tables(states()))


def replaced_methods() -> tuple[Patch, ...]:
    """Returns the methods of others that modules of this package replace, each once."""
    modules = pkgutil.walk_packages(ipu_tf.compat.__path__, f"{ipu_tf.compat.__name__}.")
    patches = (
        patch
        for module in modules
        for patch in patches_of(importlib.import_module(module.name))
        # Models and optimizers of the IPU have some of these methods, too; those are our own.
        if not getattr(patch.owner, "__module__", patch.owner.__name__).startswith("ipu_tf")
    )
    return tuple(dict.fromkeys(patches))


def _methods(patches: Iterable[Patch]) -> str:
    of_reason: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for patch in patches:
        of_reason[patch.reason][str(patch)] = None  # Two Keras have methods of one name.
    rows = ((_code(methods), reason) for reason, methods in of_reason.items())
    return table(("replaced", "so that"), rows)


def _spellings(spellings: Iterable[Spelling]) -> str:
    rows = ((one.name, one.before, one.here) for one in spellings)
    return table(("spelling", "before", "here"), rows)


def _arguments(all_unused: Iterable[UnusedArguments]) -> str:
    rows = ((_code(unused.arguments), _code(unused.names), unused.why) for unused in all_unused)
    return table(("arguments", "of", "why"), rows)


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _tables(names: list[NameState]) -> str:
    modules = groupby(names, key=lambda name: _module(name))
    sections = (_section(module, tuple(names_of_module)) for module, names_of_module in modules)
    return f"{_counts(names)}\n{''.join(sections)}"


def _module(name: NameState) -> str:
    """Returns the first words of the name: those of its module."""
    parts = name.vendor_name.name.split(".")
    length = next((n for n, part in enumerate(parts) if part != part.lower()), len(parts) - 1)
    return ".".join(parts[: max(length, 1)])


def _counts(names: list[NameState]) -> str:
    states_of = Counter((name.state, name.vendor_name.priority) for name in names)
    rows = (
        (state.value, *(str(states_of[state, priority]) for priority in "ABC"), str(total))
        for state in State
        if (total := sum(states_of[state, priority] for priority in "ABC"))
    )
    header = ("state", "in published examples", "in the user guide", "other", "all")
    return table(header, rows)


def _section(module: str, names: tuple[NameState, ...]) -> str:
    rows = (
        (f"`{name.vendor_name.name.removeprefix(module + '.')}`", name.state.value, name.why)
        for name in names
    )
    return f"\n### {module}\n\n{table(('name', 'state', 'why, and what to do'), rows)}"


if __name__ == "__main__":
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else _PAGE
    path.write_text(document(path.read_text()))
