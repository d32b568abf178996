"""Gives a model's outputs where only their shapes count, without a call of all its layers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

import keras
import tensorflow as tf

from ipu_tf.internals.keras import KerasFunctional
from ipu_tf.internals.structures import TensorStructure

_OUTPUTS: ContextVar[tuple[keras.Model, object] | None] = ContextVar("ipu_tf.outputs", default=None)


@contextlib.contextmanager
def known_outputs(model: keras.Model, outputs: object) -> Iterator[None]:
    """Makes the calls of a model inside give placeholders of its symbolic outputs.

    Keras calls a model to build its loss and metrics, which takes as long as the forward pass of a
    trace. Only of graphs of layers without a `call` of the user's: these are built, and their
    outputs are those of the layers.

    Args:
        model: The model.
        outputs: Its symbolic outputs for the inputs of these calls; None to call its layers.
    """
    is_graph = model.__class__ in (KerasFunctional, keras.Sequential) and model.built
    token = _OUTPUTS.set((model, outputs) if is_graph and outputs is not None else None)
    try:
        yield
    finally:
        _OUTPUTS.reset(token)


def placeholders_of_outputs(model: keras.Model) -> TensorStructure:
    """Returns placeholders of the known outputs of a model; None if none are known."""
    model_outputs = _OUTPUTS.get()
    if model_outputs is None or model_outputs[0] is not model:
        return None
    return keras.tree.map_structure(_placeholder, model_outputs[1])


def _placeholder(output: keras.KerasTensor) -> tf.Tensor:
    return tf.compat.v1.placeholder(output.dtype, output.shape)
