"""Names of the vendor's interface that do not exist here, and why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn

_NOT_SIMULATED = "It is not simulated yet"
_DESCRIPTORS = "It edits the descriptors of the vendor's graph compiler, which does not run here"
_FLOAT8 = "The float8 of the IPU is not simulated"
_KERAS_INTERNAL = (
    "It is a part of the vendor's fork of Keras 2. Models made in the scope have its methods; "
    "use ipu_tf.keras.Model and ipu_tf.keras.Sequential"
)
_SEARCH = (
    "It is a part of the vendor's search for pipelines over profiles of the hardware. "
    "Use ipu_tf.keras.auto_pipeline(model), which searches with the modelled cycles"
)
_ESTIMATORS = (
    "TensorFlow has had no estimators since version 2.16. Train the model with Keras' `fit` in "
    "the scope of an IPUStrategy"
)
_WORKERS = (
    "It is a part of the vendor's strategies of several processes, whose variables are plain ones "
    "here. Use PopDistStrategy, in a job that poprun starts"
)
_DATASETS = "Datasets and variables are not written in the vendor's format. Use tf.data's save"

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "ipu.data.ops": _NOT_SIMULATED,
        "ipu.dataset_extractor": _DATASETS,
        "ipu.distributed.popdist_strategy": _WORKERS,
        "ipu.ipu_estimator": _ESTIMATORS,
        "ipu.ipu_multi_worker_strategy": _WORKERS,
        "ipu.ipu_pipeline_estimator": _ESTIMATORS,
        "ipu.ipu_run_config": _ESTIMATORS,
        "ipu.keras_extensions": _KERAS_INTERNAL,
        "ipu.ops.f8_ops": _FLOAT8,
        "ipu.ops.op_util": _DESCRIPTORS,
        "ipu.ops.pipelining_ops.PipelineStageOptions.get_proto": _DESCRIPTORS,
        "ipu.utils": _DATASETS,
        "ipu_tensorflow_addons.keras.experimental.auto_pipeline": _SEARCH,
        "ipu_tensorflow_addons.keras.layers.f8_convert": _FLOAT8,
        "keras.ipu.extensions.data_adapter": _KERAS_INTERNAL,
        "keras.ipu.optimizers": "Use keras.ipu.optimizers.ALSOptimizer around a Keras optimizer",
        "keras.ipu.optimizers.gradient_accumulation_optimizer.GradientAccumulationOptimizer."
        "bool_to_three_state": _DESCRIPTORS,
    }
)
"""Why names do not exist, by the name or by what it begins with, and the way out."""


OF_THE_PLUGIN = (
    "It is an operation of the vendor's plugin. Call the function of tensorflow.python.ipu.ops "
    "that makes it"
)
"""Why an operation of the plugin, which no list of names has, does not exist."""


class Missing:
    """A name that does not exist here: every use raises and says why."""

    _message: str

    def __init__(self, name: str, reason: str) -> None:
        object.__setattr__(self, "_message", f"`{name}` does not exist in ipu_tf. {reason}.")

    def __repr__(self) -> str:
        return f"<{self._message}>"

    def _raise(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(self._message)

    __call__ = __getitem__ = __iter__ = __instancecheck__ = __subclasscheck__ = _raise
    __mro_entries__ = _raise

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._raise()


def reason(dotted: str) -> str:
    """Returns why a name does not exist.

    Raises:
        KeyError: `REASONS` says nothing of it.
    """
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in REASONS:
            return REASONS[".".join(parts[:length])]
    raise KeyError(dotted)
