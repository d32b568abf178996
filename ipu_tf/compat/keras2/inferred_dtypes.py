"""The dtypes of layers in graphs of TensorFlow 1: those of their first inputs."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Patch, Wrap

_LAYER_CONFIGURATIONS = Patch(keras.Layer, "get_config", "the dtype of a layer may be open")


class OpenPolicy(keras.DTypePolicy):
    """The policy of a layer without a dtype, until an input of another one comes.

    Args:
        layer: The layer.
        notify: Logs the use.
    """

    def __init__(self, layer: keras.Layer, notify: Notify) -> None:
        super().__init__(keras.config.floatx())
        self._layer = weakref.ref(layer)
        self._notify = notify

    def convert_input(self, x: Any, autocast: bool, dtype: str) -> Any:
        """Returns an input as the layer takes it; the first one gives the layer its dtype."""
        layer = self._layer()
        if layer is None or layer.weights or not _is_float(x) or x.dtype == self.name:
            return super().convert_input(x, autocast, dtype)
        self._notify()
        layer.dtype_policy = keras.DTypePolicy(_name_of_policy(layer, tf.as_dtype(x.dtype).name))
        if isinstance(layer, keras.Sequential) and layer.layers:
            # The model is built for inputs of the dtype of its first layer.
            first = layer.layers[0]
            first.dtype_policy.convert_input(x, first.autocast, first.input_dtype)
        return x


def _is_float(value: Any) -> bool:
    is_tensor = tf.is_tensor(value) or isinstance(value, keras.KerasTensor)
    return is_tensor and tf.as_dtype(value.dtype).is_floating


def _name_of_policy(layer: keras.Layer, dtype: str) -> str:
    """Returns the policy of a layer: Keras 2 kept the weights of half batch norms in float32."""
    is_half_norm = dtype == "float16" and isinstance(layer, keras.layers.BatchNormalization)
    return "mixed_float16" if is_half_norm else dtype


def _left_open(notify: Notify) -> Wrap:
    """Returns the factory of the initializer of layers, which leaves the dtype open."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(layer: keras.Layer, /, *args: Any, **kwargs: Any) -> None:
            stock(layer, *args, **kwargs)
            in_graphs = not tf.compat.v1.executing_eagerly_outside_functions()
            is_default = keras.config.dtype_policy().name == keras.config.floatx()
            is_open = in_graphs and is_default and kwargs.get("dtype") is None
            if is_open:
                layer.dtype_policy = OpenPolicy(layer, notify)

        return init

    return wrap


def _written(notify: Notify) -> Wrap:
    """Returns the factory of `get_config`, which writes no dtype until the layer has one."""

    def wrap(stock: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        @functools.wraps(stock)
        def get_config(layer: keras.Layer) -> dict[str, Any]:
            config = stock(layer)
            if isinstance(layer.dtype_policy, OpenPolicy):
                # Files name policies of Keras alone. Weights have a dtype, and so has their copy.
                policy = keras.DTypePolicy(layer.dtype_policy.name) if layer.weights else None
                config["dtype"] = keras.dtype_policies.serialize(policy)
            return config

        return get_config

    return wrap


SPELLINGS = (
    Spelling(
        name="layers without `dtype=` after `tf.disable_v2_behavior()`",
        keras_2="A layer had the dtype of its first input.",
        here="It has, unless there is a policy for all layers; the weights of half batch norms are "
        "float32, as they were.",
        wraps=MappingProxyType(
            {patches.LAYER_ARGUMENTS: _left_open, _LAYER_CONFIGURATIONS: _written}
        ),
    ),
)
