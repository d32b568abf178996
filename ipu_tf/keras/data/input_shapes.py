"""Shapes that the caller gives to inputs whose sizes a model leaves open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

import tensorflow as tf
from keras import tree

from ipu_tf.internals.structures import Shape, SpecStructure
from ipu_tf.keras.adapters.graphs import GraphModel, Structure

ShapeStructure: TypeAlias = (
    "tf.TensorShape | Sequence[int | tf.Tensor | None] | Sequence[ShapeStructure] "
    "| dict[str, ShapeStructure]"
)
"""The shapes that a model is built for: of its input, or a list or dictionary of shapes."""

Shapes: TypeAlias = Mapping[str, Shape] | Shape
"""Whole shapes of inputs by name, or that of a model's only input; None as the first size stands
for the batch size."""


def with_shapes(
    model: GraphModel, declared: Structure, batch_size: int, shapes: Shapes
) -> dict[str, tuple[int | None, ...]]:
    """Returns the shapes of the inputs that are given, by name.

    Args:
        model: The model.
        declared: Its inputs, in its structure.
        batch_size: Samples of a batch.
        shapes: The given shapes.

    Raises:
        ValueError: There is no such input, a shape is no sequence of sizes, or it contradicts the
            declared one.
    """
    inputs = {
        getattr(one, "name", None) or "input": tuple(one.shape) for one in tree.flatten(declared)
    }
    by_name = _by_name(model, shapes, list(inputs))
    specs = {}
    for name, shape in by_name.items():
        if name not in inputs:
            raise ValueError(
                f"Model '{model.name}' has no input '{name}'. Its inputs are {', '.join(inputs)}. "
                f"Received: input_shapes={shapes!r}."
            )
        specs[name] = _sizes_of(shape, inputs[name], batch_size, f"Model '{model.name}', '{name}'")
    return specs


def specs_of_shapes(shapes: ShapeStructure, dtype: str) -> SpecStructure:
    """Returns specs for the shapes that a model was built for.

    Args:
        shapes: The shapes.
        dtype: The type of all inputs.
    """
    if isinstance(shapes, dict):
        return {name: specs_of_shapes(shape, dtype) for name, shape in shapes.items()}
    if any(isinstance(part, tuple | list | dict | tf.TensorShape) for part in shapes):
        return [specs_of_shapes(shape, dtype) for shape in shapes]
    sizes = cast("Sequence[int | tf.Tensor | None]", shapes)
    return tf.TensorSpec([None if size is None else int(size) for size in sizes], dtype)


def _by_name(model: GraphModel, shapes: Shapes, names: Sequence[str]) -> Mapping[str, Shape]:
    if isinstance(shapes, Mapping):
        return shapes
    if len(names) > 1:
        raise ValueError(
            f"Model '{model.name}' has {len(names)} inputs: give `input_shapes` by name, of "
            f"{', '.join(names)}. Received: input_shapes={shapes!r}."
        )
    return {names[0]: shapes}


def _sizes_of(
    shape: Any, declared: tuple[int | None, ...], batch_size: int, where: str
) -> tuple[int | None, ...]:
    is_shape = isinstance(shape, Sequence) and not isinstance(shape, str)
    if not is_shape or not all(size is None or _is_size(size) for size in shape):
        raise ValueError(
            f"{where}: a shape in `input_shapes` is a sequence of positive ints, the first of them "
            f"None for the batch size. Received: {shape!r}."
        )
    sizes = tuple(shape)
    if sizes and sizes[0] is None:
        sizes = (batch_size, *sizes[1:])
    agrees = len(sizes) == len(declared) and all(
        declared_size is None or declared_size == size
        for size, declared_size in zip(sizes, declared, strict=True)
    )
    if not agrees:
        raise ValueError(
            f"{where}: the shape in `input_shapes` contradicts the declared {declared}, in which "
            f"only None is open. Received: {sizes}."
        )
    return sizes


def _is_size(size: object) -> bool:
    return isinstance(size, int) and not isinstance(size, bool) and size > 0
