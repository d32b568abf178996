"""The `build` of a script's layers, which runs outside of the graph that calls the layer."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.control_flow import is_of_script
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Wrap


def _building_eagerly(notify: Notify) -> Wrap:
    """Returns the factory of the initializer of layers, whose `build` leaves graphs."""
    del notify  # A `build` that makes variables alone is as it was.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(layer: keras.Layer, /, *args: Any, **kwargs: Any) -> None:
            if is_of_script(type(layer), "build"):
                vars(layer)["build"] = _outside_of_graphs(layer.build)
            stock(layer, *args, **kwargs)

        return init

    return wrap


def _outside_of_graphs(build: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(build)
    def build_eagerly(*args: Any, **kwargs: Any) -> None:
        # In TensorFlow 1, the graph is all there is.
        if tf.compat.v1.executing_eagerly_outside_functions():
            with tf.init_scope():
                build(*args, **kwargs)
        else:
            build(*args, **kwargs)

    return build_eagerly


SPELLINGS = (
    Spelling(
        name="tensors that the `build` of a layer keeps, as in `self.mask = tf.ones(shape)`",
        keras_2="`build` ran eagerly, also while a model was made or traced.",
        here="`build` runs eagerly; in Keras 3 alone, the tensors belong to the graph of the first "
        "call, and the next one fails.",
        wraps=MappingProxyType({patches.LAYER_ARGUMENTS: _building_eagerly}),
    ),
)
