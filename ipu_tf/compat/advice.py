"""Advice for scripts that rely on what this TensorFlow no longer has."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from types import MappingProxyType, ModuleType

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
        "tensorflow_addons": "TensorFlow Addons ended with Keras 2. Keras 3 has most of its layers "
        "and optimizers (GroupNormalization, AdamW, Lamb), and `ipu_tensorflow_addons` those of "
        "the IPU.",
        "tensorflow_datasets": "It is a package of its own: install tensorflow-datasets. With "
        "--offline it finds the data that it has prepared before; the data sets of "
        "`keras.datasets` are generated.",
    }
)
"""Advice on packages that scripts import beside TensorFlow."""

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


def _is_of_tensorflow_1(path: str) -> bool:
    found = sys.modules["tensorflow"].compat.v1
    for name in path.split("."):
        if not hasattr(found, name):
            return False
        found = getattr(found, name)
    return True
