"""The Keras models that train on the simulated IPU.

Inside `IPUStrategy.scope()` Keras models become these; scripts may also use them by name.
A model whose strategy is not an `IPUStrategy` behaves as the stock class does.

`KerasHooks` has what Keras calls on them; `TrainingState` holds their options.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar

import keras

from ipu_tf.internals.keras import KerasFunctional, is_functional_call
from ipu_tf.internals.keras_layers import all_layers_of
from ipu_tf.keras.adapters.graphs import Structure
from ipu_tf.keras.deployment.model_pipeline import check_recorded_stages, remove_assigned_stages
from ipu_tf.keras.identity import KerasIdentity, add_functional_base
from ipu_tf.keras.keras3.hooks import KerasHooks
from ipu_tf.keras.keras3.operation_scopes import in_own_scope

_BUILDING_SEQUENTIAL: ContextVar[bool] = ContextVar("ipu_tf.keras.keras3.models", default=False)
"""Whether a functional model that is made is the graph of a Sequential."""


class Model(KerasIdentity, KerasHooks):
    """A `keras.Model` that trains on the IPU of the strategy in whose scope it was made.

    Use it as `keras.Model`: `Model(inputs, outputs)` is a functional model, and subclasses
    implement `call`.
    """

    _stands_for = keras.Model

    def __new__(cls, *args: object, **kwargs: object) -> Model:
        """Returns an uninitialised model, a functional one for inputs and outputs."""
        if cls is Model and is_functional_call(args, kwargs):
            return keras.Model.__new__(Functional)
        return keras.Model.__new__(cls)

    def __init__(self, *args: object, **kwargs: object) -> None:
        if is_functional_call(args, kwargs):
            # Keras would do this to every class up to `keras.Model`, `Model` among them.
            add_functional_base(type(self), {Model: Functional, keras.Model: KerasFunctional})
            make: Callable[..., None] = Functional.__init__
            make(self, *args, **kwargs)
        else:
            keras.Model.__init__(self, *args, **kwargs)


class Functional(Model, KerasFunctional):
    """A `Model` that is a graph of layers, made by `Model(inputs, outputs)`."""

    _stands_for = KerasFunctional

    def __init__(
        self, inputs: Structure, outputs: Structure, name: str | None = None, **kwargs: object
    ) -> None:
        KerasFunctional.__init__(self, inputs, outputs, name=name, **kwargs)
        if not _BUILDING_SEQUENTIAL.get():
            check_recorded_stages(self)

    def _run_through_graph(
        self,
        inputs: Structure,
        operation_fn: Callable[[keras.Operation], Callable[..., Structure]] = lambda operation: (
            operation
        ),
        call_fn: Callable[..., Structure] | None = None,
    ) -> Structure:
        if call_fn is not None:  # It takes operations without calling them.
            return super()._run_through_graph(inputs, operation_fn, call_fn)

        def scoped(operation: keras.Operation) -> Callable[..., Structure]:
            return in_own_scope(operation, operation_fn(operation))

        return super()._run_through_graph(inputs, scoped)


class Sequential(Model, keras.Sequential):
    """A `keras.Sequential` that trains on the IPU of the strategy in whose scope it was made."""

    _stands_for = keras.Sequential
    _layers: list[keras.Layer]

    def __init__(
        self,
        layers: list[keras.Layer] | None = None,
        trainable: bool = True,
        name: str | None = None,
    ) -> None:
        keras.Sequential.__init__(self, layers, trainable=trainable, name=name)

    def build(self, input_shape: Sequence[object] | Mapping[str, object] | None = None) -> None:
        """See `keras.Sequential.build`; inputs get the dtype that the first layer asks for.

        Keras would assume floating point numbers, whatever the layer says. The stages of layers are
        checked when the model runs.
        """
        if self._layers and not isinstance(self._layers[0], keras.layers.InputLayer):
            first = _first_layer(self)
            is_single = not any(map(keras.tree.is_nested, input_shape or [()]))
            if is_single and first.input_dtype != first.compute_dtype:
                inputs = keras.layers.InputLayer(batch_shape=input_shape, dtype=first.input_dtype)
                self._layers = [inputs, *self._layers]
        token = _BUILDING_SEQUENTIAL.set(True)
        try:
            super().build(input_shape)
        finally:
            _BUILDING_SEQUENTIAL.reset(token)

    def add(self, layer: keras.Layer, rebuild: bool = True) -> None:
        """See `keras.Sequential.add`; drops assigned stages."""
        remove_assigned_stages(self)
        super().add(layer, rebuild)

    def pop(self, rebuild: bool = True) -> keras.Layer:
        """See `keras.Sequential.pop`; drops assigned stages."""
        remove_assigned_stages(self)
        return super().pop(rebuild)


def _first_layer(model: keras.Layer) -> keras.Layer:
    """Returns the first layer of a Sequential, also through nested ones."""
    while isinstance(model, keras.Sequential) and all_layers_of(model):
        model = all_layers_of(model)[0]
    return model
