"""Finds changes that make a program faster, or make it fit, each by planning the program again.

Tries one change at a time. Does not combine changes, nor judge what a change does to training:
float16 partials round more, and larger updates take other learning rates.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeAlias

from ipu_tf.programs.alternatives import Alternative, alternatives
from ipu_tf.programs.calls import HostCall, call_of
from ipu_tf.programs.insight import Change, Insight
from ipu_tf.programs.program import Program
from ipu_tf.programs.replanning import Replanning, TooMuchWork
from ipu_tf.tile_program.device_program import DeviceProgram

_LEAST_SPEEDUP = 1.005
"""Smaller gains are left out: the model is not as exact."""

_STEPS = 100
"""Steps of a call from the host that are suggested to programs that run fewer."""

_MOST_INSTRUCTIONS = 100_000
"""HLO instructions, as traced, that are compiled for a program's insights unless all are asked for:
some seconds."""

_SWITCH = "IPU_TF_INSIGHTS"
"""Environment variable: with 0, insights are found only where they are asked for."""

_LOOPED = ("train_step", "test_step", "predict_step")
"""Functions that Keras runs in a loop on the device."""

_TOO_LARGE = "the program is large, so not every change was planned; `with_insights()` plans all"


Watcher: TypeAlias = Callable[[Program, Insight | None], object]
"""Gets a program before its insights are looked for, with None, and then each insight, the best of
its change, once it is known."""

_WATCHER: ContextVar[Watcher | None] = ContextVar("ipu_tf.insights", default=None)


@contextlib.contextmanager
def insight_watcher(watcher: Watcher) -> Iterator[None]:
    """Tells a watcher about the insights that are looked for inside."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def has_insights(request: bool | None) -> bool:
    """Returns whether a report has insights.

    Args:
        request: What the caller asks for; None for the default.
    """
    return os.environ.get(_SWITCH) != "0" if request is None else request


def find_insights(program: Program, *, all_changes: bool = False) -> None:
    """Stores the changes of a program that gain something in it, the best first; once a program.

    Of several values of one option, only the best counts. A program whose source is not known, is
    not complete, or has no device program has none.

    Args:
        program: The program.
        all_changes: Whether every change is planned, however long that takes.
    """
    now, source = program.device, program.source
    if now is None or source is None or not (now.complete and now.cycles):
        return
    if program.insights_sought and not (all_changes and program.insights_note):
        return
    limit = None if all_changes else _MOST_INSTRUCTIONS
    replanning = Replanning(source, limit)
    watcher = _WATCHER.get() or (lambda program, insight: None)
    watcher(program, None)
    best: dict[Change, Insight] = {}
    before = call_of(now, program.steps_per_execution)
    calls = _fewer_calls(program, now, before)
    if calls is not None:
        best[calls.change] = calls
        watcher(program, calls)
    note, change = "", None
    try:
        for alternative in alternatives(now, program.tile_ops, replanning):
            if change not in (None, alternative.change) and change in best:
                watcher(program, best[change])
            change = alternative.change
            insight = _insight(alternative, now, before, program.steps_per_execution)
            best_insight = best.get(alternative.change)
            if insight is not None and (best_insight is None or insight.rank < best_insight.rank):
                best[alternative.change] = insight
    except TooMuchWork:
        note = _TOO_LARGE
    except Exception as error:  # A report must not fail for its insights: it says what failed.
        if all_changes:
            raise
        note = f"planning another change failed, {type(error).__name__}: {error}"
    if change is not None and change in best:
        watcher(program, best[change])
    program.insights = tuple(sorted(best.values(), key=lambda insight: insight.rank))
    program.insights_note = "; ".join(filter(None, (note, *replanning.notes)))
    program.insights_sought = True


def _insight(
    alternative: Alternative, now: DeviceProgram, before: HostCall, steps: int
) -> Insight | None:
    """Returns what an alternative gains; None if it gains nothing, or does not fit.

    Args:
        alternative: The alternative.
        now: The program as it is.
        before: Its call.
        steps: Steps of a call, which the change leaves as they are.
    """
    then = alternative.program
    if not (then.fits and then.complete):
        return None
    return _gain(alternative.change, alternative.advice, then, before, call_of(then, steps), now)


def _gain(
    change: Change,
    advice: str,
    then: DeviceProgram,
    before: HostCall,
    after: HostCall,
    now: DeviceProgram,
) -> Insight | None:
    """Returns what a change gains; None if the program fits and it gains nothing."""
    speedup = _seconds_of_work(before) / _seconds_of_work(after)
    if now.fits and speedup < _LEAST_SPEEDUP:
        return None
    return Insight(
        change=change,
        advice=advice,
        speedup=speedup,
        cycles=then.cycles,
        samples_per_second=after.samples_per_second,
        micro_batch_seconds=after.micro_batch_seconds,
        max_tile_bytes=int(then.memory.peak_tile_bytes.max(initial=0)),
        makes_fit=not now.fits,
    )


def _seconds_of_work(call: HostCall) -> float:
    """Returns the seconds of a sample; of a micro-batch, if samples are not known."""
    rate = call.samples_per_second
    return 1 / rate if rate else call.micro_batch_seconds


def _fewer_calls(program: Program, now: DeviceProgram, before: HostCall) -> Insight | None:
    """Returns what a longer loop on the device saves, from calls of both lengths as compiled."""
    steps = max(1, _STEPS // now.micro_batches) * now.micro_batches
    looped = program.name.endswith(_LOOPED) and before.is_known
    if program.steps_per_execution >= _STEPS or not now.fits or not looped:
        return None
    advice = f"model.compile(..., steps_per_execution={steps})"
    return _gain("steps_per_execution", advice, now, before, call_of(now, steps), now)
