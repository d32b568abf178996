"""Finds changes that make a program faster, or make it fit, each by planning the program again.

Tries one change at a time. Does not combine changes, nor judge what a change does to training:
float16 partials round more, and larger updates take other learning rates.
"""

from __future__ import annotations

from ipu_tf.compiler.device_program import DeviceProgram
from ipu_tf.machine import host
from ipu_tf.programs.alternatives import Alternative, alternatives
from ipu_tf.programs.insight import Change, Insight
from ipu_tf.programs.program import Program
from ipu_tf.programs.source import Source

_LEAST_SPEEDUP = 1.005
"""Smaller gains are left out: the model is not as exact."""

_STEPS = 100
"""Steps of a call from the host that are suggested to programs that run fewer."""


_LOOPED = ("train_step", "test_step", "predict_step")
"""Functions that Keras runs in a loop on the device."""


def insights_of(program: Program) -> tuple[Insight, ...]:
    """Returns the changes of a program that gain something, the best first.

    Of several values of one option, only the best counts. A program whose source is not known, is
    not complete, or has no device program has none.
    """
    now, source = program.device, program.source
    if now is None or source is None or not now.complete:
        return ()
    best: dict[Change, Insight] = {}
    for alternative in alternatives(now, program.tile_ops, source):
        found = _insight(alternative, now)
        known = best.get(alternative.change)
        if found is not None and (known is None or found.rank < known.rank):
            best[alternative.change] = found
    calls = _fewer_calls(program, now, source)
    gains = [*best.values(), *([calls] if calls is not None else [])]
    return tuple(sorted(gains, key=lambda insight: insight.rank))


def _insight(alternative: Alternative, now: DeviceProgram) -> Insight | None:
    """Returns what an alternative gains; None if it gains nothing, or does not fit."""
    then = alternative.program
    if not (then.fits and then.complete):
        return None
    speedup = _seconds_of_sample(now) / _seconds_of_sample(then)
    if now.fits and speedup < _LEAST_SPEEDUP:
        return None
    return Insight(
        change=alternative.change,
        advice=alternative.advice,
        speedup=speedup,
        cycles=then.cycles,
        samples_per_second=then.samples_per_second,
        max_tile_bytes=max(int(ipu.memory.peak_tile_bytes.max(initial=0)) for ipu in then.ipus),
        makes_fit=not now.fits,
    )


def _seconds_of_sample(program: DeviceProgram) -> float:
    """Returns the seconds of a sample; of a micro-batch, if samples are not known."""
    work = program.samples_per_update or program.micro_batches * program.replicas
    return program.target.seconds(max(1, program.cycles)) / work


def _fewer_calls(program: Program, now: DeviceProgram, source: Source) -> Insight | None:
    """Returns what a longer loop on the device saves: the round trip of a call from the host.

    Modelled: a call costs the host's latency, there and back, besides the cycles of its steps.
    """
    steps = program.steps_per_execution
    if steps >= _STEPS or not now.fits or not program.name.endswith(_LOOPED):
        return None
    round_trip = 2 * host.transfer_cycles(source.step.options.system_of(), 0)
    runs = max(1, steps // now.micro_batches)
    more = max(1, _STEPS // now.micro_batches)
    after = now.cycles + round_trip / more
    speedup = (now.cycles + round_trip / runs) / after
    if speedup < _LEAST_SPEEDUP:
        return None
    samples = now.samples_per_update / now.target.seconds(after)
    return Insight(
        change="steps_per_execution",
        advice=f"model.compile(..., steps_per_execution={more * now.micro_batches})",
        speedup=speedup,
        cycles=now.cycles,
        samples_per_second=samples or None,
        max_tile_bytes=max(int(ipu.memory.peak_tile_bytes.max(initial=0)) for ipu in now.ipus),
    )
