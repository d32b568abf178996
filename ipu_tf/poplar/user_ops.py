"""Custom ops of TensorFlow written for Poplar: checked, built for their shapes, and their graphs.

The functions are those of ops/poplar/src/user_op. What they raise becomes a `UserOpError`.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ipu_tf.machine.target import Target
from ipu_tf.poplar.libraries import installation
from ipu_tf.poplar.model.graph import PoplarGraph
from ipu_tf.poplar.model.records import read_records
from ipu_tf.poplar.toolchain import PoplarBuildError
from ipu_tf.poplar.user_op_sources import SUFFIXES, compiled

DTYPES = frozenset(
    {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"}
)
"""Types of tensors that Poplar has."""

GRADIENT = "_grad"
"""What the name of the function of a gradient ends with."""

_FIRST_GENERATION = "gc2"


class UserOpError(ValueError):
    """A custom op cannot be called, built or compiled; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """The dtype, by TensorFlow's name, and the shape of a tensor."""

    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class UserOpCall:
    """A function of a library, as a program calls it.

    Attributes:
        library: Path of the library, or of its C++ source.
        codelets: Path of codelets, a .gp file or C++; "" for none.
        function: Name of the function that builds the op.
        label: Name of the op in TensorFlow.
        attributes: Text that the function gets.
        is_gradient: Whether it builds a gradient.
        gradient_of: The input of the forward op whose gradient it builds, if there is one call an
            input; else 0.
    """

    library: str
    codelets: str
    function: str
    label: str
    attributes: str = ""
    is_gradient: bool = False
    gradient_of: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProgram:
    """A custom op that was built for its shapes.

    Attributes:
        run: The address of the function that runs it.
        op: The address of what that function runs.
        has_output: Whether it gives each of the outputs: a gradient may leave out some.
    """

    run: int
    op: int
    has_output: tuple[bool, ...]

    def graph(self) -> PoplarGraph:
        """Returns its graph, for the model of cycles and memory."""
        size = ctypes.c_int64()
        bridge = _bridge()
        records = bridge.ipu_tf_user_op_records(self.op, ctypes.byref(size), _failure())
        return PoplarGraph.of(read_records(ctypes.string_at(records, size.value)))


def is_stateless(call: UserOpCall, inputs: int) -> bool:
    """Returns whether an op says that its outputs depend on its inputs alone.

    Args:
        call: The op.
        inputs: Number of its inputs.

    Raises:
        UserOpError: The library cannot be loaded, has an unknown level of the API, or lacks the
            function.
    """
    stateless, error = ctypes.c_int32(), _failure()
    library, function = _library(call).encode(), call.function.encode()
    if not _bridge().ipu_tf_user_op_check(
        library, function, inputs, ctypes.byref(stateless), error
    ):
        raise UserOpError(_reason(error))
    return bool(stateless.value)


def build(
    call: UserOpCall,
    inputs: Sequence[TensorType],
    outputs: Sequence[TensorType],
    target: Target,
    forward_outputs: int = 0,
) -> UserProgram:
    """Builds and compiles an op for the shapes of its tensors.

    Args:
        call: The op.
        inputs: Its inputs; of a gradient, the gradients of the forward op's outputs, then its
            outputs, then its inputs.
        outputs: Its outputs.
        target: The IPU.
        forward_outputs: The outputs of the forward op, of a gradient.

    Raises:
        UserOpError: It cannot be loaded, what it does is refused, or it makes other outputs.
    """
    tensors = [*inputs, *outputs]
    sizes = [size for tensor in tensors for size in tensor.shape]
    request = _Request(
        library=_library(call).encode(),
        codelets=os.path.abspath(call.codelets).encode() if call.codelets else b"",
        name=call.function.encode(),
        label=call.label.encode(),
        attributes=call.attributes.encode(),
        is_gradient=call.is_gradient,
        forward_outputs=forward_outputs,
        gradient_of=call.gradient_of,
        inputs=len(inputs),
        outputs=len(outputs),
        types=(ctypes.c_char_p * len(tensors))(*(one.dtype.encode() for one in tensors)),
        ranks=(ctypes.c_int32 * len(tensors))(*(len(one.shape) for one in tensors)),
        sizes=(ctypes.c_int64 * len(sizes))(*sizes),
        version=b"ipu1" if target.chip == _FIRST_GENERATION else b"ipu2",
        tiles=target.tiles,
        workers=target.workers,
        tile_bytes=target.tile_bytes,
        exchange_bytes_per_cycle=target.exchange_bytes_per_cycle,
        sync_cycles=target.sync_cycles,
        clock_hz=target.clock_hz,
    )
    has_output, error = (ctypes.c_int32 * len(outputs))(), _failure()
    bridge = _bridge()
    op = bridge.ipu_tf_user_op_make(ctypes.byref(request), has_output, error)
    if op is None:
        raise UserOpError(_reason(error))
    run = ctypes.cast(bridge.ipu_tf_user_op_run, ctypes.c_void_p).value or 0
    return UserProgram(run=run, op=op, has_output=tuple(map(bool, has_output)))


class _Request(ctypes.Structure):
    """`ipu_tf_user_op_request` of interface.h."""

    _fields_ = (
        ("library", ctypes.c_char_p),
        ("codelets", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("label", ctypes.c_char_p),
        ("attributes", ctypes.c_char_p),
        ("is_gradient", ctypes.c_int32),
        ("forward_outputs", ctypes.c_int32),
        ("gradient_of", ctypes.c_int32),
        ("inputs", ctypes.c_int32),
        ("outputs", ctypes.c_int32),
        ("types", ctypes.POINTER(ctypes.c_char_p)),
        ("ranks", ctypes.POINTER(ctypes.c_int32)),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("version", ctypes.c_char_p),
        ("tiles", ctypes.c_int32),
        ("workers", ctypes.c_int32),
        ("tile_bytes", ctypes.c_int32),
        ("exchange_bytes_per_cycle", ctypes.c_int32),
        ("sync_cycles", ctypes.c_int32),
        ("clock_hz", ctypes.c_double),
    )


@functools.cache
def _bridge() -> ctypes.CDLL:
    """Returns the library that builds ops; it is built where it is missing."""
    bridge = ctypes.CDLL(str(installation().user_ops))
    bridge.ipu_tf_user_op_make.restype = ctypes.c_void_p
    bridge.ipu_tf_user_op_records.restype = ctypes.c_void_p
    bridge.ipu_tf_user_op_records.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]
    return bridge


def _failure() -> Any:
    """Returns a place for the reason of a failure."""
    return ctypes.byref(ctypes.c_char_p())


def _reason(error: Any) -> str:
    return (error._obj.value or b"").decode(errors="replace")


def _library(call: UserOpCall) -> str:
    """Returns the path of the library, which is compiled first if a source is given."""
    path = Path(call.library).resolve()
    if not path.is_file():
        raise UserOpError(
            f"the file of `library_path` does not exist. Received: library_path={call.library!r}."
        )
    if path.suffix not in SUFFIXES:
        return str(path)
    return str(_compiled(path, call.function.removesuffix(GRADIENT), path.stat().st_mtime_ns))


@functools.cache
def _compiled(source: Path, function: str, changed_ns: int) -> Path:
    """Returns the library of a source, as long as it does not change."""
    try:
        return compiled(source, function)
    except PoplarBuildError as error:
        raise UserOpError(str(error)) from None
