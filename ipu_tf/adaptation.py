"""`adapt(dataset)` of Keras' preprocessing layers: the host reads the dataset, in a scope, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from ipu_tf.infeed_iterator import stock_dataset_iterators


@functools.cache
def adapt_on_host() -> None:
    """Makes `adapt` read datasets by TensorFlow's own iterators, whatever scope it is called in.

    It computes its statistics eagerly, before there is a program that could read an infeed.
    """
    keras.layers.Discretization.adapt = _on_host(keras.layers.Discretization.adapt)
    keras.layers.IntegerLookup.adapt = _on_host(keras.layers.IntegerLookup.adapt)
    keras.layers.Normalization.adapt = _on_host(keras.layers.Normalization.adapt)
    keras.layers.StringLookup.adapt = _on_host(keras.layers.StringLookup.adapt)
    keras.layers.TextVectorization.adapt = _on_host(keras.layers.TextVectorization.adapt)
    keras.utils.FeatureSpace.adapt = _on_host(keras.utils.FeatureSpace.adapt)


def _on_host(adapt: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(adapt)
    def adapt_by_stock_iterators(*args: Any, **kwargs: Any) -> Any:
        with stock_dataset_iterators():
            return adapt(*args, **kwargs)

    return adapt_by_stock_iterators
