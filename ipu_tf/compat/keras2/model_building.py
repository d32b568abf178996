"""`Model.build` as Keras 2 had it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2.training import has_own_step
from ipu_tf.compat.spellings.spelling import Call, Notify, Spelling
from ipu_tf.internals.keras import KerasTrainer
from ipu_tf.internals.keras_layers import all_layers_of, layers_within
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.keras.steps.overrides import needed_arguments

_LAYER_BUILDS = Patch(keras.Layer, "build", "models make the weights of their layers")
_SYMBOLIC_BUILDS = Patch(
    KerasTrainer, "_symbolic_build", "models without a `call` are trained by their own step"
)
_BUILT_SEQUENTIALS = Patch(keras.Sequential, "build", "a Sequential with an Input may be built")

_FRAMES = 2
"""The frames of this module below those of Keras in which a model is built."""


def _building(notify: Notify) -> Wrap:
    """Returns the factory of the `build` that layers inherit, which builds the layers of models."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def build(layer: keras.Layer, input_shape: Any = None) -> None:
            is_model = isinstance(layer, keras.Model) and input_shape is not None
            is_unbuilt = is_model and not all(part.built for part in layers_within(layer))
            if is_unbuilt and not _is_built_by_its_call(layer):
                notify()
                _build_by_call(layer, input_shape)
            stock(layer, input_shape)

        return build

    return wrap


def _is_built_by_its_call(model: keras.Model) -> bool:
    """Returns whether a call of a model builds it: it has made all weights that the call needs.

    Layers that the call does not use stay without weights.
    """
    frame = inspect.currentframe()
    for _ in range(_FRAMES):
        frame = frame and frame.f_back
    while frame is not None and frame.f_globals.get("__name__") == keras.Layer.__module__:
        if frame.f_code.co_name == "_maybe_build" and frame.f_locals.get("self") is model:
            return True
        frame = frame.f_back
    return False


def _build_by_call(model: keras.Model, shapes: Any) -> None:
    """Makes the weights of a model by a symbolic call.

    Args:
        model: The model.
        shapes: A structure of shapes and of symbolic tensors.

    Raises:
        ValueError: The call fails.
    """
    _check_arguments(model)
    inputs = symbolic_inputs(shapes)
    try:
        model.compute_output_spec(inputs, **_training_of(model))
    except Exception as error:
        raise ValueError(
            f"`build` of model '{model.name}': its `call` fails on float inputs of shape {shapes}: "
            f"{error} You cannot build your model if your layers do not support float type inputs: "
            "call the model with a batch, or with a keras.Input of the right dtype, in place of "
            "`build`."
        ) from error


def _check_arguments(model: keras.Model) -> None:
    """Checks that a model can be called with its inputs alone.

    Raises:
        ValueError: Its `call` needs further arguments.
    """
    further = needed_arguments(model)
    if further:
        raise ValueError(
            f"`build` of model '{model.name}': you cannot build your model if it has positional "
            f"arguments in its `call` beside the inputs. Received: {', '.join(further)}. Call the "
            "model with a batch in place of `build`."
        )


def symbolic_inputs(shapes: Any) -> Any:
    """Returns a structure of symbolic tensors.

    Raises:
        ValueError: What came is neither a shape nor a structure of shapes.
    """
    if isinstance(shapes, keras.KerasTensor):
        return shapes
    if isinstance(shapes, Mapping):
        return {name: symbolic_inputs(part) for name, part in shapes.items()}
    if isinstance(shapes, tf.TensorShape):
        return keras.KerasTensor(tuple(shapes.as_list()))
    if not isinstance(shapes, list | tuple):
        raise ValueError(
            "The input shape is not one of the valid types: a list, a tuple or a dictionary of "
            f"sizes or of shapes, a tf.TensorShape. Received: {shapes!r}."
        )
    if all(size is None or hasattr(size, "__int__") for size in shapes):
        return keras.KerasTensor(tuple(map(_size, shapes)))
    return type(shapes)(symbolic_inputs(part) for part in shapes)


def _size(size: Any) -> int | None:
    """Returns the size of a dimension; that of TensorFlow 1 may hold None."""
    value = getattr(size, "value", size)
    return None if value is None else int(value)


def _training_of(model: keras.Model) -> dict[str, bool]:
    """Returns the argument `training` if the `call` of a model has no default of it."""
    parameter = inspect.signature(model.call).parameters.get("training")
    needs_it = parameter is not None and parameter.default is inspect.Parameter.empty
    return {"training": False} if needs_it else {}


def _of_its_input(call: Call) -> bool:
    """Builds a Sequential that has an input with the shape of that if the given one fits."""
    layers = all_layers_of(call.owner)
    if not layers or not isinstance(layers[0], keras.layers.InputLayer) or not call.args:
        return False
    own, given = layers[0].batch_shape, call.args[0]
    if given is None or len(given) != len(own) or tuple(given) == tuple(own):
        return False
    if any(None not in pair and pair[0] != pair[1] for pair in zip(own, given, strict=True)):
        return False
    call.args = (own, *call.args[1:])
    return True


def _without_call(notify: Notify) -> Wrap:
    """Returns the factory of the build before a step, for models that their step alone calls."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def symbolic_build(model: keras.Model, *args: Any, **kwargs: Any) -> None:
            if type(model).call is not keras.Model.call or not has_own_step(model):
                stock(model, *args, **kwargs)
                return
            notify()
            model.built = True
            optimizer = getattr(model, "optimizer", None)
            if optimizer is not None and not optimizer.built and model.trainable_variables:
                optimizer.build(model.trainable_variables)

        return symbolic_build

    return wrap


SPELLINGS = (
    Spelling(
        name="`fit` of a model with a `train_step` and without a `call`",
        keras_2="The step called the parts of the model.",
        here="It does; Keras 3 alone needs a `call`, by which it builds the model first.",
        wraps=MappingProxyType({_SYMBOLIC_BUILDS: _without_call}),
    ),
    Spelling(
        name="`model.build(input_shape)` of a class of models without a `build`",
        keras_2="It made the weights of the model's layers.",
        here="It makes them; Keras 3 alone marks the model as built, without weights.",
        wraps=MappingProxyType({_LAYER_BUILDS: _building}),
    ),
    Spelling(
        name="`model.build((8, 4))` of a Sequential with an `Input((4,))`",
        keras_2="It did nothing: the Sequential was built.",
        here="It is built with the shape of its input; Keras 3 alone refuses another batch size.",
        rewrites=MappingProxyType({_BUILT_SEQUENTIALS: _of_its_input}),
    ),
)
