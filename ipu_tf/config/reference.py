"""The tables of docs/config.md, from the declarations.

`python -m ipu_tf.config.reference docs/config.md` writes them into the page, between its markers.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any

from ipu_tf.base.page_tables import table, with_table
from ipu_tf.config.declaration import Option, attribute_table, option_declarations
from ipu_tf.config.ipu_config import IPUConfig


def with_tables(page: str) -> str:
    """Returns a page with its generated tables brought up to date.

    Raises:
        ValueError: The page lacks the markers of a table.
    """
    page = with_table(page, "options", _effective())
    return with_table(page, "no effect", _without_effect())


def _effective() -> str:
    rows = [(*_cells(name, option), option.effect) for name, option in _declared() if option.effect]
    return table(("option", "type", "default", "meaning", "what it does here"), rows)


def _without_effect() -> str:
    rows = [_cells(name, option) for name, option in _declared() if not option.effect]
    return table(("option", "type", "default", "meaning on the machine"), rows)


def _declared() -> Iterable[tuple[str, Option]]:
    return option_declarations(IPUConfig)


def _cells(name: str, option: Option) -> tuple[str, ...]:
    kind = attribute_table(IPUConfig)[name].type or ""
    return f"`{name}`", f"`{kind}`", f"`{_literal(option.default)}`", option.doc


def _literal(value: Any) -> str:
    return str(value) if isinstance(value, Enum) else repr(value)


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(with_tables(path.read_text()))
