"""The variable scopes of TensorFlow 1, and the numbers in their names.

A scope without a name of its own is numbered: `Norm`, `Norm_1`. Leaving a scope that was entered by
its object forgets the numbers given inside.
"""

from __future__ import annotations

from collections.abc import Mapping

from tensorflow.python.ops.variable_scope import get_variable_scope_store


def numbers_of_scopes() -> dict[str, int]:
    """Returns how often scopes of each name were opened in the current graph.

    Relies on `variable_scopes_count` of the store: no public function tells it.
    """
    return dict(get_variable_scope_store().variable_scopes_count)


def number_scopes(numbers: Mapping[str, int]) -> None:
    """Sets how often scopes of each name were opened: the next ones get the next numbers.

    Relies on the same attribute: a graph goes on after a computation that it holds.
    """
    get_variable_scope_store().variable_scopes_count = dict(numbers)
