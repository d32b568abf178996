"""ipu_tf: TensorFlow 2 / Keras 3 scripts for Graphcore IPUs, on a simulated IPU.

Names are imported when they are first used, so that the configuration, the machine, the compiler
and the command line can be used without loading TensorFlow.
"""

import importlib
import sys

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.

if TYPE_CHECKING:
    from ipu_tf import config, machine, ops, scopes, sweep, utils, zoo
    from ipu_tf import keras as keras
    from ipu_tf.config import IPUConfig
    from ipu_tf.estimation import estimate
    from ipu_tf.ipu_strategy import IPUStrategy
    from ipu_tf.profile.report import Report
    from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram
    from ipu_tf.tile_program.errors import IPUOutOfMemoryError, UnsupportedOpcodeError

# Without "keras": `from ipu_tf import *` must not hide Keras in a script that imports it, too.
__all__ = [
    "IPUConfig",
    "IPUOutOfMemoryError",
    "IPUStrategy",
    "Report",
    "UncompilableProgram",
    "UnsupportedOpcodeError",
    "config",
    "estimate",
    "machine",
    "ops",
    "scopes",
    "sweep",
    "utils",
    "zoo",
]

__version__ = "0.2.0.dev0"

_HOMES = {
    "IPUConfig": "ipu_tf.config",
    "IPUOutOfMemoryError": "ipu_tf.tile_program.errors",
    "IPUStrategy": "ipu_tf.ipu_strategy",
    "Report": "ipu_tf.profile.report",
    "UncompilableProgram": "ipu_tf.runtime.extraction.uncompilable",
    "UnsupportedOpcodeError": "ipu_tf.tile_program.errors",
    "estimate": "ipu_tf.estimation",
}
"""The module that defines a name of this one."""

_MODULES = frozenset(
    (
        "base",
        "calibration",
        "compiler",
        "config",
        "dataset_benchmark",
        "distributed",
        "eager",
        "estimation",
        "feeds",
        "gradient_accumulation",
        "ipu_compiler",
        "ipu_infeed_queue",
        "ipu_outfeed_queue",
        "ipu_strategy",
        "keras",
        "loops",
        "machine",
        "mcmc",
        "ops",
        "optimizers",
        "pipelining",
        "planner",
        "profile",
        "programs",
        "runtime",
        "scopes",
        "serving",
        "sharding",
        "strategy",
        "sweep",
        "tile_program",
        "utils",
        "validation",
        "zoo",
    )
)
"""Modules that are attributes of this one without an import of their own."""

# Type checkers read the imports above and would take this function to mean "any name at all".
if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value  # Later look-ups do not come here.
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})


if {"keras", "tensorflow"} & sys.modules.keys():
    # Nothing is left to save, and Keras finds in files the classes that are registered.
    importlib.import_module(f"{__name__}.keras")
