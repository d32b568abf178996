"""Looks for the first gradient with values that become 0, run by run, until there is one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipu_tf.programs.nonfinite import NonFinite, ValueSummary
from ipu_tf.runtime.execution.nonfinite_replay import ReplayedRun, ReplayLog
from ipu_tf.runtime.execution.underflow import LostValues, can_lose, lost
from ipu_tf.runtime.execution.value_checks import (
    CheckedOp,
    FunctionChecks,
    place_of,
    summary,
)
from ipu_tf.runtime.execution.value_history import ValueHistory


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A gradient with values that became 0.

    Attributes:
        checked: The operation.
        lost: The values.
        operands: What it read.
        results: What it computed, and what that should be.
        iterations: The loops around it, and the numbers of their iterations.
    """

    checked: CheckedOp
    lost: LostValues
    operands: tuple[ValueSummary, ...]
    results: tuple[ValueSummary, ...]
    iterations: tuple[tuple[str, int], ...]


class _GradientHistory(ValueHistory):
    """Notes the first gradient with values that became 0, and the largest value of all."""

    def __init__(self, checks: FunctionChecks) -> None:
        super().__init__(checks)
        self.found: _Found | None = None
        self.largest = 0.0

    def note(self, number: int, values: Sequence[NDArray[Any]]) -> None:
        """Takes the operands and the results of a run of a gradient."""
        checked = self._checks[number]
        if not isinstance(checked, CheckedOp):
            super().note(number, values)
            return
        count = len(checked.operands)
        operands, result = values[:count], values[count]
        finite = result[np.isfinite(result)]
        self.largest = max(self.largest, float(np.abs(finite).max(initial=0.0)))
        found = None if self.found is not None else lost(checked.node, operands, result)
        if found is not None:
            read = zip(checked.operands, operands, strict=True)
            self.found = _Found(
                checked=checked,
                lost=found,
                operands=tuple(summary(*one) for one in read if one[1].dtype.kind in "fV"),
                results=(summary("result 0", result), summary("should be", found.exact)),
                iterations=tuple(self._loops),
            )


class UnderflowLog(ReplayLog):
    """Logs the first gradient of a program with values that became 0."""

    is_asked = True
    only = staticmethod(can_lose)

    def is_seeking(self) -> NDArray[np.bool_]:
        """Returns whether none was found so far."""
        return np.array(not any(one.fault == "underflow" for one in self._found))

    def _new_history(self, checks: FunctionChecks) -> ValueHistory:
        return _GradientHistory(checks)

    def _end(self, run: ReplayedRun, values: Sequence[NDArray[Any]]) -> None:
        history = run.history
        if isinstance(history, _GradientHistory) and history.found is not None:
            self._add(self._lost(history.found, history.largest, run))

    def _lost(self, found: _Found, largest: float, run: ReplayedRun) -> NonFinite:
        name, exact = found.checked.name, found.lost.exact
        position, around = place_of(found.lost.flat, exact)
        factor = found.lost.factor(largest)
        return NonFinite(
            program=self._name,
            **self._moment(run, found.iterations),
            fault="underflow",
            op=name,
            op_type=found.checked.op_type,
            layer=self._layers.layer_or_scope(name),
            operands=found.operands,
            results=found.results,
            position=position,
            around=around,
            loss_scale=run.loss_scale,
            lost=found.lost.count,
            factor=factor,
            kept=found.lost.kept(factor),
            **self._place(found.checked, exact.shape, position),
        )
