"""The library that builds and runs custom ops (ops/poplar/src/user_op), through ctypes."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from ipu_tf.machine.target import Target

DTYPES = frozenset(
    {"bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "float16", "float32"}
)
"""Types of tensors that Poplar has."""

_FIRST_GENERATION = "gc2"

RUN = ctypes.CFUNCTYPE(
    ctypes.c_int,
    ctypes.c_void_p,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_char_p),
)
"""The type of the function that runs an op: the op, its inputs, its outputs, the reason of a
failure. It returns 0 if it fails."""


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
class UserOpShapes:
    """A custom op with its tensors and its machine.

    Attributes:
        call: The op.
        inputs: Its inputs; of a gradient, the gradients of the forward op's outputs, then its
            outputs, then its inputs.
        outputs: Its outputs.
        target: The IPU.
        forward_outputs: The outputs of the forward op, of a gradient.
    """

    call: UserOpCall
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    target: Target
    forward_outputs: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UserProgram:
    """A custom op that was built for its shapes.

    Attributes:
        run: The address of the function that runs it, of type `RUN`.
        op: The address of what that function runs.
        has_output: Whether it gives each of the outputs: a gradient may leave out some.
        records: Returns its graph, for the model of cycles and memory.
    """

    run: int
    op: int
    has_output: tuple[bool, ...]
    records: Callable[[], bytes] = field(compare=False)


class Bridge:
    """The library, loaded.

    Args:
        path: Where it is.
    """

    def __init__(self, path: Path) -> None:
        self._library = library = ctypes.CDLL(str(path))
        library.ipu_tf_user_op_make.restype = ctypes.c_void_p
        library.ipu_tf_user_op_records.restype = ctypes.c_void_p
        library.ipu_tf_user_op_records.argtypes = [ctypes.c_void_p] * 3

    def is_stateless(self, call: UserOpCall, inputs: int) -> bool:
        """Returns whether an op says that its outputs depend on its inputs alone.

        Args:
            call: The op.
            inputs: Number of its inputs.

        Raises:
            UserOpError: The library cannot be loaded, has an unknown level of the API, or lacks the
                function.
        """
        stateless, error = ctypes.c_int32(), ctypes.c_char_p()
        names = (call.library.encode(), call.function.encode())
        places = (ctypes.byref(stateless), ctypes.byref(error))
        if not self._library.ipu_tf_user_op_check(*names, inputs, *places):
            raise UserOpError(reason_of(error))
        return bool(stateless.value)

    def build(self, op: UserOpShapes) -> UserProgram:
        """Builds and compiles an op for the shapes of its tensors.

        Raises:
            UserOpError: It cannot be loaded, what it does is refused, or it makes other outputs.
        """
        call, target = op.call, op.target
        tensors = [*op.inputs, *op.outputs]
        sizes = [size for tensor in tensors for size in tensor.shape]
        request = _Request(
            library=call.library.encode(),
            codelets=os.path.abspath(call.codelets).encode() if call.codelets else b"",
            name=call.function.encode(),
            label=call.label.encode(),
            attributes=call.attributes.encode(),
            is_gradient=call.is_gradient,
            forward_outputs=op.forward_outputs,
            gradient_of=call.gradient_of,
            inputs=len(op.inputs),
            outputs=len(op.outputs),
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
        has_output, error = (ctypes.c_int32 * len(op.outputs))(), ctypes.c_char_p()
        handle = self._library.ipu_tf_user_op_make(
            ctypes.byref(request), has_output, ctypes.byref(error)
        )
        if handle is None:
            raise UserOpError(reason_of(error))
        run = ctypes.cast(self._library.ipu_tf_user_op_run, ctypes.c_void_p).value or 0
        return UserProgram(
            run=run,
            op=handle,
            has_output=tuple(map(bool, has_output)),
            records=lambda: self._records(handle),
        )

    def _records(self, op: int) -> bytes:
        size, error = ctypes.c_int64(), ctypes.c_char_p()
        content = self._library.ipu_tf_user_op_records(op, ctypes.byref(size), ctypes.byref(error))
        if content is None:
            raise UserOpError(reason_of(error))
        return ctypes.string_at(content, size.value)


def reason_of(error: ctypes.c_char_p) -> str:
    """Returns the reason of a failure that a function of the library gave."""
    return (error.value or b"").decode(errors="replace")


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
