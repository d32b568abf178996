"""ipu_tf: TensorFlow 2 / Keras 3 scripts for Graphcore IPUs, on a simulated IPU."""

from ipu_tf import config, keras, ops, scopes, utils
from ipu_tf.config import IPUConfig
from ipu_tf.estimation import estimate
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.profile.report import Report

__all__ = [
    "IPUConfig",
    "IPUStrategy",
    "Report",
    "config",
    "estimate",
    "keras",
    "ops",
    "scopes",
    "utils",
]
