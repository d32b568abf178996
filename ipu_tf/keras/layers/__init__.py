"""Layers for the IPU."""

from ipu_tf.keras.layers.assume_equal_across_replicas import AssumeEqualAcrossReplicas
from ipu_tf.keras.layers.capture_upstream_gradients import (
    CaptureActivationGradients,
    CaptureUpstreamGradients,
)
from ipu_tf.keras.layers.ctc import CTCInferenceLayer, CTCLoss, CTCPredictionsLayer
from ipu_tf.keras.layers.dense import SerialDense
from ipu_tf.keras.layers.dropout import Dropout
from ipu_tf.keras.layers.effective_transformer import EffectiveTransformer
from ipu_tf.keras.layers.embedding_lookup import Embedding
from ipu_tf.keras.layers.normalization import (
    GroupNorm,
    GroupNormalization,
    InstanceNorm,
    InstanceNormalization,
    LayerNorm,
    LayerNormalization,
)
from ipu_tf.keras.layers.recomputation import RecomputationCheckpoint
from ipu_tf.keras.layers.rnn import GRU, LSTM, PopnnGRU, PopnnLSTM

__all__ = [
    "GRU",
    "LSTM",
    "AssumeEqualAcrossReplicas",
    "CTCInferenceLayer",
    "CTCLoss",
    "CTCPredictionsLayer",
    "CaptureActivationGradients",
    "CaptureUpstreamGradients",
    "Dropout",
    "EffectiveTransformer",
    "Embedding",
    "GroupNorm",
    "GroupNormalization",
    "InstanceNorm",
    "InstanceNormalization",
    "LayerNorm",
    "LayerNormalization",
    "PopnnGRU",
    "PopnnLSTM",
    "RecomputationCheckpoint",
    "SerialDense",
]
