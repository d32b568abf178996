"""Keeps the programs that a strategy has traced, for its reports."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Hashable, Iterator

from ipu_tf.programs.program import Program
from ipu_tf.tile_program.condensation import condensed


class ProgramRegistry:
    """Keeps programs in the order of their traces, the last of those with equal keys.

    If a program's function or model is gone, only the figures stay, without single tensors.
    """

    def __init__(self) -> None:
        self._programs: dict[Hashable, Program] = {}

    def __iter__(self) -> Iterator[Program]:
        return iter(tuple(self._programs.values()))

    def add(self, subject: object, key: Hashable, program: Program) -> None:
        """Keeps a program.

        Args:
            subject: The function or model of the program; it is not kept.
            key: Distinguishes the program from others.
            program: The program.
        """
        if key not in self._programs:
            # A few built-in functions have no weak references; they never end.
            with contextlib.suppress(TypeError):
                weakref.finalize(subject, _condense, weakref.ref(self), key).atexit = False
        self._programs[key] = program

    def clear(self) -> None:
        """Forgets all programs."""
        self._programs.clear()

    def condense(self, key: Hashable) -> None:
        """Reduces a program, if present, to its figures."""
        program = self._programs.get(key)
        if program is not None:
            program.source = None
        if program is not None and program.device is not None:
            program.device = condensed(program.device)


def _condense(programs: weakref.ref[ProgramRegistry], key: Hashable) -> None:
    registry = programs()
    if registry is not None:
        registry.condense(key)
