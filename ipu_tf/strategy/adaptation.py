"""`adapt(dataset)` of Keras' preprocessing layers: the host reads the dataset, also in a scope."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from ipu_tf.internals import patches
from ipu_tf.strategy.infeed_iterator import stock_dataset_iterators


def adapting_on_host() -> AbstractContextManager[None]:
    """Makes `adapt` read datasets by TensorFlow's own iterators, in any scope.

    It computes its statistics eagerly, before any program exists that could read an infeed.
    """
    return patches.installed(dict.fromkeys(patches.ADAPTATIONS, _on_host))


@functools.cache  # Scopes are opened often, and `wraps` takes its time.
def _on_host(adapt: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(adapt)
    def adapt_by_stock_iterators(*args: Any, **kwargs: Any) -> Any:
        with stock_dataset_iterators():
            return adapt(*args, **kwargs)

    return adapt_by_stock_iterators
