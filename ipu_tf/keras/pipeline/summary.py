"""Prints the stage assignment of a model as a table."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Sequence

from ipu_tf.keras.adapters.graphs import GraphModel
from ipu_tf.keras.pipeline.assignments import (
    Assignment,
    ModelLayerPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)

_DEFAULT_LINE_LENGTH = 80
_LEAST_LINE_LENGTH = 32
_STAGE = "Pipeline Stage"
_NAMES_SHARE = 5 / 8  # Of the width beside the stages; inputs get the rest.


def lines(
    model: GraphModel, assignments: Sequence[Assignment], line_length: int | None = None
) -> Iterator[str]:
    """Returns the lines of the table. Text too long for its column continues in the next line.

    Args:
        model: The model.
        assignments: The assignments of its layers.
        line_length: Characters of a line.

    Raises:
        ValueError: `line_length` leaves no room for the columns.
    """
    length = _DEFAULT_LINE_LENGTH if line_length is None else line_length
    if type(length) is not int or length < _LEAST_LINE_LENGTH:
        raise ValueError(
            f"`line_length` must be an integer of at least {_LEAST_LINE_LENGTH}, for the columns "
            f"of the pipeline stage summary. Received: {line_length!r}."
        )
    return itertools.chain(_wrap(f'Model: "{model.name}"', length), _table(assignments, length))


def _table(assignments: Sequence[Assignment], length: int) -> Iterator[str]:
    by_call = any(hasattr(assignment, "node_index") for assignment in assignments)
    header = ("Layer (type) (node index)", "Input Layers") if by_call else ("Layer (type)",)
    columns = length - len(_STAGE)
    names = int(columns * _NAMES_SHARE)
    widths = (names, columns - names, len(_STAGE)) if by_call else (columns, len(_STAGE))
    yield "_" * length
    yield from _row((*header, _STAGE), widths)
    yield "=" * length
    for assignment in assignments:
        if isinstance(assignment, SequentialNestedModelPipelineStageAssignment):
            yield ""
            yield from _wrap(f'Nested Model: "{assignment.nested_model.name}"', length)
            yield from _table(assignment.pipeline_stage_assignments, length)
            yield ""
        else:
            yield from _row(_cells(assignment), widths)
    yield "_" * length


def _cells(assignment: SequentialLayerPipelineStageAssignment) -> tuple[str, ...]:
    layer, stage = assignment.layer, assignment.pipeline_stage
    name = f"{layer.name} ({type(layer).__name__})"
    if not isinstance(assignment, ModelLayerPipelineStageAssignment):
        return name, str(stage)
    inbound = assignment.inbound_layers
    inputs = inbound if isinstance(inbound, list) else [inbound]
    names = ", ".join(layer.name for layer in inputs if layer is not None)
    return f"{name} ({assignment.node_index})", names, str(stage)


def _row(cells: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """Yields the lines of a row; all columns but the last end with a space."""
    *inner_widths, last = widths
    columns = [
        _wrap(cell, width)
        for cell, width in zip(cells, (*(width - 1 for width in inner_widths), last), strict=True)
    ]
    for parts in itertools.zip_longest(*columns, fillvalue=""):
        cells_of_line = (part.ljust(width) for part, width in zip(parts, widths, strict=True))
        yield "".join(cells_of_line).rstrip()


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)
