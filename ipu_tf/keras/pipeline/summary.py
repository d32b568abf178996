"""The stage assignment of a model as a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import keras

_DEFAULT_LINE_LENGTH = 80
_SHARES = (0.5, 0.8, 1.0)  # Where the columns end, as parts of a line.


def lines(
    model: keras.Model, assignments: Sequence[Any], line_length: int | None = None
) -> Iterator[str]:
    """Returns the lines of the table.

    Args:
        model: The model.
        assignments: The assignments of its layers.
        line_length: Characters of a line.
    """
    length = line_length or _DEFAULT_LINE_LENGTH
    yield f'Model: "{model.name}"'
    yield from _table(assignments, length)


def _table(assignments: Sequence[Any], length: int) -> Iterator[str]:
    yield "_" * length
    by_call = any(hasattr(assignment, "node_index") for assignment in assignments)
    first = "Layer (type) (node index)" if by_call else "Layer (type)"
    yield _row((first, "Input Layers" if by_call else "", "Pipeline Stage"), length)
    yield "=" * length
    for assignment in assignments:
        if assignment.is_nested_model:
            yield ""
            yield f'Nested Model: "{assignment.nested_model.name}"'
            yield from _table(assignment.pipeline_stage_assignments, length)
            yield ""
        else:
            yield _row(_cells(assignment), length)
    yield "_" * length


def _cells(assignment: Any) -> tuple[str, str, str]:
    layer, stage = assignment.layer, assignment.pipeline_stage
    name = f"{layer.name} ({type(layer).__name__})"
    if not hasattr(assignment, "node_index"):
        return name, "", str(stage)
    inbound = assignment.inbound_layers
    inputs = inbound if isinstance(inbound, list) else [inbound]
    names = ", ".join(layer.name for layer in inputs if layer is not None)
    return f"{name} ({assignment.node_index})", names, str(stage)


def _row(cells: Sequence[str], length: int) -> str:
    line = ""
    for cell, share in zip(cells, _SHARES, strict=True):
        end = int(length * share)
        line = f"{line}{cell}"[: end - 1].ljust(end)
    return line.rstrip()
