"""`Lambda` layers: copies by their configuration, and sparse inputs."""

from __future__ import annotations

import types
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.keras2.tensorflow_ops import as_computed
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras import keras_global_attribute
from ipu_tf.internals.keras_layers import has_output_shape
from ipu_tf.internals.patches import Patch, Wrap

_LAMBDA_CONFIGS = Patch(keras.layers.Lambda, "get_config", "lambdas keep their globals")
_LAMBDA_COPIES = Patch(keras.layers.Lambda, "from_config", "layers of lambdas can be copied")
_LAMBDA_SPECS = Patch(keras.layers.Lambda, "compute_output_spec", "lambdas get sparse inputs")

_LAMBDA = "<lambda>"

_globals_of: dict[types.CodeType, dict[str, Any]] = {}
"""The globals of each lambda whose configuration was asked for, by its code."""


def _keeping_globals(notify: Notify) -> Wrap:
    """Returns the factory of `get_config`, which keeps the globals that a configuration lacks."""
    del notify  # Asking for a configuration is Keras 3's own.

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def get_config(layer: keras.layers.Lambda) -> Any:
            function = layer.function
            if getattr(function, "__name__", None) == _LAMBDA:
                _globals_of[function.__code__] = function.__globals__
            return stock(layer)

        return get_config

    return wrap


def _copying(notify: Notify) -> Wrap:
    """Returns the factory of `from_config`, which takes lambdas outside of files."""

    def wrap(stock: Any) -> Any:
        def from_config(
            cls: Any, config: dict[str, Any], custom_objects: Any = None, safe_mode: Any = None
        ) -> Any:
            function = config["function"]
            is_lambda = isinstance(function, dict) and function["class_name"] == "__lambda__"
            # Loading a file sets the mode.
            if not is_lambda or (safe_mode, keras_global_attribute("safe_mode_saving")) != (
                None,
                None,
            ):
                return stock.__func__(cls, config, custom_objects, safe_mode)
            notify()
            layer = stock.__func__(cls, dict(config), custom_objects, False)
            layer.function = _with_globals(layer.function)
            return layer

        return classmethod(from_config)

    return wrap


def _with_globals(function: types.FunctionType) -> types.FunctionType:
    """Returns a function of a configuration with the globals of the lambda that it was."""
    found = _globals_of.get(function.__code__)
    if found is None:
        return function
    return types.FunctionType(
        function.__code__, found, function.__name__, function.__defaults__, function.__closure__
    )


def _of_sparse_inputs(notify: Notify) -> Wrap:
    """Returns the factory of `compute_output_spec`, which calls functions with sparse inputs."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def compute_output_spec(layer: keras.layers.Lambda, *args: Any, **kwargs: Any) -> Any:
            args, kwargs = keras.tree.map_structure(as_computed, (args, kwargs))
            if has_output_shape(layer) or not any(map(_is_sparse, keras.tree.flatten(args))):
                return stock(layer, *args, **kwargs)
            notify()
            # That of `Lambda` gives its function dense tensors of the same shapes.
            return keras.Operation.compute_output_spec(layer, *args, **kwargs)

        return compute_output_spec

    return wrap


def _is_sparse(leaf: Any) -> bool:
    return isinstance(leaf, keras.KerasTensor) and leaf.sparse


SPELLINGS = (
    Spelling(
        name="`Lambda(lambda x: tf.sparse.sparse_dense_matmul(x, kernel))` of a sparse `Input`",
        keras_2="The function got a sparse tensor, also while the model was made.",
        here="It gets one; Keras 3 alone infers the shape of the result from a dense tensor.",
        wraps=MappingProxyType({_LAMBDA_SPECS: _of_sparse_inputs}),
    ),
    Spelling(
        name="`Lambda.from_config(layer.get_config())` of a lambda",
        keras_2="It copied the layer.",
        here="It copies the layer, whose lambda finds the names of its module. Files with lambdas "
        "are refused unless `safe_mode=False`, as in Keras 3.",
        wraps=MappingProxyType({_LAMBDA_CONFIGS: _keeping_globals, _LAMBDA_COPIES: _copying}),
    ),
)
