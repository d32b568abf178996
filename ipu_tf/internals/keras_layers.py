"""What Keras keeps private of layers: where they are, what they hold, how they are called."""

from __future__ import annotations


import keras
import tensorflow as tf

from ipu_tf.internals.keras import keras_global_attribute


def keras_layer_path() -> str:
    """Returns the path of the layer that is being called, "" outside of layers.

    A layer in another one is below it, wherever it was built: for Keras, a layer that was built on
    its own stays outside. TensorFlow's name scopes number layers anew. Relies on the
    `name_scope_stack` among Keras' global attributes, and on `name_scope.caller` and
    `name_scope.override_parent`, the path where the caller was built.
    """
    parts: list[str] = []
    in_layer = False
    for scope in keras_global_attribute("name_scope_stack") or ():
        if scope.override_parent is not None and not in_layer:
            parts = [part for part in scope.override_parent.split("/") if part]
        parts.append(scope.name)
        if scope.caller is not None:
            in_layer = isinstance(scope.caller, keras.Layer)
            in_layer = in_layer and not isinstance(scope.caller, keras.Model)
    return "/".join(parts)


def is_in_optimizer() -> bool:
    """Returns whether a Keras optimizer is being called.

    The public name scopes have only names. Relies on the `name_scope_stack` among Keras' global
    attributes, and on `name_scope.caller`.
    """
    scopes = keras_global_attribute("name_scope_stack") or ()
    return any(isinstance(scope.caller, keras.optimizers.Optimizer) for scope in scopes)


def layers_within(model: keras.Layer) -> list[keras.Layer]:
    """Returns all layers in a model, those of nested models and layers, too, but not itself.

    The public `Model.layers` leaves out layers that are attributes of layers. Relies on
    `Layer._flatten_layers`.
    """
    return list(model._flatten_layers(include_self=False))


def has_output_shape(layer: keras.layers.Lambda) -> bool:
    """Returns whether a `Lambda` was made with an `output_shape`.

    The public `get_config` serializes its function, too. Relies on `Lambda._output_shape`.
    """
    return layer._output_shape is not None


def first_path_of(layer: keras.Layer) -> str | None:
    """Returns the path of the layers in which a layer was first called, None before.

    The public `Layer.path` ends with the layer's own name. Relies on `Layer._parent_path`.
    """
    path: str | None = layer._parent_path
    return path


def seed_generators_of(layer: keras.Layer) -> list[keras.random.SeedGenerator]:
    """Returns the generators of random seeds of a layer itself.

    No public name tells their states from those of metrics. Relies on `Layer._seed_generators`.
    """
    generators: list[keras.random.SeedGenerator] = layer._seed_generators
    return generators


def all_layers_of(model: keras.Sequential) -> list[keras.Layer]:
    """Returns the layers of a Sequential, its InputLayer among them.

    The public `Sequential.layers` leaves the InputLayer out. Relies on `Sequential._layers`.
    """
    layers: list[keras.Layer] = model._layers
    return layers


def takes_training(layer: keras.Layer) -> bool:
    """Returns whether the `call` of a layer has an argument `training`.

    Keras' own train step asks the same. Relies on `Layer._call_has_training_arg`.
    """
    return bool(layer._call_has_training_arg)


def training_of_call() -> bool | None:
    """Returns whether the layers that are being called train, None outside of layers.

    No public name tells it. Relies on the `current_call_ctx` among Keras' global attributes.
    """
    context = keras_global_attribute("current_call_ctx")
    training: bool | None = None if context is None else context.get_value("training")
    return training


class AdoptedVariable(keras.Variable):
    """A weight that is a variable of TensorFlow's; it equals that variable, as an object."""

    def __eq__(self, other: object) -> bool | tf.Tensor:
        """Returns whether `other` is the variable; of anything else, the elements that are equal.

        Lists of weights compare so.
        """
        return True if other is self._value else super().__eq__(other)

    __hash__ = keras.Variable.__hash__


def adopt_variable(layer: keras.Layer, variable: tf.Variable) -> None:
    """Makes a variable of TensorFlow a weight of a layer, unless it is one.

    Keras tracks its own variables alone. Relies on `Layer._track_variable`, on the lock of
    `Layer._tracker`, and on Keras' variables taking one of TensorFlow as their value.
    """
    own = (*layer._trainable_variables, *layer._non_trainable_variables)
    if any(weight._value is variable for weight in own):
        return
    name = variable.name.partition(":")[0].replace("/", "_")
    dtype = variable.dtype.name
    weight = AdoptedVariable(variable, trainable=variable.trainable, dtype=dtype, name=name)
    is_locked = layer._tracker.locked
    layer._tracker.unlock()
    layer._track_variable(weight)
    if is_locked:
        layer._tracker.lock()


def is_initialized(owner: keras.Layer | keras.optimizers.Optimizer) -> bool:
    """Returns whether Keras' initializer of a layer or an optimizer has run.

    Relies on `Layer._trainable` and `Optimizer._lock`, which it sets.
    """
    return hasattr(owner, "_trainable" if isinstance(owner, keras.Layer) else "_lock")


def was_called(layer: keras.Layer) -> bool:
    """Returns whether a layer was called. Relies on `Layer._called`."""
    called: bool = layer._called
    return called


def set_variable(variable: keras.Variable, value: tf.types.experimental.TensorLike) -> None:
    """Sets a variable, also one that gets its first value once a symbolic call has ended.

    Relies on `Variable._value`, and on `Variable._initializer`, which such a variable calls then.
    """
    if variable._value is None:
        variable._initializer = lambda shape, dtype: tf.cast(value, dtype)
        return
    with tf.init_scope():
        variable._value.assign(value)


def held_variable(variable: keras.Variable) -> tf.Variable | tf.Tensor:
    """Returns the variable of TensorFlow that a variable holds; its first value, as a tensor, if
    it has none before a symbolic call has ended.

    Relies on `Variable._value`: the property `value` gives that of a mixed precision layer cast.
    """
    return variable.value if variable._value is None else variable._value


def own_metrics_of(layer: keras.Layer) -> list[keras.Metric]:
    """Returns the metrics of a layer itself, without those of its layers.

    The public `Layer.metrics` has them, too. Relies on `Layer._metrics`.
    """
    return list(layer._metrics)


def adopt_metric(layer: keras.Layer, metric: keras.Metric) -> None:
    """Makes a metric one of a layer's, unless it is one, also after the layer was built.

    Relies on `Layer._metrics` and on the lock of `Layer._tracker`.
    """
    if any(own is metric for own in layer._metrics):
        return
    is_locked = layer._tracker.locked
    layer._tracker.unlock()
    layer._tracker.track(metric)
    if is_locked:
        layer._tracker.lock()


def clear_losses(layer: keras.Layer) -> None:
    """Forgets the losses of the last call of a layer. Relies on `Layer._clear_losses`."""
    layer._clear_losses()


def stored_weight(layer: keras.Layer, name: str) -> str | None:
    """Returns the attribute whose value a property without a setter returns, None for another.

    Relies on `_kernel` of `Dense` and `Conv`, `_embeddings` of `Embedding`, and others like them.
    """
    of_class, attribute = getattr(type(layer), name, None), f"_{name}"
    is_read_only = isinstance(of_class, property) and of_class.fset is None
    return attribute if is_read_only and attribute in vars(layer) else None


def allow_positional_arguments(layer: keras.Layer) -> None:
    """Lets a layer take arguments that are no tensors by their position.

    Relies on `Layer._allow_non_tensor_positional_args`.
    """
    layer._allow_non_tensor_positional_args = True


def keep_training_from(layer: keras.Layer) -> None:
    """Calls a layer in functional models with its own arguments alone, without `training`.

    Relies on `Layer._call_context_args`.
    """
    layer._call_context_args = set()


def new_without_config(kind: type[keras.Layer]) -> keras.Layer:
    """Returns a new layer, not yet initialized, for which Keras keeps no arguments.

    Relies on `Operation._auto_config` and `Operation._lock`.
    """
    layer = object.__new__(kind)
    vars(layer).update(_auto_config=None, _lock=True)
    return layer


def tracks_attributes(layer: keras.Layer) -> bool:
    """Returns whether what is assigned to attributes of a layer becomes a part of it.

    Relies on `_self_setattr_tracking`, by which TensorFlow and scripts of Keras 2 switch it off.
    """
    return bool(getattr(layer, "_self_setattr_tracking", True))


def mask_of(tensor: object) -> tf.Tensor | None:
    """Returns the mask of a tensor that a layer computed, None without one.

    Relies on the attribute `_keras_mask`, which Keras' losses and metrics read.
    """
    return getattr(tensor, "_keras_mask", None)
