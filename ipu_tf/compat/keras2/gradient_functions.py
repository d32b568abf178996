"""Functions of gradients that optimizers of Keras 2 took."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Patch, Wrap

_GRADIENT_AGGREGATION = Patch(
    keras.optimizers.Optimizer,
    "_all_reduce_sum_gradients",
    "functions of Keras 2 aggregate and transform gradients",
)

_AGGREGATOR, _TRANSFORMERS = "gradient_aggregator", "gradient_transformers"


def _keeping_functions(notify: Notify) -> Wrap:
    """Returns the factory of the initializer of optimizers, which keeps the functions."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(
            optimizer: keras.optimizers.Optimizer,
            *args: Any,
            gradient_aggregator: Any = None,
            gradient_transformers: Sequence[Any] | None = None,
            **kwargs: Any,
        ) -> None:
            stock(optimizer, *args, **kwargs)
            if gradient_aggregator is not None or gradient_transformers:
                notify()
            # Scripts add to the list later. As an attribute, it would become part of checkpoints.
            vars(optimizer)[_AGGREGATOR] = gradient_aggregator
            vars(optimizer)[_TRANSFORMERS] = list(gradient_transformers or ())

        return init

    return wrap


def _calling_functions(notify: Notify) -> Wrap:
    """Returns the factory of the sum over replicas, around which the functions are called."""
    del notify  # Given where the optimizer is made.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def aggregate(optimizer: keras.optimizers.Optimizer, pairs: Any) -> Any:
            own = getattr(optimizer, _AGGREGATOR, None)
            pairs = stock(optimizer, pairs) if own is None else own(_whole(pairs))
            for transform in getattr(optimizer, _TRANSFORMERS, ()):
                pairs = transform(_whole(pairs))
            return pairs

        return aggregate

    return wrap


def _whole(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Returns pairs whose gradients are tensors, as those of lookups are on the machine."""
    return [
        (tf.convert_to_tensor(gradient) if isinstance(gradient, tf.IndexedSlices) else gradient, v)
        for gradient, v in pairs
    ]


SPELLINGS = (
    Spelling(
        name="`gradient_aggregator=`, `gradient_transformers=` of an optimizer",
        keras_2="Functions from pairs of gradients and variables to such pairs: the first in place "
        "of the sum over replicas, the others after it, in their order.",
        here="They are called so, once an update, with the gradients that the training loop has "
        "accumulated and clipped, those of embeddings as whole tensors.",
        wraps=MappingProxyType(
            {
                patches.OPTIMIZER_ARGUMENTS: _keeping_functions,
                _GRADIENT_AGGREGATION: _calling_functions,
            }
        ),
    ),
)
