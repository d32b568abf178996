"""Caches programs by their inputs, so a function that is traced again is not compiled again.

Two levels of caching make a program cheap to find. A caller that runs a function keeps its program
with the executable and pays nothing. A caller that has traced a function again, and so has an equal
module in other objects, finds its program here for the price of reading the module once (some 3 us
per instruction).
"""

from __future__ import annotations

import hashlib
import marshal
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from threading import Lock
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Computation, Module
from ipu_tf.planner.plan import OpShape, Plan

_CANONICAL = 2
"""Version of marshal's format without references: equal values give equal bytes."""

Plain: TypeAlias = "str | int | bytes | tuple[Plain, ...] | list[Plain] | None"
"""A built-in value that marshal writes."""

ProgramT = TypeVar("ProgramT")


def fingerprint(
    module: Module,
    options: CompilerOptions,
    plans: Mapping[str, tuple[OpShape, Plan]],
    samples_per_run: int,
) -> bytes:
    """Returns a digest that is the same for equal arguments of a compilation, 16 bytes.

    It depends on names, too: the program's steps and tensors contain them.
    """
    digest = hashlib.blake2b(digest_size=16)
    head = (module.name, module.entry, repr(module.parameters), repr(options), samples_per_run)
    digest.update(marshal.dumps((*head, repr(sorted(plans.items()))), _CANONICAL))
    for name, computation in module.computations.items():
        digest.update(marshal.dumps((name, computation.root), _CANONICAL))
        digest.update(marshal.dumps(tuple(_plain(computation)), _CANONICAL))
    return digest.digest()


def _plain(computation: Computation) -> Iterator[tuple[Plain, ...]]:
    """Yields every instruction as built-in values."""
    for instruction in computation:
        yield (
            instruction.name,
            instruction.opcode,
            str(instruction.type),
            instruction.operands,
            instruction.computations,
            [(key, plain_attribute(value)) for key, value in instruction.attributes.items()],
            instruction.op_name,
            instruction.op_type,
            instruction.layer,
            instruction.phase,
            instruction.recomputed,
            instruction.after,
        )


def plain_attribute(value: object) -> Plain:
    """Returns an attribute of an instruction as built-in values, equal for equal attributes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tobytes()
    return repr(value)


class ProgramStore(Protocol):
    """Programs that several processes share."""

    def get(self, key: str, make: Callable[[], ProgramT]) -> ProgramT:
        """Returns the program of a key, which one of the processes makes."""
        ...


class ProgramCache(Generic[ProgramT]):
    """The programs used last.

    Args:
        capacity: Number of programs to keep.
    """

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._programs: OrderedDict[Hashable, ProgramT] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], ProgramT]) -> ProgramT:
        """Returns the program of a key; compiles it if it is missing. Does not cache errors."""
        with self._lock:
            if key in self._programs:
                self._programs.move_to_end(key)
                return self._programs[key]
        program = make()
        with self._lock:
            self._programs[key] = program
            while len(self._programs) > self._capacity:
                self._programs.popitem(last=False)
        return program
