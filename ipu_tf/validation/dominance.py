"""The parts of a program's time, and its fullest tile, in words."""

from __future__ import annotations

import collections
from collections.abc import Mapping
from dataclasses import dataclass

import keras

from ipu_tf.internals.keras_layers import layers_within
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.program import Step

_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a program's time.

    Attributes:
        name: The kind of work.
        share: Its share of all cycles, in [0, 1].
    """

    name: str
    share: float


def layer_classes(model: keras.Model) -> dict[str, str]:
    """Returns the class of every layer by the layer's name."""
    return {layer.name: type(layer).__name__ for layer in (model, *layers_within(model))}


def parts_of(program: DeviceProgram, classes: Mapping[str, str]) -> list[Part]:
    """Returns the parts of a weight update's time, or of a call's, the largest first.

    In a pipeline, steps are those of the IPU that works longest; the other parts are the time in
    which it waits for other stages, for links, and for the sum over replicas.

    Args:
        program: The program.
        classes: Class of every layer, by name.
    """
    cycles: dict[str, float] = collections.defaultdict(float)
    times = program.times
    busiest = max(
        program.stages,
        key=lambda stage: stage.micro_batch_cycles * program.micro_batches + stage.update_cycles,
    )
    for step in busiest.program.steps:
        cycles[_kind(step, classes)] += step.cycles * times[step.phase]
    for name, moves in (("host", busiest.waiting), ("streaming memory", busiest.streamed)):
        cycles[name] += figures.moved_cycles(moves, program)
    cycles["sum over replicas"] += program.all_reduce_cycles
    cycles["links between stages"] += program.timeline.link_cycles
    cycles["other stages"] += max(0, program.cycles - sum(cycles.values()))
    parts = [Part(name=name, share=part / program.cycles) for name, part in cycles.items() if part]
    return sorted(parts, key=lambda part: (-part.share, part.name))


def memory_of(program: DeviceProgram) -> str:
    """Returns how full the fullest tile of every IPU is, as a text."""
    texts = []
    for ipu in program.ipus:
        kib = int(figures.tile_bytes(ipu.memory).max(initial=0)) / _KIB
        limit = ipu.memory.limit_bytes / _KIB
        texts.append(f"{kib:.0f}" + (" (too large)" if kib > limit else ""))
    return f"fullest tile {', '.join(texts)} of {limit:.0f} KiB"


def _kind(step: Step, classes: Mapping[str, str]) -> str:
    if step.opcode in ("infeed", "outfeed"):
        return "host"
    if step.recomputed:
        return "recomputation"
    if step.plan is not None:
        return "contractions"
    if step.phase == "update":
        return "optimizer"
    for name in reversed(step.layer.split("/")):
        if name in classes:
            return classes[name]
    return step.layer or "other"
