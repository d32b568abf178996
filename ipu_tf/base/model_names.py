"""Names of models, "module:function", "file.py:function" or "zoo:network", checked by texts."""

from __future__ import annotations

import ast
import difflib
from pathlib import Path

from ipu_tf.base.user_objects import UsageError, found_in_text, is_path

ZOO = "zoo"
"""Stands for a module in names of the zoo's networks, as in "zoo:resnet50"."""


def check_name(path: str) -> None:
    """Refuses names of models that are known not to exist; loads neither Keras nor the model.

    Args:
        path: The name.

    Raises:
        UsageError: It names nothing.
    """
    if not is_path(path):
        raise UsageError(
            "name the model as MODULE:FUNCTION, FILE.py:FUNCTION or zoo:NETWORK. "
            f"Received: {path!r}."
        )
    name, networks = path.removeprefix(f"{ZOO}:"), networks_of_zoo()
    if name == path:
        found_in_text(path, "function")
    elif name not in networks:
        close = difflib.get_close_matches(name, networks, 1)
        advice = f"Did you mean '{close[0]}'? " if close else ""
        raise UsageError(
            f"the zoo has no network of that name. {advice}Choose one of {', '.join(networks)}. "
            f"Received: {name!r}."
        )


def networks_of_zoo() -> tuple[str, ...]:
    """Returns the names of the zoo's networks, from the text of their table: it loads Keras."""
    text = (Path(__file__).resolve().parents[1] / "zoo" / "networks.py").read_text()
    tables = [
        node.value
        for node in ast.parse(text).body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "NETWORKS"
    ]
    keys = tables[0].keys if tables and isinstance(tables[0], ast.Dict) else ()
    return tuple(str(key.value) for key in keys if isinstance(key, ast.Constant))


def is_of_zoo(path: str) -> bool:
    """Returns whether a path names a network of the zoo."""
    return path.startswith(f"{ZOO}:")
