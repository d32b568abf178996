"""Joins the collectives of programs over the instances of a job: the ops call this."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ipu_tf.ops.kernels import library
from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.job import communicator

_REDUCTIONS: Mapping[str, str] = MappingProxyType({"mean": "add", "square_add": "add"})
"""How totals are joined, where that is not the reduction's own name: the ops divide and square."""

_DTYPES: Mapping[str, str] = MappingProxyType({"float": "float32", "double": "float64"})
"""NumPy's names of types, where TensorFlow has others."""

_programs: dict[str, str] = {}
"""The fingerprint of the program that was traced last of those with a collective at a site."""


class _Exchange(ctypes.Structure):
    """`InstanceExchange` of ops/tf/replicas/instance_exchange.h."""

    _fields_ = (
        ("site", ctypes.c_char_p),
        ("kind", ctypes.c_char_p),
        ("reduction", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("shape", ctypes.c_char_p),
        ("first", ctypes.c_int64),
        ("count", ctypes.c_int64),
        ("group", ctypes.c_int64),
        ("input", ctypes.c_void_p),
        ("input_bytes", ctypes.c_int64),
        ("output", ctypes.c_void_p),
        ("output_bytes", ctypes.c_int64),
        ("error", ctypes.c_void_p),
        ("error_bytes", ctypes.c_int64),
    )


@functools.cache
def join() -> None:
    """Makes the collectives of programs join the replicas of all instances.

    Raises:
        CollectiveError: Not all instances come.
    """
    communicator()
    library.set_exchange(_function)


def note_program(sites: Iterable[str], program: str) -> None:
    """Makes collectives say of which program they are.

    Args:
        sites: The names of their places.
        program: The fingerprint of the program.
    """
    _programs.update(dict.fromkeys(sites, program))


@ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_Exchange))
def _function(pointer: Any) -> int:
    """Returns 0, or 1 for a message that was written."""
    exchange = pointer.contents
    try:
        _run(exchange)
    except BaseException as error:
        message = f"{type(error).__name__}: {error}".encode()[: exchange.error_bytes - 1]
        ctypes.memmove(exchange.error, message + b"\0", len(message) + 1)
        return 1
    return 0


def _run(exchange: Any) -> None:
    """Gives an exchange its output."""
    job = communicator()
    if job is None:
        raise RuntimeError("This process is the only one of its job.")
    first, count, group = exchange.first, exchange.count, exchange.group
    members = job.members(first, count, group)
    reduction, dtype = exchange.reduction.decode(), exchange.dtype.decode()
    start = members[0] * count
    call = CollectiveCall(
        kind=exchange.kind.decode(),
        name=exchange.site.decode(),
        dtype=dtype,
        shape=exchange.shape.decode(),
        reduction=reduction,
        program=_programs.get(exchange.site.decode(), ""),
        replicas=f"replicas {start} to {start + group - 1}",
    )
    own_bytes = ctypes.string_at(exchange.input, exchange.input_bytes)
    if not reduction:
        result = b"".join(job.all_gather(call, own_bytes, members=members))
    else:
        values = np.frombuffer(own_bytes, _DTYPES.get(dtype, dtype))
        elements = exchange.output_bytes // values.itemsize
        rows = values.reshape(-1, elements) if elements else values.reshape(1, 0)
        join = _REDUCTIONS.get(reduction, reduction)
        total = job.all_reduce(call, rows, join=join, first=first, count=count, group=group)
        result = total.astype(values.dtype, copy=False).tobytes()
    ctypes.memmove(exchange.output, result, exchange.output_bytes)
