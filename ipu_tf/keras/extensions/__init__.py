"""The methods that Keras models made in the scope have besides Keras' own, and their options."""

from ipu_tf.keras.extensions.extensions_base import IPUExtensions
from ipu_tf.keras.options import ReplicatedMetricReductionMethod

__all__ = ["IPUExtensions", "ReplicatedMetricReductionMethod"]
