"""The IPU's additional methods of Keras models made in the scope, and their options."""

from ipu_tf.keras.extensions.extensions_base import IPUExtensions
from ipu_tf.keras.options import ReplicatedMetricReductionMethod

__all__ = ["IPUExtensions", "ReplicatedMetricReductionMethod"]
