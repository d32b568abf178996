"""What Keras keeps private of layers: where they are, what they hold, how they are called."""

from __future__ import annotations


import keras

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


def first_path_of(layer: keras.Layer) -> str | None:
    """Returns the path of the layers in which a layer was first called, None before.

    The public `Layer.path` ends with the layer's own name. Relies on `Layer._parent_path`.
    """
    path: str | None = layer._parent_path
    return path


def dropout_of_attention(layer: keras.layers.MultiHeadAttention) -> keras.layers.Dropout:
    """Returns the layer that drops weights of an attention whose rate is not 0.

    Relies on `MultiHeadAttention._dropout_layer`.
    """
    return layer._dropout_layer


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


def is_initialized(owner: keras.Layer | keras.optimizers.Optimizer) -> bool:
    """Returns whether Keras' initializer of a layer or an optimizer has run.

    Relies on `Layer._trainable` and `Optimizer._lock`, which it sets.
    """
    return hasattr(owner, "_trainable" if isinstance(owner, keras.Layer) else "_lock")


def was_called(layer: keras.Layer) -> bool:
    """Returns whether a layer was called. Relies on `Layer._called`."""
    value: bool = layer._called
    return value
