"""Losses as Keras 2 computed them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.control_flow import is_of_library, is_of_script
from ipu_tf.compat.spellings.spelling import (
    Call,
    Notify,
    Spelling,
    called_by_library,
    called_by_script,
)
from ipu_tf.internals.keras_layers import mask_of
from ipu_tf.internals.keras_training import function_of
from ipu_tf.internals.patches import Patch, Wrap

_LOSS_DTYPES = Patch(keras.Loss, "dtype", "a script's own losses may set it")

_ARGUMENTS = ("y_true", "y_pred")
_DTYPE = "dtype"
_SMALL = (tf.float16, tf.bfloat16, "float16", "bfloat16")
_SPARSE = ("sparse_categorical_crossentropy", "sparse_categorical_accuracy")


def _auto_reduction(call: Call) -> bool:
    """Makes the reduction "auto" the mean over the batch."""
    is_auto = str(call.kwargs.get("reduction")).lower() == "auto"
    if is_auto:
        call.kwargs["reduction"] = "sum_over_batch_size"
    return is_auto


def _last_dimension(call: Call) -> bool:
    """Gives a target of one value a sample a last dimension of 1 beside outputs with more."""
    values = [*call.args[:2]] + [call.kwargs[name] for name in _ARGUMENTS if name in call.kwargs]
    if len(values) != 2 or not all(hasattr(value, "shape") for value in values):
        return False
    y_true, y_pred = values
    if len(y_true.shape) != 1 or len(y_pred.shape) < 2:
        return False
    # Two cases that Keras 3 treats as Keras 2 does: outputs of one column, and numbers of classes.
    if len(y_pred.shape) == 2 and (y_pred.shape[-1] == 1 or _takes_classes(call.owner)):
        return False
    if call.args:
        call.args = (tf.expand_dims(y_true, -1), *call.args[1:])
    else:
        call.kwargs["y_true"] = tf.expand_dims(y_true, -1)
    return True


def _lists_of_arrays(call: Call) -> bool:
    """Makes a list of arrays, given beside a tensor, the tensor of them all."""
    given = [*call.args[:2]] + [call.kwargs[name] for name in _ARGUMENTS if name in call.kwargs]
    lists = [value for value in given if isinstance(value, list | tuple)]
    if len(given) != 2 or len(lists) != 1 or not any(tf.is_tensor(value) for value in given):
        return False
    (listed,) = lists
    stacked = tf.convert_to_tensor(listed)
    call.args = tuple(stacked if value is listed else value for value in call.args)
    call.kwargs |= {name: stacked for name, value in call.kwargs.items() if value is listed}
    return True


def _weights_of_masked_steps(call: Call) -> bool:
    """Gives the weights of samples the axes of a mask over their steps."""
    names = (*_ARGUMENTS, "sample_weight")
    given = dict(zip(names, call.args, strict=False)) | call.kwargs
    weights: Any = given.get("sample_weight")
    mask = mask_of(given.get("y_pred"))
    if mask is None or not hasattr(weights, "shape") or len(weights.shape) != 1:
        return False
    missing = len(mask.shape) - 1
    if missing < 1:
        return False
    for _ in range(missing):
        weights = tf.expand_dims(weights, -1)
    call.args, call.kwargs = (), given | {"sample_weight": weights}
    return True


def _takes_classes(loss: Any) -> bool:
    """Returns whether a loss or a metric of Keras takes numbers of classes as its targets."""
    name = getattr(function_of(loss), "__name__", "")
    classes = (keras.losses.SparseCategoricalCrossentropy,)
    return isinstance(loss, classes) or name in _SPARSE


def _in_dtype_of_outputs(notify: Notify) -> Wrap:
    """Returns the factory of `Loss.__call__`, which gives scripts a loss of the outputs' dtype."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def call(loss: Any, y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
            value = stock(loss, y_true, y_pred, *args, **kwargs)
            dtype = getattr(y_pred, "dtype", None)
            if dtype not in _SMALL or not called_by_script():
                return value
            notify()
            return keras.ops.cast(value, dtype)

        return call

    return wrap


def _settable_dtype(notify: Notify) -> Wrap:
    """Returns the factory of `Loss.dtype`, an attribute that scripts may set for themselves."""

    def wrap(stock: property) -> property:
        of_keras: Any = stock.fget

        def get(loss: Any) -> Any:
            return of_keras(loss) if called_by_library() else vars(loss).get(_DTYPE, of_keras(loss))

        def set_(loss: Any, value: Any) -> None:
            notify()
            vars(loss)[_DTYPE] = value

        return property(get, set_)

    return wrap


def _with_integers(notify: Notify) -> Wrap:
    """Returns the factory of `Loss.__call__`, which gives losses of scripts targets as they are."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def call(loss: Any, y_true: Any, y_pred: Any, *args: Any, **kwargs: Any) -> Any:
            if not _is_of_script(loss) or not any(map(_is_integer, keras.tree.flatten(y_true))):
                return stock(loss, y_true, y_pred, *args, **kwargs)
            notify()
            with _calling_with(loss, y_true):
                return stock(loss, y_true, y_pred, *args, **kwargs)

        return call

    return wrap


def _is_of_script(loss: Any) -> bool:
    """Returns whether a script defines how a loss is computed."""
    function = function_of(loss)
    if function is None:
        return is_of_script(type(loss), "call")
    return not is_of_library(function)


def _is_integer(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and tf.as_dtype(leaf.dtype).is_integer


@contextlib.contextmanager
def _calling_with(loss: Any, y_true: Any) -> Iterator[None]:
    """Calls the function of a loss with targets that Keras has not cast, for a while."""
    own, known = loss.call, vars(loss).get("call")
    targets = keras.tree.map_structure(tf.convert_to_tensor, y_true)
    vars(loss)["call"] = lambda _, y_pred: own(targets, y_pred)
    try:
        yield
    finally:
        del vars(loss)["call"]
        if known is not None:
            vars(loss)["call"] = known


SPELLINGS = (
    Spelling(
        name="`sample_weight=` of one weight a sample, beside masked steps",
        keras_2="The weight of a sample was that of each of its steps.",
        here="It is that; Keras 3 alone fails on the shapes.",
        rewrites=MappingProxyType(
            dict.fromkeys((patches.LOSS_CALLS, patches.METRIC_CALLS), _weights_of_masked_steps)
        ),
    ),
    Spelling(
        name='`reduction="auto"`, `losses.Reduction.AUTO` of a loss',
        keras_2="The sum over the batch, divided by its size.",
        here='It is read as `reduction="sum_over_batch_size"`.',
        rewrites=MappingProxyType({patches.LOSS_ARGUMENTS: _auto_reduction}),
    ),
    Spelling(
        name="`loss([array, array], tensor)`, also of metrics",
        keras_2="A list of arrays was a tensor.",
        here="It is made one.",
        rewrites=MappingProxyType(
            {patches.LOSS_CALLS: _lists_of_arrays, patches.METRIC_CALLS: _lists_of_arrays}
        ),
    ),
    Spelling(
        name="targets `[batch]` for outputs `[batch, n]` or `[batch, m, n]`",
        keras_2="Losses and metrics saw targets `[batch, 1]`, which stand for all n columns; "
        "outputs `[batch, m, 1]` lost their last dimension beside them.",
        here="The targets get a last dimension of 1.",
        rewrites=MappingProxyType(
            {patches.LOSS_CALLS: _last_dimension, patches.METRIC_CALLS: _last_dimension}
        ),
    ),
    Spelling(
        name="integer targets of a script's loss",
        keras_2="The loss got them as they were.",
        here="It gets them as they are; Keras 3 alone casts them to the dtype of the loss.",
        wraps=MappingProxyType({patches.LOSS_CALLS: _with_integers}),
    ),
    Spelling(
        name="`loss(y_true, y_pred)`, called by a script with float16 outputs",
        keras_2="The loss had the dtype of the outputs.",
        here="The value has that dtype; Keras computes it in float32.",
        wraps=MappingProxyType({patches.LOSS_CALLS: _in_dtype_of_outputs}),
    ),
    Spelling(
        name="`self.dtype = ...` in a subclass of a loss",
        keras_2="An attribute of the script's own: losses had no dtype.",
        here="The script reads what it set. Keras converts targets and outputs to the dtype that "
        "the loss got when it was made.",
        wraps=MappingProxyType({_LOSS_DTYPES: _settable_dtype}),
    ),
)
