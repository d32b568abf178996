"""`tf.contrib`: what scripts of the vendor's TensorFlow 1 use of it."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import ModuleSpec
from types import MappingProxyType, ModuleType
from typing import Any

import tensorflow as tf

from ipu_tf.compat.missing import Missing
from ipu_tf.compat.modules import short_name
from ipu_tf.ipu_compiler import compile as compile_computation

_NAME = "tensorflow.contrib"
_WHY = (
    "TensorFlow 2 has no `tf.contrib`, and `ipu-tf run --tf1` has only parts of it: {parts}. "
    "Write it with functions of `tf`"
)
_TRUNCATED_TO_UNIT = 0.87962566103423978
"""Standard deviation of the standard normal distribution, truncated at two."""


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: tf.DType = tf.float32,
) -> tf.compat.v1.initializers.variance_scaling:
    """Returns an initializer whose numbers have a variance of about `factor` by the fan.

    Args:
        factor: The variance, multiplied by the fan.
        mode: The fan: "FAN_IN", "FAN_OUT" or "FAN_AVG".
        uniform: Whether the numbers are uniform; else truncated normal, before truncation of
            variance `1.3 * factor` by the fan.
        seed: Seed of the numbers.
        dtype: Their type.
    """
    if uniform:
        scale, distribution = factor, "uniform"
    else:
        scale, distribution = 1.3 * factor * _TRUNCATED_TO_UNIT**2, "truncated_normal"
    return tf.compat.v1.variance_scaling_initializer(
        scale, mode.lower(), distribution, seed=seed, dtype=dtype
    )


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: tf.DType = tf.float32
) -> tf.compat.v1.initializers.variance_scaling:
    """Returns an initializer whose numbers have a variance of one by the mean of both fans.

    Args:
        uniform: Whether the numbers are uniform, else truncated normal.
        seed: Seed of the numbers.
        dtype: Their type.
    """
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


def l1_regularizer(scale: float, scope: str | None = None) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function from weights to `scale` times the sum of their absolute values."""

    def loss(weights: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(scope or "l1_regularizer"):
            return tf.multiply(tf.cast(scale, weights.dtype), tf.reduce_sum(tf.abs(weights)))

    return loss


def l2_regularizer(scale: float, scope: str | None = None) -> Callable[[tf.Tensor], tf.Tensor]:
    """Returns a function from weights to `scale` times half the sum of their squares."""

    def loss(weights: tf.Tensor) -> tf.Tensor:
        with tf.name_scope(scope or "l2_regularizer"):
            return tf.multiply(tf.cast(scale, weights.dtype), tf.nn.l2_loss(weights))

    return loss


_PARTS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "compiler": {},
        "compiler.xla": {"compile": compile_computation},
        "framework": {"nest": tf.nest},
        "layers": {
            "l1_regularizer": l1_regularizer,
            "l2_regularizer": l2_regularizer,
            "variance_scaling_initializer": variance_scaling_initializer,
            "xavier_initializer": xavier_initializer,
            "xavier_initializer_conv2d": xavier_initializer,
        },
        "data": {},
        "rnn": {},
    }
)
"""Parts of `tf.contrib`, and their names that TensorFlow 2 has not."""

_ELSEWHERE: Mapping[str, Callable[[], tuple[Any, ...]]] = MappingProxyType(
    {
        "data": lambda: (tf.data.experimental,),
        "framework": lambda: (tf.compat.v1, tf.compat.v1.train),
        "layers": lambda: (tf.compat.v1.layers,),
        "rnn": lambda: (tf.compat.v1.nn.rnn_cell, tf.compat.v1.nn),
    }
)
"""Where the other names of a part are today."""


class ContribModule(ModuleType):
    """`tf.contrib` or a part of it; other names raise when they are used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        part = self.__name__.removeprefix(_NAME).removeprefix(".")
        below = f"{part}.{name}" if part else name
        if below in _PARTS or short_name(f"{_NAME}.{below}") is not None:
            return importlib.import_module(f"{_NAME}.{below}")
        if name in _PARTS.get(part, {}):
            return _PARTS[part][name]
        for module in _ELSEWHERE[part]() if part in _ELSEWHERE else ():
            if hasattr(module, name):
                return getattr(module, name)
        parts = ", ".join(sorted((*_PARTS, "ipu")))
        return Missing(f"{self.__name__}.{name}", _WHY.format(parts=parts))


class _ContribFinder:
    """Finds `tensorflow.contrib` and whatever is below it, apart from the vendor's modules."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        if not f"{name}.".startswith(f"{_NAME}.") or short_name(name) is not None:
            return None
        # No base class of the loader: `create_module` and `exec_module` are all it needs.
        return ModuleSpec(name, _ContribFinder, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType:
        return ContribModule(spec.name)

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Leaves the module empty: its names are looked up when they are used."""


@contextlib.contextmanager
def contrib_modules() -> Iterator[None]:
    """Makes `tensorflow.contrib` importable, and an attribute of TensorFlow, for a while."""
    sys.meta_path.append(_ContribFinder)
    importlib.import_module(_NAME)  # The import system sets the attribute.
    try:
        yield
    finally:
        sys.meta_path.remove(_ContribFinder)
        del tf.contrib
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{_NAME}.")]:
            del sys.modules[name]
