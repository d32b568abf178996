"""`layer.compute_output_shape` as Keras 2 had it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import MappingProxyType, MethodType
from typing import Any

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.control_flow import is_of_script
from ipu_tf.compat.keras2.tensorflow_ops import KerasShape
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.patches import Wrap

_METHOD = "compute_output_shape"


def _telling_shapes(notify: Notify) -> Wrap:
    """Returns the factory of an initializer of layers whose output shapes have `as_list`."""
    del notify  # The shapes are tuples as before.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(layer: Any, /, *args: Any, **kwargs: Any) -> None:
            stock(layer, *args, **kwargs)
            kind: Any = type(layer)
            if not is_of_script(kind, _METHOD):
                vars(layer)[_METHOD] = MethodType(_method_of(kind), layer)

        return init

    return wrap


@functools.cache
def _method_of(kind: type) -> Callable[..., Any]:
    """Returns the method of a class, with shapes that have the methods of `tf.TensorShape`."""
    stock = getattr(kind, _METHOD)

    @functools.wraps(stock)
    def compute_output_shape(layer: Any, *args: Any, **kwargs: Any) -> Any:
        return _as_shapes(stock(layer, *args, **kwargs))

    return compute_output_shape


def _as_shapes(shapes: Any) -> Any:
    """Returns shapes, alone, in lists or in tuples, as `KerasShape`."""
    if isinstance(shapes, tuple) and all(size is None or isinstance(size, int) for size in shapes):
        return KerasShape(shapes)
    if type(shapes) in (list, tuple):
        return type(shapes)(map(_as_shapes, shapes))
    return shapes


SPELLINGS = (
    Spelling(
        name="`layer.compute_output_shape(input_shape).as_list()`",
        keras_2="A `tf.TensorShape`.",
        here="A tuple with its methods.",
        wraps=MappingProxyType({patches.LAYER_ARGUMENTS: _telling_shapes}),
    ),
)
