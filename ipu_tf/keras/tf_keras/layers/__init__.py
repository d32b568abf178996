"""The IPU's layers for models of tf_keras. They compute what those of `ipu_tf.keras.layers` do."""

from __future__ import annotations

import inspect

import tensorflow as tf
import tf_keras

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tf_keras import forget_input_shape
from ipu_tf.keras.layers.assume_equal_across_replicas import AssumeEqualAcrossReplicasBody
from ipu_tf.keras.layers.capture_upstream_gradients import (
    CaptureActivationGradientsBody,
    CaptureUpstreamGradientsBody,
    GradientCaptureBody,
)
from ipu_tf.keras.layers.ctc import CTCInferenceLayerBody, CTCLossBody, CTCPredictionsLayerBody
from ipu_tf.keras.layers.dense import DenseBody, SerialDenseBody
from ipu_tf.keras.layers.dropout import DropoutBody
from ipu_tf.keras.layers.effective_transformer import EffectiveTransformerBody
from ipu_tf.keras.layers.embedding_lookup import EmbeddingBody
from ipu_tf.keras.layers.recomputation import RecomputationCheckpointBody
from ipu_tf.keras.tf_keras.layers.base import IPULayer, OfTfKeras, registered
from ipu_tf.keras.tf_keras.layers.normalization import (
    GroupNormalization,
    InstanceNormalization,
    LayerNormalization,
)
from ipu_tf.keras.tf_keras.layers.recurrent import PopnnGRU, PopnnLSTM

__all__ = [
    "GRU",
    "LSTM",
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCLoss",
    "CTCPredictionsLayer",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "Dense",
    "Dropout",
    "EffectiveTransformer",
    "Embedding",
    "GroupNorm",
    "GroupNormalization",
    "IPULayer",
    "InstanceNorm",
    "InstanceNormalization",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
    "SerialDense",
]


@registered
class AssumeEqualAcrossReplicas(AssumeEqualAcrossReplicasBody, OfTfKeras, tf_keras.layers.Layer):
    """See `ipu_tf.keras.layers.AssumeEqualAcrossReplicas`."""


class _GradientCapture(GradientCaptureBody, OfTfKeras, tf_keras.layers.Layer):
    """Behaves like the layer that it wraps."""

    def call(self, inputs: TensorStructure, *args: object, **kwargs: object) -> TensorStructure:
        """Returns the result of the wrapped layer.

        tf_keras gives `training` and `mask` to every layer that takes any argument.
        """
        parameters = inspect.signature(self.layer.call).parameters.values()
        if not any(one.kind is one.VAR_KEYWORD for one in parameters):
            names = {one.name for one in parameters}
            kwargs = {name: value for name, value in kwargs.items() if name in names}
        return super().call(inputs, *args, **kwargs)


@registered
class CaptureUpstreamGradients(CaptureUpstreamGradientsBody, _GradientCapture):
    """See `ipu_tf.keras.layers.CaptureUpstreamGradients`."""


@registered
class CaptureActivationGradients(CaptureActivationGradientsBody, _GradientCapture):
    """See `ipu_tf.keras.layers.CaptureActivationGradients`."""


@registered
class CTCLoss(CTCLossBody, OfTfKeras, tf_keras.layers.Layer):
    """See `ipu_tf.keras.layers.CTCLoss`."""


@registered
class CTCInferenceLayer(CTCInferenceLayerBody, OfTfKeras, tf_keras.layers.Layer):
    """See `ipu_tf.keras.layers.CTCInferenceLayer`."""


@registered
class CTCPredictionsLayer(CTCPredictionsLayerBody, CTCInferenceLayer):
    """See `ipu_tf.keras.layers.CTCPredictionsLayer`."""


@registered
class Dense(DenseBody, IPULayer, tf_keras.layers.Dense):
    """See `ipu_tf.keras.layers.dense.Dense`."""

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the outputs; see `tf_keras.layers.Dense`, which has no argument `training`."""
        del training
        return super().call(inputs)


@registered
class SerialDense(SerialDenseBody, IPULayer, tf_keras.layers.Dense):
    """See `ipu_tf.keras.layers.SerialDense`."""


@registered
class Dropout(DropoutBody, IPULayer, tf_keras.layers.Dropout):
    """See `ipu_tf.keras.layers.Dropout`."""


@registered
class Embedding(EmbeddingBody, IPULayer, tf_keras.layers.Embedding):
    """See `ipu_tf.keras.layers.Embedding`."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs:
            # Of tf_keras: floating point numbers of any length.
            forget_input_shape(self)


@registered
class RecomputationCheckpoint(RecomputationCheckpointBody, OfTfKeras, tf_keras.layers.Layer):
    """See `ipu_tf.keras.layers.RecomputationCheckpoint`."""


@registered
class EffectiveTransformer(EffectiveTransformerBody, OfTfKeras, tf_keras.layers.Layer):
    """See `ipu_tf.keras.layers.EffectiveTransformer`."""

    _dropout = Dropout
    _norm = LayerNormalization


GRU = PopnnGRU
GroupNorm = GroupNormalization
InstanceNorm = InstanceNormalization
LSTM = PopnnLSTM
LayerNorm = LayerNormalization
