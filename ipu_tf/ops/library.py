"""The C++ tile ops: loads the library once and exposes its generated op functions.

The package's own build command builds `_ops.so`. The version check comes first, so that a
library built for another TensorFlow fails with both versions instead of a missing symbol.
"""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from types import ModuleType

import tensorflow as tf

from ipu_tf import _version_check

_PATH = Path(__file__).parent.parent / "_ops.so"


@functools.cache
def load() -> ModuleType:
    """Returns the module of generated op functions, loading the library at the first call.

    Raises:
        ImportError: The library is missing or was built for another TensorFlow.
    """
    _version_check.check()
    return tf.load_op_library(str(_PATH))


@functools.cache
def _c_functions() -> ctypes.CDLL:
    load()
    functions = ctypes.CDLL(str(_PATH))
    functions.ipu_tf_reset_seed.argtypes = [ctypes.c_uint64]
    functions.ipu_tf_reset_seed.restype = None
    functions.ipu_tf_isa.restype = ctypes.c_char_p
    return functions


def reset_seed(seed: int) -> None:
    """Seeds the generators of stochastic rounding and restarts every stream."""
    _c_functions().ipu_tf_reset_seed(seed % 2**64)


def isa() -> str:
    """Returns the instruction set the kernels picked on this processor ("avx2" or "avx512")."""
    return _c_functions().ipu_tf_isa().decode()
