"""`IPUStrategy` with the Keras models, layers and optimizers that belong to its scopes."""

import ipu_tf.keras  # noqa: F401 # It registers with the strategy, and its classes with Keras.
from ipu_tf.strategy import IPUStrategy, IPUStrategyV1
from ipu_tf.strategy.extension import IPUExtendedV1

__all__ = ["IPUExtendedV1", "IPUStrategy", "IPUStrategyV1"]
