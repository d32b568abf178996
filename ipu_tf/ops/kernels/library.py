"""The C++ tile ops: loads the library once and exposes its generated op functions.

The package's own build command builds `_ops.so`. The version check comes first, so that a
library built for another TensorFlow fails with both versions instead of a missing symbol.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.tensorflow import TensorProto
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


def add_user_program(
    key: str, run: int, op: int, input_bytes: ctypes.Array[ctypes.c_int64]
) -> None:
    """Makes the program of a custom op known to the kernel under a key (ops/tf/user_op.cc).

    Args:
        key: The key, which no other program of any process has.
        run: The address of the function that runs it.
        op: The address of what that function runs.
        input_bytes: Bytes of its inputs.
    """
    pointers = (ctypes.c_void_p(run), ctypes.c_void_p(op))
    _c_functions().ipu_tf_add_user_program(key.encode(), *pointers, input_bytes, len(input_bytes))


Describe = Callable[[int, str, str, str, Sequence[np.ndarray], Sequence[np.ndarray]], str]
"""From the program, the op, its type, what happened, the operands and the results of an exception
to the rest of its message."""

_DESCRIBE = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_char_p,
    ctypes.c_void_p,
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.c_void_p,
    ctypes.c_int64,
)
"""The type of a function that writes it (ops/tf/floating_point_check_op.cc)."""


@functools.cache
def describe_exceptions(describe: Describe) -> Callable[..., int]:
    """Completes the messages of floating-point exceptions by a function from now on.

    Args:
        describe: The function; it is called on the threads of programs.
    """

    def write(
        program: int,
        op: bytes,
        op_type: bytes,
        fault: bytes,
        data: int,
        size: int,
        inputs: int,
        message: int,
        room: int,
    ) -> int:
        tensors = list(_tensors(ctypes.string_at(data, size)))
        text = describe(
            program,
            op.decode(),
            op_type.decode(),
            fault.decode(),
            tensors[:inputs],
            tensors[inputs:],
        )
        plain = text[: room // 4].encode()  # At most four bytes a character.
        ctypes.memmove(message, plain, len(plain))
        return len(plain)

    callback = _DESCRIBE(write)
    _c_functions().ipu_tf_describe_exceptions(callback)
    return callback  # The cache keeps it.


Replay = Callable[[int, int, int, Sequence[np.ndarray]], None]
"""Takes the number of a program, of a replica, of a run, and what the run read."""

_REPLAY = ctypes.CFUNCTYPE(
    None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_int64
)
"""The type of a function that replays a run (ops/tf/nonfinite_flag_op.cc)."""


@functools.cache
def replay_by(replay: Replay) -> Callable[..., None]:
    """Lets a function replay runs whose results are not finite from now on.

    Args:
        replay: The function; it is called on the threads of programs, which wait for it.
    """

    def call(program: int, replica: int, run: int, data: int, size: int) -> None:
        replay(program, replica, run, list(_tensors(ctypes.string_at(data, size))))

    callback = _REPLAY(call)
    _c_functions().ipu_tf_replay_by(callback)
    return callback  # The cache keeps it.


def _tensors(plain: bytes) -> Iterator[np.ndarray]:
    """Yields tensors: a TensorProto each, behind its size in 8 bytes."""
    while plain:
        end = 8 + int.from_bytes(plain[:8], "little")
        yield tf.make_ndarray(TensorProto.FromString(plain[8:end]))
        plain = plain[end:]


def set_exchange(function: Callable[..., int]) -> None:
    """Sets the C function by which collectives exchange values with other processes.

    Args:
        function: Takes a pointer to an `InstanceExchange` (ops/tf/replicas/instance_exchange.h).
    """
    _c_functions().ipu_tf_join_instances(function)


def isa() -> str:
    """Returns the instruction set the kernels picked on this processor ("avx2" or "avx512")."""
    return _c_functions().ipu_tf_isa().decode()
