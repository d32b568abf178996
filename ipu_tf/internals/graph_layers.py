"""The layers and cells of TensorFlow 1, which TensorFlow holds back beside Keras 3."""

from __future__ import annotations

from types import ModuleType

# Scripts import this module, which becomes `tf.compat.v1` once it is imported.
import tensorflow.compat.v1 as _v1

# Only their public places, `tf.compat.v1.layers` and `tf.compat.v1.nn.rnn_cell`, refuse every name
# if Keras 3 is installed.
from tensorflow.python.keras.legacy_tf_layers import base as _base
from tensorflow.python.keras.legacy_tf_layers import convolutional as _convolutional
from tensorflow.python.keras.legacy_tf_layers import core as _core
from tensorflow.python.keras.legacy_tf_layers import pooling as _pooling
from tensorflow.python.ops import rnn_cell as _rnn_cell

GraphLayer = _base.Layer
"""The base class of layers whose variables are those of `get_variable`."""

PLACES: tuple[tuple[ModuleType, str, tuple[ModuleType, ...]], ...] = (
    (_v1, "layers", (_core, _convolutional, _pooling, _base)),
    (_v1.nn, "rnn_cell", (_rnn_cell,)),
)
"""A module, the name of its attribute, and the modules that have what the attribute holds back."""
