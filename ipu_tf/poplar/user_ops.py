"""Custom ops of TensorFlow written for Poplar: checked, and built for their shapes.

They run in this process, or each in a process of its own, so that a crash is an error.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path

from ipu_tf.poplar.libraries import installation
from ipu_tf.poplar.toolchain import PoplarBuildError
from ipu_tf.poplar.user_op_bridge import (
    Bridge,
    UserOpCall,
    UserOpError,
    UserOpShapes,
    UserProgram,
)
from ipu_tf.poplar.user_op_process import Child
from ipu_tf.poplar.user_op_sources import SUFFIXES, compiled

GRADIENT = "_grad"
"""What the name of the function of a gradient ends with."""


def is_stateless(call: UserOpCall, inputs: int, *, isolated: bool = False) -> bool:
    """Returns whether an op says that its outputs depend on its inputs alone.

    Args:
        call: The op.
        inputs: Number of its inputs.
        isolated: Whether its code runs in a process of its own.

    Raises:
        UserOpError: The library cannot be loaded, has an unknown level of the API, or lacks the
            function.
    """
    whole = _with_library(call)
    return (_child(whole) if isolated else _bridge()).is_stateless(whole, inputs)


def build(op: UserOpShapes, *, isolated: bool = False) -> UserProgram:
    """Builds and compiles an op for the shapes of its tensors.

    Args:
        op: The op.
        isolated: Whether its code runs in a process of its own.

    Raises:
        UserOpError: It cannot be loaded, what it does is refused, or it makes other outputs.
    """
    whole = _with_library(op.call)
    place = _child(whole) if isolated else _bridge()
    return place.build(dataclasses.replace(op, call=whole))


@functools.cache
def _bridge() -> Bridge:
    """Returns the library that builds ops; it is built where it is missing."""
    return Bridge(installation().user_ops)


_CHILDREN: dict[UserOpCall, Child] = {}


def _child(call: UserOpCall) -> Child:
    """Returns the process of an op, a new one if that has crashed."""
    if call not in _CHILDREN or _CHILDREN[call].has_ended:
        _CHILDREN[call] = Child(installation().user_ops)
    return _CHILDREN[call]


def _with_library(call: UserOpCall) -> UserOpCall:
    """Returns the call with the path of its library, which is compiled first if it is a source."""
    path = Path(call.library).resolve()
    if not path.is_file():
        raise UserOpError(
            f"the file of `library_path` does not exist. Received: library_path={call.library!r}."
        )
    if path.suffix in SUFFIXES:
        path = _compiled(path, call.function.removesuffix(GRADIENT), path.stat().st_mtime_ns)
    return dataclasses.replace(call, library=str(path))


@functools.cache
def _compiled(source: Path, function: str, changed_ns: int) -> Path:
    """Returns the library of a source, as long as it does not change."""
    try:
        return compiled(source, function)
    except PoplarBuildError as error:
        raise UserOpError(str(error)) from None
