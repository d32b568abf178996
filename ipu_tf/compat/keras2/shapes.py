"""Shapes of inputs that Keras 2 took: whole numbers, and those with the batch size."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras_layers import all_layers_of
from ipu_tf.internals.patches import Patch

_INPUT_LAYERS = Patch(keras.layers.InputLayer, "__init__", "a shape may be a whole number")
_SEQUENTIAL_LAYERS = Patch(keras.Sequential, "add", "the first layer may tell the batch size")

_BATCH_SHAPE = "keras_2_batch_shape"
"""Attribute of a layer: the `batch_input_shape` that it was made with."""


def _whole(shape: Any) -> int | None:
    """Returns a shape as a whole number, None if it is anything else."""
    try:
        return operator.index(shape)
    except TypeError:
        return None


def _whole_shape(call: Call) -> bool:
    """Makes the shape of an input a tuple."""
    if call.args:
        call.kwargs["shape"], call.args = call.args[0], ()
    size = _whole(call.kwargs.get("shape"))
    if size is not None:
        call.kwargs["shape"] = (size,)
    return size is not None


def _whole_input_shape(call: Call) -> bool:
    """Makes the `input_shape` of a layer a tuple."""
    size = _whole(call.kwargs.get("input_shape"))
    if size is not None:
        call.kwargs["input_shape"] = (size,)
    return size is not None


def _input_length(call: Call) -> bool:
    """Makes the `input_length` of an embedding its `input_shape`."""
    if "input_length" not in call.kwargs:
        return False
    length = call.kwargs.pop("input_length")
    shape = length if isinstance(length, tuple | list) else (length,)
    if length is not None and "batch_input_shape" not in call.kwargs:
        call.kwargs.setdefault("input_shape", tuple(shape))
    return True


def _keeping_batch_shape(notify: Notify, stock: Callable[..., None]) -> Callable[..., None]:
    """Returns an initializer of layers that keeps `batch_input_shape` for a Sequential."""

    def init(layer: keras.Layer, /, *args: Any, **kwargs: Any) -> None:
        batch_shape = kwargs.pop("batch_input_shape", None)
        if batch_shape is None and "input_shape" in kwargs and "batch_size" in kwargs:
            batch_shape = (kwargs.pop("batch_size"), *kwargs.pop("input_shape"))
        stock(layer, *args, **kwargs)
        if batch_shape is not None:
            notify()
            setattr(layer, _BATCH_SHAPE, tuple(batch_shape))

    return init


def _adding_inputs(notify: Notify, stock: Callable[..., None]) -> Callable[..., None]:
    """Returns an `add` of Sequential that gives the batch size of the first layer to its input."""
    del notify  # Given where the layer is made.

    def add(model: keras.Sequential, layer: Any, rebuild: bool = True) -> None:
        batch_shape = getattr(layer, _BATCH_SHAPE, None)
        if batch_shape is not None and not all_layers_of(model):
            stock(model, keras.layers.InputLayer(batch_shape=batch_shape), rebuild)
        stock(model, layer, rebuild)

    return add


SPELLINGS = (
    Spelling(
        name="`Input(shape=80)`, `Input(80)`, `Input(shape=(80))`, `InputLayer(input_shape=80)`",
        keras_2="A whole number was a shape of one dimension.",
        here="A whole number is read as `(80,)`.",
        rewrites=MappingProxyType({_INPUT_LAYERS: _whole_shape}),
    ),
    Spelling(
        name="`input_shape=80` of a layer",
        keras_2="A whole number was a shape of one dimension.",
        here="A whole number is read as `(80,)`.",
        rewrites=MappingProxyType({patches.LAYER_ARGUMENTS: _whole_input_shape}),
    ),
    Spelling(
        name="`batch_input_shape=` of a layer",
        keras_2="The first layer of a Sequential told the shape of its input with the batch size.",
        here="The Sequential gets an `Input(batch_shape=...)`.",
        wraps=MappingProxyType(
            {
                patches.LAYER_ARGUMENTS: lambda notify: partial(_keeping_batch_shape, notify),
                _SEQUENTIAL_LAYERS: lambda notify: partial(_adding_inputs, notify),
            }
        ),
    ),
    Spelling(
        name="`Embedding(input_length=)`",
        keras_2="It told the shape of the input, so that layers after it had static shapes.",
        here="It is read as `input_shape=(input_length,)`.",
        rewrites=MappingProxyType({patches.EMBEDDING_ARGUMENTS: _input_length}),
    ),
)
