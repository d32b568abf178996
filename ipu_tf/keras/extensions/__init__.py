"""The IPU's additional methods of Keras models made in the scope, and their options."""

from ipu_tf.keras.extensions.extensions_base import IPUExtensions
from ipu_tf.keras.options import ReplicatedMetricReductionMethod

__all__ = [
    "FunctionalExtension",
    "IPUExtensions",
    "ModelExtension",
    "ReplicatedMetricReductionMethod",
    "SequentialExtension",
]

# Models of every kind have the same methods; scripts ask for them by kind.
FunctionalExtension = ModelExtension = SequentialExtension = IPUExtensions
