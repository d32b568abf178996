"""The C++ tile ops: loads the library once and exposes its generated op functions.

The package's own build command builds `_ops.so`. The version check comes first, so that a
library built for another TensorFlow fails with both versions instead of a missing symbol.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import tensorflow as tf

from ipu_tf.ops.kernels import version_check as _version_check

_PATH = Path(__file__).resolve().parents[2] / "_ops.so"

_FEED_FUNCTIONS: Mapping[str, tuple[Any, list[Any]]] = {
    "ipu_tf_infeed_create": (ctypes.c_int64, [ctypes.c_int64]),
    "ipu_tf_infeed_restart": (ctypes.c_int64, [ctypes.c_int64]),
    "ipu_tf_infeed_end": (
        None,
        [ctypes.c_int64, ctypes.c_int64, ctypes.c_int32, ctypes.c_char_p],
    ),
    "ipu_tf_outfeed_create": (ctypes.c_int64, [ctypes.c_int32]),
    "ipu_tf_outfeed_end": (None, [ctypes.c_int64, ctypes.c_int32, ctypes.c_char_p]),
    "ipu_tf_outfeed_wait": (ctypes.c_int32, [ctypes.c_int64]),
    "ipu_tf_outfeed_rows": (ctypes.c_int64, [ctypes.c_int64]),
    "ipu_tf_feed_delete": (ctypes.c_int32, [ctypes.c_int64]),
}
"""Types of the results and arguments of the C functions of feeds (ops/tf/feeds.cc)."""


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
    functions.ipu_tf_reset_seed.argtypes = [ctypes.c_uint64, ctypes.c_bool]
    functions.ipu_tf_reset_seed.restype = None
    functions.ipu_tf_isa.restype = ctypes.c_char_p
    return functions


@functools.cache
def feed_functions() -> ctypes.CDLL:
    """Returns the C functions that make, fill and delete the queues of feeds."""
    load()
    functions = ctypes.CDLL(str(_PATH))
    for name, (result, arguments) in _FEED_FUNCTIONS.items():
        function = getattr(functions, name)
        function.restype, function.argtypes = result, arguments
    return functions


def reset_seed(seed: int, identical_replicas: bool = False) -> None:
    """Seeds the generators of stochastic rounding and restarts every stream.

    Args:
        seed: Any whole number.
        identical_replicas: Whether all replicas of a program draw the same bits.
    """
    _c_functions().ipu_tf_reset_seed(seed % 2**64, identical_replicas)


def isa() -> str:
    """Returns the instruction set the kernels picked on this processor ("avx2" or "avx512")."""
    return _c_functions().ipu_tf_isa().decode()
