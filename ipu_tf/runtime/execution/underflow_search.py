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
from ipu_tf.runtime.execution.value_checks import FunctionChecks
from ipu_tf.runtime.execution.value_findings import CheckedOp, place_of, summary
from ipu_tf.runtime.execution.value_history import ValueHistory


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _GradientLoss:
    """A gradient with values that became 0.

    Attributes:
        op: The operation.
        lost: The values.
        operands: What it read.
        results: What it computed, and what that should be.
        iterations: The loops around it, and the numbers of their iterations.
    """

    op: CheckedOp
    lost: LostValues
    operands: tuple[ValueSummary, ...]
    results: tuple[ValueSummary, ...]
    iterations: tuple[tuple[str, int], ...]


class _GradientHistory(ValueHistory):
    """Notes the first gradient with values that became 0, and the largest value of all."""

    def __init__(self, checks: FunctionChecks) -> None:
        super().__init__(checks)
        self.loss: _GradientLoss | None = None
        self.largest = 0.0

    def note(self, number: int, values: Sequence[NDArray[Any]]) -> None:
        """Takes the operands and the results of a run of a gradient."""
        op = self._checks[number]
        if not isinstance(op, CheckedOp):
            super().note(number, values)
            return
        count = len(op.operands)
        operands, result = values[:count], values[count]
        finite = result[np.isfinite(result)]
        self.largest = max(self.largest, float(np.abs(finite).max(initial=0.0)))
        lost_values = None if self.loss is not None else lost(op.node, operands, result)
        if lost_values is not None:
            named_operands = zip(op.operands, operands, strict=True)
            self.loss = _GradientLoss(
                op=op,
                lost=lost_values,
                operands=tuple(
                    summary(*one) for one in named_operands if one[1].dtype.kind in "fV"
                ),
                results=(summary("result 0", result), summary("should be", lost_values.exact)),
                iterations=tuple(self._loops),
            )


class UnderflowLog(ReplayLog):
    """Logs the first gradient of a program with values that became 0."""

    is_asked = True
    only = staticmethod(can_lose)

    def is_seeking(self) -> NDArray[np.bool_]:
        """Returns whether none was found so far."""
        return np.array(not any(one.fault == "underflow" for one in self._findings))

    def _new_history(self, checks: FunctionChecks) -> ValueHistory:
        return _GradientHistory(checks)

    def _end(self, run: ReplayedRun, values: Sequence[NDArray[Any]]) -> None:
        history = run.history
        if isinstance(history, _GradientHistory) and history.loss is not None:
            self._add(self._lost(history.loss, history.largest, run))

    def _lost(self, event: _GradientLoss, largest: float, run: ReplayedRun) -> NonFinite:
        name, exact = event.op.name, event.lost.exact
        position, around = place_of(event.lost.flat, exact)
        factor = event.lost.factor(largest)
        return NonFinite(
            program=self._name,
            **self._moment(run, event.iterations),
            fault="underflow",
            op=name,
            op_type=event.op.op_type,
            layer=self._layers.layer_or_scope(name),
            operands=event.operands,
            results=event.results,
            position=position,
            around=around,
            loss_scale=run.loss_scale,
            lost=event.lost.count,
            factor=factor,
            kept=event.lost.kept_count(factor),
            **self._place(event.op, exact.shape, position),
        )
