"""ipu_tf: TensorFlow 2 / Keras 3 scripts for Graphcore IPUs, on a simulated IPU."""

from ipu_tf import config, keras, machine, ops, scopes, utils
from ipu_tf.compiler.errors import IPUOutOfMemoryError, UnsupportedOpcodeError
from ipu_tf.config import IPUConfig
from ipu_tf.estimation import estimate
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.profile.report import Report
from ipu_tf.runtime.uncompilable import UncompilableProgram

__all__ = [
    "IPUConfig",
    "IPUOutOfMemoryError",
    "IPUStrategy",
    "Report",
    "UncompilableProgram",
    "UnsupportedOpcodeError",
    "config",
    "estimate",
    "keras",
    "machine",
    "ops",
    "scopes",
    "utils",
]
