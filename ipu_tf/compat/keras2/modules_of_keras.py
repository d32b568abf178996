"""Modules and names that Keras 3 moved or lacks."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.compat.keras2.names import absent, given, moved, of_both, of_module, of_python_module
from ipu_tf.compat.keras2.spelling import Provider, Spelling
from ipu_tf.compat.keras2.tensorflow_ops import TFOpLambda
from ipu_tf.internals.keras import KerasFunctionLoss, KerasGetItem
from ipu_tf.internals.tensorflow import tf_inspect

_PREPROCESSING = (
    "CategoryEncoding",
    "CenterCrop",
    "Discretization",
    "Hashing",
    "IntegerLookup",
    "Normalization",
    "RandomContrast",
    "RandomCrop",
    "RandomFlip",
    "RandomRotation",
    "RandomTranslation",
    "RandomZoom",
    "Rescaling",
    "Resizing",
    "StringLookup",
    "TextVectorization",
)
_LAYER_MODULES = (
    "advanced_activations",
    "convolutional",
    "core",
    "embeddings",
    "merge",
    "noise",
    "normalization",
    "pooling",
    "recurrent",
    "wrappers",
)
_PREMADE = ("LinearModel", "WideDeepModel")
_PREPROCESSING_MODULES = (
    "category_crossing",
    "category_encoding",
    "discretization",
    "hashing",
    "image_preprocessing",
    "integer_lookup",
    "normalization",
    "string_lookup",
    "text_vectorization",
)
_SCHEDULES = ("CosineDecay", "CosineDecayRestarts")
_NO_SCHEDULE = "Write it as a subclass of keras.optimizers.schedules.LearningRateSchedule"
_NO_ESTIMATOR = "This TensorFlow has no estimators. Use the Keras model itself"
_NO_SEVERAL = (
    "The strategy replicates a model: make it in the scope of an IPUStrategy of several IPUs"
)
_NO_WRAPPER = (
    "It took a function that builds a model. Use keras.wrappers.SKLearnClassifier or "
    "SKLearnRegressor, which take the model"
)
_NO_EVALUATOR = (
    "It evaluated checkpoints beside the training. Give `fit` the `validation_data`, or run "
    "`load_weights` and `evaluate` in a script of their own"
)
_NO_MATRIX = "Read the file with h5py, and give `fit` the array"
_NO_CREATOR = "It made a dataset for each of several processes. Give `fit` the dataset itself"
_NO_PREMADE = "Build it of keras.layers.Dense: the sum of a linear part and of a deep one"
_NO_FILES = "Use `model.save` and keras.models.load_model"
_NO_SHARPNESS = "Write its two gradients as the `train_step` of a model"
_NO_LAYER = "Keras 3 has no such layer, and no other that computes the same"
_STOCK_ROWS = keras.utils.to_categorical


class _IsSparse(type):
    """The type of a class whose instances are the sparse symbolic tensors."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, keras.KerasTensor) and instance.sparse


class SparseKerasTensor(metaclass=_IsSparse):
    """The class of sparse symbolic tensors, which are tensors with an attribute in Keras 3."""


def _policy(name: str, loss_scale: Any = "auto") -> keras.DTypePolicy:
    """Returns a policy; the loss scale of Keras 2's was a part of it.

    Raises:
        ValueError: It has a fixed loss scale.
    """
    if loss_scale not in ("auto", "dynamic", None):
        raise ValueError(
            f"A policy of Keras 3 has no loss scale. Received: Policy({name!r}, "
            f"loss_scale={loss_scale!r}). Give the optimizer `loss_scale_factor={loss_scale!r}`."
        )
    return keras.DTypePolicy(name)


def _set_policy(policy: Any) -> None:
    """Sets the policy of the layers that are made from now on."""
    keras.mixed_precision.set_global_policy(policy)


def _synchronized_norm(*args: Any, **kwargs: Any) -> keras.Layer:
    """Returns a batch norm over the batches of all replicas."""
    return keras.layers.BatchNormalization(*args, synchronized=True, **kwargs)


def _to_categorical(y: Any, num_classes: int | None = None, dtype: Any = "float32") -> np.ndarray:
    """Returns rows of zeros with a one at each class."""
    rows: np.ndarray = _STOCK_ROWS(y, num_classes)
    return rows.astype(dtype)


def _in_each(modules: Mapping[str, Mapping[str, Provider]]) -> Any:
    return MappingProxyType(modules)


_OF_PREPROCESSING = {
    **of_module("layers", _PREPROCESSING),
    **moved(PreprocessingLayer="layers.Layer"),
    "RandomHeight": lambda: tf.keras.layers.RandomHeight,
    "RandomWidth": lambda: tf.keras.layers.RandomWidth,
    **absent(
        "layers.experimental.preprocessing", ("CategoryCrossing",), "Use layers.HashedCrossing"
    ),
}

_OPERATIONS = {
    "TFOpLambda": given(TFOpLambda),
    "SlicingOpLambda": given(KerasGetItem),
}
"""The classes of operations between the layers of a functional model."""

SPELLINGS = (
    Spelling(
        name="`keras.losses.mse`, `keras.losses.Reduction`, `tf.keras.metrics.mean_squared_error`, "
        "`keras.preprocessing.text`, ...",
        keras_2="`keras` and `tf.keras` had the same names.",
        here="Each of the two has the names of the other, too.",
        names=_in_each(
            {
                module: of_both(module)
                for module in (
                    "layers",
                    "losses",
                    "metrics",
                    "preprocessing.image",
                    "preprocessing.sequence",
                    "preprocessing.text",
                )
            }
        ),
    ),
    Spelling(
        name="`keras.layers.experimental.preprocessing`",
        keras_2="Preprocessing layers.",
        here="They are those of `keras.layers`. `CategoryCrossing` raises.",
        names=_in_each({"layers.experimental.preprocessing": _OF_PREPROCESSING}),
    ),
    Spelling(
        name="`keras.layers.preprocessing.normalization`, `.image_preprocessing`, "
        "`.text_vectorization`, ...",
        keras_2="The modules in which the preprocessing layers were written.",
        here="Each has the names of `keras.layers.experimental.preprocessing`.",
        names=_in_each(
            {
                f"layers.preprocessing.{module}": _OF_PREPROCESSING
                for module in _PREPROCESSING_MODULES
            }
            | {
                "layers.preprocessing.index_lookup": {
                    "IndexLookup": given(keras.layers.StringLookup.__base__)
                },
                "engine.base_preprocessing_layer": moved(PreprocessingLayer="layers.Layer"),
            }
        ),
    ),
    Spelling(
        name="`keras.layers.experimental`",
        keras_2="Layers that were new.",
        here="`EinsumDense` is that of `keras.layers`, `SyncBatchNormalization` a "
        "`BatchNormalization(synchronized=True)`. `RandomFourierFeatures` raises.",
        names=_in_each(
            {
                "layers.experimental": {
                    **moved(EinsumDense="layers.EinsumDense"),
                    "SyncBatchNormalization": given(_synchronized_norm),
                    **absent("layers.experimental", ("RandomFourierFeatures",), _NO_LAYER),
                }
            }
        ),
    ),
    Spelling(
        name="`keras.layers.core`, `.convolutional`, `.recurrent`, `.merge`, `.normalization`, "
        "..., `keras.engine`",
        keras_2="The modules in which the layers were written.",
        here="Each has the names of `keras.layers`; `keras.engine` (also `keras.src.engine`) has "
        "`Layer`, `Model`, `Sequential`, `Input`, `InputSpec` and `KerasTensor` in its modules.",
        names=_in_each(
            {f"layers.{module}": of_both("layers") for module in _LAYER_MODULES}
            | {
                "layers.core": of_both("layers") | _OPERATIONS,
                "layers.core.tf_op_layer": _OPERATIONS,
                "engine": moved(Input="Input", InputSpec="InputSpec", Layer="Layer", Model="Model"),
                "engine.base_layer": moved(
                    InputSpec="InputSpec", Layer="Layer", BaseRandomLayer="Layer"
                ),
                "engine.functional": moved(Functional="Model"),
                "engine.input_layer": moved(Input="Input", InputLayer="layers.InputLayer"),
                "engine.input_spec": moved(InputSpec="InputSpec"),
                "engine.keras_tensor": {
                    **moved(KerasTensor="KerasTensor"),
                    "SparseKerasTensor": given(SparseKerasTensor),
                },
                "engine.sequential": moved(Sequential="Sequential"),
                "engine.topology": moved(
                    Input="Input",
                    InputSpec="InputSpec",
                    Layer="Layer",
                    InputLayer="layers.InputLayer",
                ),
                "engine.training": moved(Model="Model"),
            }
        ),
    ),
    Spelling(
        name="`keras.constraints.maxnorm`, `nonneg`, `unitnorm`",
        keras_2="Short names of constraints, from Keras 1.",
        here="They are `MaxNorm`, `NonNeg` and `UnitNorm`.",
        names=_in_each(
            {
                "constraints": moved(
                    maxnorm="constraints.MaxNorm",
                    nonneg="constraints.NonNeg",
                    unitnorm="constraints.UnitNorm",
                )
            }
        ),
    ),
    Spelling(
        name="`keras.layers.CuDNNLSTM`, `keras.layers.CuDNNGRU`",
        keras_2="The layers `LSTM` and `GRU` in a library for other machines.",
        here="They are `LSTM` and `GRU`.",
        names=_in_each({"layers": moved(CuDNNLSTM="layers.LSTM", CuDNNGRU="layers.GRU")}),
    ),
    Spelling(
        name="`keras.layers.LocallyConnected1D`, `LocallyConnected2D`, `DenseFeatures`, "
        "`AbstractRNNCell`, `keras.constraints.RadialConstraint`",
        keras_2="Layers and a constraint that Keras 3 dropped.",
        here="`AbstractRNNCell` is `Layer`; the others raise when they are used.",
        is_kept=False,
        names=_in_each(
            {
                "layers": {
                    **moved(AbstractRNNCell="Layer"),
                    **absent(
                        "layers",
                        ("LocallyConnected1D", "LocallyConnected2D", "DenseFeatures"),
                        _NO_LAYER,
                    ),
                },
                "constraints": absent(
                    "constraints",
                    ("RadialConstraint", "radial_constraint"),
                    "Write it as a subclass of keras.constraints.Constraint",
                ),
            }
        ),
    ),
    Spelling(
        name="`keras.mixed_precision.experimental`: `Policy`, `set_policy`, `global_policy`, "
        "`LossScaleOptimizer`",
        keras_2="Dtypes of layers, and the scale of the loss.",
        here="They are those of `keras.mixed_precision`, also in `keras.mixed_precision.policy`; a "
        "fixed `loss_scale` of a policy is refused.",
        names=_in_each(
            {
                "mixed_precision": {"set_policy": given(_set_policy)},
                "mixed_precision.loss_scale_optimizer": moved(
                    LossScaleOptimizer="mixed_precision.LossScaleOptimizer"
                ),
                "mixed_precision.policy": {
                    "Policy": given(_policy),
                    "set_policy": given(_set_policy),
                    **moved(
                        global_policy="mixed_precision.global_policy",
                        set_global_policy="mixed_precision.set_global_policy",
                    ),
                },
                "mixed_precision.experimental": {
                    "Policy": given(_policy),
                    "set_policy": given(_set_policy),
                    **moved(
                        LossScaleOptimizer="mixed_precision.LossScaleOptimizer",
                        global_policy="mixed_precision.global_policy",
                    ),
                },
            }
        ),
    ),
    Spelling(
        name="`tf.keras.experimental`",
        keras_2="Schedules and models that were new.",
        here="The schedules are those of `keras.optimizers.schedules`; the others raise.",
        names=_in_each(
            {
                "experimental": {
                    **of_module("optimizers.schedules", _SCHEDULES),
                    "terminate_keras_multiprocessing_pools": given(lambda *args, **kwargs: None),
                    **absent(
                        "experimental",
                        ("LinearCosineDecay", "NoisyLinearCosineDecay"),
                        _NO_SCHEDULE,
                    ),
                    **absent(
                        "experimental",
                        ("SequenceFeatures", "PeepholeLSTMCell"),
                        _NO_LAYER,
                    ),
                    **absent("experimental", _PREMADE, _NO_PREMADE),
                    **absent("experimental", ("SidecarEvaluator",), _NO_EVALUATOR),
                    **absent(
                        "experimental", ("export_saved_model", "load_from_saved_model"), _NO_FILES
                    ),
                }
            }
        ),
    ),
    Spelling(
        name="`keras.callbacks.experimental.BackupAndRestore`, `keras.models.model_from_config`, "
        "`keras.metrics.MeanTensor`",
        keras_2="Names that Keras 3 moved or dropped.",
        here="The callback is that of `keras.callbacks`, the function "
        "`keras.saving.deserialize_keras_object`. `MeanTensor`, `MeanRelativeError`, "
        "`model_from_yaml` and `BaseLogger` raise.",
        names=_in_each(
            {
                "callbacks.experimental": moved(BackupAndRestore="callbacks.BackupAndRestore"),
                "callbacks": absent("callbacks", ("BaseLogger",), "Keras 3 logs means itself"),
                "models": {
                    **moved(model_from_config="saving.deserialize_keras_object"),
                    **absent("models", ("model_from_yaml",), "Use model_from_json"),
                },
                "metrics": absent(
                    "metrics",
                    ("MeanTensor", "MeanRelativeError"),
                    "Write it as a subclass of keras.metrics.Metric",
                ),
            }
        ),
    ),
    Spelling(
        name="`keras.utils.np_utils`, `.generic_utils`, `.vis_utils`, `.data_utils`, "
        "`.layer_utils`, `.io_utils`",
        keras_2="The modules in which the utilities were written.",
        here="Each has the names of `keras.utils`.",
        names=_in_each(
            {
                f"utils.{module}": of_both("utils")
                for module in (
                    "all_utils",
                    "data_utils",
                    "generic_utils",
                    "io_utils",
                    "layer_utils",
                    "np_utils",
                    "vis_utils",
                )
            }
        ),
    ),
    Spelling(
        name="`keras.utils.multi_gpu_model`, `keras.wrappers.scikit_learn`, `keras.estimator`",
        keras_2="Replicas of a model, wrappers for other libraries.",
        here="They raise when they are used, and say what to do.",
        is_kept=False,
        names=_in_each(
            {
                "utils": absent("utils", ("multi_gpu_model",), _NO_SEVERAL),
                "wrappers.scikit_learn": absent(
                    "wrappers.scikit_learn", ("KerasClassifier", "KerasRegressor"), _NO_WRAPPER
                ),
                "estimator": absent("estimator", ("model_to_estimator",), _NO_ESTIMATOR),
            }
        ),
    ),
    Spelling(
        name="`keras.utils.SidecarEvaluator`, `HDF5Matrix`, `experimental.DatasetCreator`, "
        "`keras.premade`, `keras.models.experimental`",
        keras_2="Evaluation beside the training, arrays in files, datasets of several processes, "
        "and models that were made already.",
        here="They raise when they are used, and say what to do.",
        is_kept=False,
        names=_in_each(
            {
                "utils": {
                    **absent("utils", ("SidecarEvaluator",), _NO_EVALUATOR),
                    **absent("utils", ("HDF5Matrix",), _NO_MATRIX),
                },
                "utils.io_utils": absent("utils.io_utils", ("HDF5Matrix",), _NO_MATRIX),
                "utils.experimental": absent(
                    "utils.experimental", ("DatasetCreator",), _NO_CREATOR
                ),
                "premade": absent("premade", _PREMADE, _NO_PREMADE),
                "models.experimental": absent(
                    "models.experimental", ("SharpnessAwareMinimization",), _NO_SHARPNESS
                ),
            }
        ),
    ),
    Spelling(
        name="`keras.losses.losses_utils.ReductionV2`, `keras.utils.losses_utils.ReductionV2`",
        keras_2="The reductions of losses, where they were written.",
        here="It is `keras.losses.Reduction`.",
        names=_in_each(
            {
                module: {"ReductionV2": lambda: tf.keras.losses.Reduction}
                for module in ("losses.losses_utils", "utils.losses_utils")
            }
        ),
    ),
    Spelling(
        name="`keras.losses.cosine_proximity`",
        keras_2="The negative cosine, under its name of Keras 1.",
        here="It is `keras.losses.cosine_similarity`.",
        names=_in_each({"losses": moved(cosine_proximity="losses.cosine_similarity")}),
    ),
    Spelling(
        name="`keras.losses.LossFunctionWrapper`",
        keras_2="The base class of losses that are functions.",
        here="It is the base class of Keras 3's.",
        names=_in_each({"losses": {"LossFunctionWrapper": given(KerasFunctionLoss)}}),
    ),
    Spelling(
        name="`keras.utils.tf_inspect`",
        keras_2="TensorFlow's functions that inspect signatures.",
        here="It has TensorFlow's functions.",
        names=_in_each({"utils.tf_inspect": of_python_module(tf_inspect)}),
    ),
    Spelling(
        name="`keras.objectives`",
        keras_2="The losses.",
        here="It has the names of `keras.losses`.",
        names=_in_each({"objectives": of_both("losses")}),
    ),
    Spelling(
        name="`keras.utils.to_categorical(y, num_classes, dtype=)`",
        keras_2="Rows of float32, or of another dtype.",
        here="Rows of that dtype; Keras 3 alone returns float64.",
        names=_in_each(
            {
                module: {"to_categorical": given(_to_categorical)}
                for module in ("utils", "utils.np_utils", "utils.all_utils")
            }
        ),
        replaces_names=True,
        notes_names=False,
    ),
)
