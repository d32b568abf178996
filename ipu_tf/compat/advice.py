"""Advice for scripts that rely on what this TensorFlow no longer has."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import MappingProxyType, ModuleType

from ipu_tf.compat.tf_keras.places import MISSING, TREE

_ESTIMATORS = (
    "TensorFlow has had no estimators since version 2.16. Train the model with Keras' `fit` in the "
    "scope of an IPUStrategy, or compile its training step with ipu_compiler.compile."
)
_CONTRIB = (
    "TensorFlow 2 has no `tf.contrib`: the script is written for TensorFlow 1. Give `ipu-tf run` "
    "the option --tf1, which has the parts of it that scripts for IPUs use."
)
_STATISTICS = (
    "TensorFlow has no statistics of input pipelines any more. Leave them out, or give "
    "`ipu-tf run` the option --tf1, under which they are empty; "
    "`ipu.dataset_benchmark.dataset_benchmark` measures the throughput of a data set."
)
_REMOVED: Mapping[str, str] = MappingProxyType(
    {
        "estimator": _ESTIMATORS,
        "contrib": _CONTRIB,
        "data.experimental.StatsAggregator": _STATISTICS,
        "data.experimental.StatsOptions": _STATISTICS,
        "data.experimental.bytes_produced_stats": _STATISTICS,
        "data.experimental.latency_stats": _STATISTICS,
    }
)
"""Advice on names below `tf` that TensorFlow has removed."""

_PACKAGES: Mapping[str, str] = MappingProxyType(
    {
        "tensorflow_addons": "TensorFlow Addons ended with Keras 2.15, which has AdamW and group "
        "normalization; `ipu_tensorflow_addons` has the layers and optimizers of the IPU.",
        "tf_keras": MISSING,
        "tensorflow_datasets": "It is a package of its own: install tensorflow-datasets. With "
        "--offline it finds the data that it has prepared before; the data sets of "
        "`keras.datasets` are generated.",
    }
)
"""Advice on packages that scripts import beside TensorFlow."""

_OF_KERAS_3 = (
    "Scripts get Keras 2, and this is a name of Keras 3. Give `ipu-tf run` the option --keras 3."
)
_NO_NAME = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")
_NO_KERAS = "Keras cannot be imported"
"""What TensorFlow says where `tf.keras` is used without tf_keras."""

_EAGER = (
    "TensorFlow 2 runs operations at once. Give `ipu-tf run` the option --tf1, or call "
    "`tf.compat.v1.disable_v2_behavior()` before the script builds its graph."
)
_PLACED_ON_IPU = (
    "A session knows no IPU. Let ipu_compiler.compile make the program of the operations that are "
    "placed there, or take them out of `tf.device`; an `ipu_scope` leaves them on the host, and so "
    "does `ipu-tf run --tf1`."
)
_NO_IPU = re.compile(
    "Cannot assign a device for operation.*explicitly assigned to .*IPU", re.DOTALL
)


def way_out(error: BaseException) -> str | None:
    """Returns advice on a name, a mode or a device that a script wants, None if there is none."""
    if isinstance(error, RuntimeError) and "not compatible with eager execution" in str(error):
        return _EAGER
    if _NO_IPU.search(str(getattr(error, "message", ""))):
        return _PLACED_ON_IPU
    if isinstance(error, ImportError) and _NO_KERAS in str(error):
        return MISSING
    if _is_of_keras_3(error):
        return _OF_KERAS_3
    if isinstance(error, ModuleNotFoundError):
        name = error.name or ""
        if name.partition(".")[0] in _PACKAGES:
            return _PACKAGES[name.partition(".")[0]]
        return _CONTRIB if f"{name}.".startswith("tensorflow.contrib.") else None
    if not isinstance(error, AttributeError) or not isinstance(error.obj, ModuleType):
        return None
    package, _, path = f"{error.obj.__name__}.{error.name}".partition(".")
    if package != "tensorflow":
        return None
    # Modules of the public interface are those of "tensorflow._api.v2.compat.v1", for example.
    path = path.removeprefix("_api.v2.").removeprefix("compat.v1.")
    if path in _REMOVED:
        return _REMOVED[path]
    if not _is_of_tensorflow_1(path):
        return None
    return (
        f"`tf.{path}` is a name of TensorFlow 1, and so is the graph that the script builds. Give "
        "`ipu-tf run` the option --tf1. In a program of your own, import it by `import "
        "tensorflow.compat.v1 as tf`, and call `tf.disable_v2_behavior()` first."
    )


def _is_of_keras_3(error: BaseException) -> bool:
    """Returns whether Keras 2 lacks a name that Keras 3 has."""
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        name = f"{error.obj.__name__}.{error.name}"
    elif isinstance(error, ImportError) and (match := _NO_NAME.match(str(error))):
        name = f"{match[2]}.{match[1]}"
    else:
        name = str(getattr(error, "name", ""))
    path = name.removeprefix(f"{TREE}.")
    if path == name:
        return False
    import keras  # Here, since few scripts come to it.

    return _is_below(keras, path)


def _is_of_tensorflow_1(path: str) -> bool:
    return _is_below(sys.modules["tensorflow"].compat.v1, path)


def _is_below(place: object, path: str) -> bool:
    for name in path.split("."):
        if not hasattr(place, name):
            return False
        place = getattr(place, name)
    return True
