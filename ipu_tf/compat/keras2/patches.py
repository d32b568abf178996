"""The methods of Keras that several spellings replace."""

from __future__ import annotations

import keras

from ipu_tf.internals.keras import KerasTrainer
from ipu_tf.internals.patches import Patch

LAYER_NAMES = (
    Patch(keras.Operation, "__init__", "names of layers may have a slash"),
    Patch(keras.Model, "get_layer", "names of layers may have a slash"),
)
LAYER_ARGUMENTS = Patch(keras.Layer, "__init__", "layers take the arguments of Keras 2")
EMBEDDING_ARGUMENTS = Patch(
    keras.layers.Embedding, "__init__", "`input_length` is the shape of its input"
)
OPTIMIZER_ARGUMENTS = Patch(
    keras.optimizers.Optimizer, "__init__", "optimizers take the arguments of Keras 2"
)
OPTIMIZER_BUILDS = Patch(keras.optimizers.Optimizer, "build", "an epsilon of None is the default")
CHECKPOINTS = Patch(keras.callbacks.ModelCheckpoint, "__init__", "its path may have any ending")
# Keras looks whether a model overrides the method of this class.
COMPILATION = Patch(KerasTrainer, "compile", "models take the arguments of Keras 2")
LOSS_ARGUMENTS = Patch(keras.Loss, "__init__", 'the reduction "auto" has its meaning of Keras 2')
LOSS_CALLS = Patch(keras.Loss, "__call__", "targets may lack the last dimension")
METRIC_CALLS = Patch(
    keras.metrics.MeanMetricWrapper, "update_state", "targets may lack the last dimension"
)
