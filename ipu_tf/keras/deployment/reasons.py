"""Explains in words why a pipeline was chosen: pure functions from candidates to text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipu_tf.compiler.pipeline.candidate import PipelineCandidate
from ipu_tf.profile.text.table import Row, table
from ipu_tf.profile.text.units import kib, percent

_HEADER = (
    "replicas x stages",
    "split",
    "schedule",
    "recompute",
    "micro-batches",
    "cycles an update",
    "samples/s",
    "bubble",
    "fullest tile of each IPU, KiB",
    "verdict",
)


def name_of(candidate: PipelineCandidate) -> str:
    """Returns a candidate's name in a few words."""
    options = candidate.options
    count = options.micro_batches
    batches = f"{count} micro-batches an update" if count > 1 else "an update each micro-batch"
    again = "recomputation" if options.recompute else "no recomputation"
    if options.checkpoints:
        again = f"recomputation with {len(options.checkpoints)} checkpoints"
    if candidate.split == "whole":
        how = f", {again}" if options.recompute else ""
        return f"{options.replicas} x 1 IPUs, the whole model on each{how}, {batches}"
    return (
        f"{options.replicas} x {options.stages} IPUs, {candidate.split} split, "
        f"{options.schedule} schedule, {again}, {batches}"
    )


def reason(
    model: str,
    candidates: Sequence[PipelineCandidate],
    *,
    even: PipelineCandidate,
    begins: Sequence[str],
    notes: Sequence[str] = (),
) -> str:
    """Returns why the first of the candidates was chosen.

    Args:
        model: Name of the model.
        candidates: All of them, the best first.
        even: The best even split.
        begins: Path of the first layer of each stage.
        notes: The assumptions.
    """
    best, fits = candidates[0], [one for one in candidates if one.fits]
    lines = [
        f"Model '{model}': {name_of(best)}: {_speed(best)}.",
        f"It is the fastest of {len(fits)} that fit, of {len(candidates)} that were compiled.",
    ]
    if len(fits) > 1:
        lines.append(f"Next is {name_of(fits[1])}: {_against(fits[1], best)}.")
    if even.split == "even" and even is not best:
        lines.append(f"The best even split is {name_of(even)}: {_against(even, best)}.")
    if len(begins) > 1:
        lines.append(f"Stages begin at {', '.join(begins)}.")
        lines.append(
            f"Stage {best.limiting_stage} limits it; bubble {percent(best.bubble_share)} of the "
            "IPUs' time."
        )
    if best.options.checkpoints:
        names = ", ".join(best.options.checkpoints)
        lines.append(f"Activations are kept after {names}, and others recomputed.")
    lines.append(
        f"The fullest tile has {max(best.ipu_bytes):,} of {best.tile_bytes:,} bytes in use."
    )
    lines += [f"Note: {note}." for note in notes]
    return "\n".join(lines)


def comparison(candidates: Sequence[PipelineCandidate]) -> Iterator[str]:
    """Yields the lines of a table of candidates, the best first."""
    best = candidates[0]
    yield from table(_HEADER, (_row(candidate, best) for candidate in candidates))


def _row(candidate: PipelineCandidate, best: PipelineCandidate) -> Row:
    options = candidate.options
    pipelined = candidate.split != "whole"
    return (
        f"{options.replicas} x {options.stages}",
        candidate.split,
        options.schedule if pipelined else "-",
        "yes" if options.recompute else "no",
        f"{options.micro_batches}",
        f"{candidate.cycles:,}",
        f"{candidate.samples_per_second:,.1f}",
        percent(candidate.bubble_share),
        ", ".join(kib(size) for size in candidate.ipu_bytes),
        "chosen" if candidate is best else _against(candidate, best),
    )


def _against(candidate: PipelineCandidate, best: PipelineCandidate) -> str:
    """Returns why a candidate was not chosen."""
    if not candidate.fits:
        return f"OUT OF MEMORY by {kib(candidate.overflow_bytes)} KiB"
    slower = candidate.cycles_per_micro_batch / best.cycles_per_micro_batch - 1
    return f"{percent(slower)} more cycles a sample" if slower else "as fast"


def _speed(candidate: PipelineCandidate) -> str:
    return f"{candidate.samples_per_second:,.1f} samples/s"
