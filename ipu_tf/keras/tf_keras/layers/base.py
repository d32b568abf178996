"""What the IPU's layers for tf_keras have in common."""

from __future__ import annotations

from typing import Any, ClassVar

import tf_keras

from ipu_tf.keras.layers.ipu_layer import AnyKeras, RefusingLayer

registered = tf_keras.saving.register_keras_serializable("ipu_tf")
"""Makes a class known to the files of tf_keras."""


class OfTfKeras(AnyKeras):
    """Makes the parts of a layer that are the same over any Keras use tf_keras.

    A layer names its parts, then this class, then its base of tf_keras.
    """

    _keras: ClassVar[Any] = tf_keras


class IPULayer(RefusingLayer, OfTfKeras, tf_keras.layers.Layer):
    """See `ipu_tf.keras.layers.ipu_layer.IPULayer`."""
