"""What happened to the values of a replay, and which operation was the cause."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ipu_tf.runtime.execution.value_checks import FunctionChecks, LoopMark
from ipu_tf.runtime.execution.value_findings import CheckedOp, Finding, finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """A run of an operation whose results are not finite.

    Attributes:
        time: How many checks ran before it.
        op: The operation.
        nan: Whether there is a NaN among its results.
        infinity: Whether there is an infinity among them.
        nans_of: The operands, by number, that its NaN come from.
        infinities_of: The operands that its infinities come from, or, of NaN of no NaN, those.
        finding: What is wrong with it, None if its operands explain it.
    """

    time: int
    op: CheckedOp
    nan: bool
    infinity: bool
    nans_of: tuple[int, ...]
    infinities_of: tuple[int, ...]
    finding: Finding | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """The operation that caused results that are not finite.

    Attributes:
        finding: What is wrong with it.
        made_nan: The first operation that made a NaN of its infinity, if any did.
    """

    finding: Finding
    made_nan: Finding | None = None


class ValueHistory:
    """Notes the values of checked operations.

    Args:
        checks: The operations.
    """

    def __init__(self, checks: FunctionChecks) -> None:
        self._checks = checks
        self._time = 0
        self._runs: dict[int, list[int]] = {}
        self._events: dict[int, Event] = {}
        self._loops: list[tuple[str, int]] = []
        self._iterations: dict[str, int] = {}

    def iterations_of_outermost(self, loops: Sequence[tuple[str, int]]) -> int:
        """Returns how many iterations a run had of the first of some loops, or of the longest if
        there is none; 1 without loops."""
        return (
            self._iterations.get(loops[0][0], 1)
            if loops
            else max(self._iterations.values(), default=1)
        )

    def note(self, number: int, values: Sequence[np.ndarray]) -> None:
        """Takes the operands and the results of a run of an operation."""
        check = self._checks[number]
        if isinstance(check, LoopMark):
            self._mark(check)
        if not isinstance(check, CheckedOp):
            return
        self._time += 1
        self._runs.setdefault(number, []).append(self._time)
        count = len(check.operands)
        results = values[count:]
        if all(np.isfinite(value).all() for value in results):
            return
        nan_of, infinities_of = _explanation(values[:count], results)
        nan = any(bool(np.isnan(value).any()) for value in results)
        fault = finding(check, values)
        if fault is not None:
            fault = replace(fault, iterations=tuple(self._loops))
        self._events[self._time] = Event(
            time=self._time,
            op=check,
            nan=nan,
            infinity=any(bool(np.isinf(value).any()) for value in results),
            nans_of=nan_of,
            infinities_of=infinities_of,
            finding=fault,
        )

    def cause(self, nans: Iterable[int], infinities: Iterable[int]) -> Cause | None:
        """Returns the cause of values that are not finite, None if they came from outside.

        That of infinities counts if there are no NaN, or if it was earlier and read the same
        values: a logarithm of zero comes before the reciprocal of its gradient.

        Args:
            nans: Numbers of the operations that NaN may come from.
            infinities: Numbers of the operations that infinities may come from.
        """
        made_nan, made_infinity = self._roots(nans, nan=True), self._roots(infinities, nan=False)
        if not made_nan:
            return Cause(finding=made_infinity[0][1]) if made_infinity else None
        event, first = made_nan[0]
        for earlier, fault in made_infinity:
            if earlier.time < event.time and set(earlier.op.places) & set(event.op.places):
                first = fault
                break
        if any(one.nans for one in first.results):
            return Cause(finding=first)
        later = next((f for e, f in made_nan if e.nan), None)
        return Cause(finding=first, made_nan=None if later is first else later)

    def _roots(self, sources: Iterable[int], *, nan: bool) -> list[tuple[Event, Finding]]:
        """Returns the operations that made values which are not finite, the earliest first."""
        worklist = [(event, nan) for event in self._ever(sources, nan=nan)]
        keys = {(event.time, kind) for event, kind in worklist}
        roots: dict[int, tuple[Event, Finding]] = {}
        while worklist:
            event, is_nan = worklist.pop()
            of_nan = is_nan and bool(event.nans_of)
            operands = event.nans_of if of_nan else event.infinities_of
            if event.finding is not None:
                roots[event.time] = event, event.finding
            places = [event.op.places[operand] for operand in operands]
            for earlier in self._before(self._checks.flow.sources(places), event.time, nan=of_nan):
                if (earlier.time, of_nan) not in keys:
                    keys.add((earlier.time, of_nan))
                    worklist.append((earlier, of_nan))
        return [roots[time] for time in sorted(roots)]

    def _ever(self, numbers: Iterable[int], *, nan: bool) -> list[Event]:
        """Returns the last runs of operations in which a value was not finite."""
        events_of_numbers = (self._before([number], self._time + 1, nan=nan) for number in numbers)
        return [event for events in events_of_numbers for event in events]

    def _before(self, numbers: Iterable[int], time: int, *, nan: bool) -> list[Event]:
        """Returns the last runs of operations before a time, if a value was not finite; if none
        was in the last ones, then in earlier ones."""
        last: list[Event] = []
        any_earlier: list[Event] = []
        for number in numbers:
            runs = self._runs.get(number, [])
            count = bisect.bisect_left(runs, time)
            bad = [
                event
                for run in runs[:count]
                if (event := self._events.get(run)) and (event.nan if nan else event.infinity)
            ]
            if bad:
                any_earlier.append(bad[-1])
                if bad[-1].time == runs[count - 1]:
                    last.append(bad[-1])
        return last or any_earlier

    def _mark(self, mark: LoopMark) -> None:
        if mark.event == "enter":
            self._loops.append((mark.loop, -1))
        elif mark.event == "leave":
            name, iteration = self._loops.pop()
            if not self._loops:
                self._iterations[name] = iteration + 1
        elif self._loops:
            name, iteration = self._loops[-1]
            self._loops[-1] = name, iteration + 1


def _explanation(
    operands: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the numbers of the operands that NaN, and that infinities, of results come from."""
    nan = _of(operands, results, np.isnan, np.isnan)
    infinite = _of(operands, results, np.isinf, lambda value: ~np.isfinite(value))
    return nan, infinite


def _of(
    operands: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]], is_bad: Any, is_result: Any
) -> tuple[int, ...]:
    """Returns the operands with bad values; of those that have the shape of a result rather those
    with one where the result has one, as an element-wise operation has."""
    bad = [number for number, operand in enumerate(operands) if is_bad(operand).any()]

    def may_be(number: int) -> bool:
        value = operands[number]
        alike = [result for result in results if result.shape == value.shape]
        return not alike or any((is_bad(value) & is_result(result)).any() for result in alike)

    return tuple(number for number in bad if may_be(number)) or tuple(bad)
