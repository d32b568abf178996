"""What TensorFlow keeps private of AutoGraph.

Functions that Keras calls are not converted; the public tf.autograph converts a function for eager
calls, too, and takes no bound methods.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import tensorflow as tf

# Which loop, branch or function of its own a function is converted in; see `converted`.
from tensorflow.python.autograph.core.ag_ctx import ControlStatusCtx, Status
from typing import ParamSpec, TypeVar

# AutoGraph has to call `strategy.run` as it is, yet go on converting the user's function in it
# (the public `do_not_convert` would switch it off for that function, too).
from tensorflow.python.autograph.impl.api import autograph_artifact as autograph_artifact
from tensorflow.python.autograph.impl.api import tf_convert


_P = ParamSpec("_P")
_T = TypeVar("_T")


def uses_autograph(function: object) -> bool:
    """Returns whether a tf.function converts its Python function by AutoGraph.

    Relies on the `_autograph` that `tf.function(autograph=...)` is kept in. Other callables, such
    as concrete functions, convert nothing.
    """
    return bool(getattr(function, "_autograph", False))


def converted(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Returns a function converted by AutoGraph, although what calls it is not.

    The public `tf.autograph.to_graph` converts neither lambdas nor what a function calls. Relies on
    `tf_convert` and its contexts, as `tf.function` does.
    """
    convert: Callable[..., Callable[_P, _T]] = tf_convert
    return convert(function, ControlStatusCtx(status=Status.ENABLED))


def autograph() -> contextlib.AbstractContextManager[object]:
    """Switches AutoGraph on for what is called inside, such as layers, which ask whether it is on.

    Relies on `ControlStatusCtx`, which `tf.function` opens.
    """
    context: contextlib.AbstractContextManager[object] = ControlStatusCtx(status=Status.ENABLED)
    return context


def converted_like_caller(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Returns a function converted by AutoGraph if AutoGraph converts the caller.

    TensorFlow does so with the functions that `tf.data` and strategies call. Relies on
    `tf_convert` and `control_status_ctx`, which have no public names.
    """
    convert: Callable[..., Callable[_P, _T]] = tf_convert
    return convert(function, tf.__internal__.autograph.control_status_ctx())
