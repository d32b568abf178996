"""`adapt(dataset)` of Keras' preprocessing layers: the host reads the dataset, in a scope, too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import keras

from ipu_tf.infeed_iterator import stock_dataset_iterators

_ADAPTING = (
    keras.layers.Discretization,
    keras.layers.IntegerLookup,
    keras.layers.Normalization,
    keras.layers.StringLookup,
    keras.layers.TextVectorization,
    keras.utils.FeatureSpace,
)


@functools.cache
def adapt_on_host() -> None:
    """Makes `adapt` read datasets by TensorFlow's own iterators, whatever scope it is called in.

    It computes its statistics eagerly, before there is a program that could read an infeed.
    """
    for cls in _ADAPTING:
        cls.adapt = _on_host(cls.adapt)


def _on_host(adapt: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(adapt)
    def adapt_by_stock_iterators(*args: Any, **kwargs: Any) -> Any:
        with stock_dataset_iterators():
            return adapt(*args, **kwargs)

    return adapt_by_stock_iterators
