"""The context in which a script finds TensorFlow 1."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from types import MappingProxyType, ModuleType

import tensorflow as tf

from ipu_tf.compat.tensorflow1.contrib import contrib_modules
from ipu_tf.compat.tensorflow1.estimator import Estimators
from ipu_tf.compat.tensorflow1.interface import imported_by_scripts
from ipu_tf.compat.tensorflow1.probability import kernels_may_update_step_sizes
from ipu_tf.compat.tensorflow1.sessions import sessions_know_ipus
from ipu_tf.compat.tensorflow1.sizes import sizes_may_be_floats
from ipu_tf.compat.tensorflow1.statistics import statistics_are_empty

_ADDED: Mapping[str, ModuleType] = MappingProxyType(
    {"estimator": Estimators("tensorflow.estimator")}
)
"""Names of TensorFlow 1 that this TensorFlow has removed."""


@contextlib.contextmanager
def tensorflow_1() -> Iterator[None]:
    """Makes operations parts of graphs that sessions run, and `tensorflow` that of TensorFlow 1."""
    tf.compat.v1.disable_v2_behavior()
    with contextlib.ExitStack() as stack:
        stack.callback(tf.compat.v1.enable_v2_behavior)
        stack.callback(
            tf.compat.v1.reset_default_graph
        )  # Eager execution begins with an empty one.
        stack.enter_context(contrib_modules())
        stack.enter_context(imported_by_scripts())
        stack.enter_context(sizes_may_be_floats())
        stack.enter_context(sessions_know_ipus())
        stack.enter_context(statistics_are_empty())
        stack.enter_context(kernels_may_update_step_sizes())
        for name, module in _ADDED.items():
            setattr(tf.compat.v1, name, module)
            stack.callback(delattr, tf.compat.v1, name)
        yield
