"""Recomputes activations in the backward pass of a step."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Hashable, Mapping
from types import MappingProxyType

from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.hlo.module import LOSS, METRICS
from ipu_tf.compiler.passes.rewrite import with_instructions
from ipu_tf.compiler.recomputation import marks
from ipu_tf.compiler.recomputation.copies import Copies
from ipu_tf.compiler.recomputation.placement import CheckpointSearch
from ipu_tf.compiler.recomputation.segments import (
    ForwardPass,
    before_checkpoints,
    by_checkpoints,
    by_cuts,
    kept_values,
    rematerialized,
)

_ONE_STAGE: Mapping[str, int] = MappingProxyType({})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RecomputingStep:
    """A step that recomputes.

    Attributes:
        module: The step.
        stage_of: Stages of its new instructions.
    """

    module: Module
    stage_of: Mapping[str, int]


def recomputed(
    module: Module,
    *,
    recompute: bool,
    layers: Collection[str] = (),
    cuts: Collection[int] = (),
    stage_of: Mapping[str, int] = _ONE_STAGE,
    stages: int = 1,
) -> RecomputingStep:
    """Returns a step whose backward pass computes values of its forward pass again.

    A stage keeps its inputs, its checkpoints, and what lies between two segments. The last stage
    runs its backward pass right after its forward pass, so it recomputes only what leads to
    its checkpoints. A step on one IPU without checkpoints gets those with which the fewest bytes
    are live. Values in rematerialized scopes are recomputed in any case.

    Args:
        module: The step, simplified.
        recompute: Whether it recomputes more than rematerialized scopes.
        layers: Layers after which values are kept, besides its own checkpoints: their paths, or
            the ends of paths.
        cuts: Places of instructions of its entry before which values are kept.
        stage_of: Stage of each instruction; empty for a step of one stage.
        stages: Number of stages.
    """
    entry = module.entry_computation
    trains = any(one.phase == "backward" for one in entry)
    if not trains or not (recompute or any(map(marks.is_rematerialized, entry))):
        return RecomputingStep(module=marks.without_checkpoints(module), stage_of={})
    forward = ForwardPass(module)
    ends = {*cuts, *_after_layers(forward, layers)}
    if recompute and stages == 1 and not ends and not marks.has_checkpoints(module):
        ends = set(CheckpointSearch(module).least.cuts)
    groups = _groups(forward, ends if recompute else None, stage_of, stages)
    plain = marks.without_checkpoints(module)
    groups = {one.name: groups[one.name] for one in plain.entry_computation if one.name in groups}
    if not groups:
        return RecomputingStep(module=plain, stage_of={})
    entry = plain.entry_computation
    kept_names = kept_values(ForwardPass(plain), groups, stage_of)
    copies = Copies(entry, groups, kept_names, stage_of, _outputs_of_stages(plain, stage_of))
    computation = with_instructions(entry, copies.instructions())
    return RecomputingStep(
        module=plain.replace(computations={**plain.computations, plain.entry: computation}),
        stage_of=copies.stages,
    )


def _groups(
    forward: ForwardPass, cuts: set[int] | None, stage_of: Mapping[str, int], stages: int
) -> dict[str, Hashable]:
    """Returns the values that may be recomputed, each with the group in which it is.

    Args:
        forward: The forward pass.
        cuts: Places at which segments end; None to recompute only rematerialized scopes.
        stage_of: Stage of each instruction; empty for one stage.
        stages: Number of stages.
    """
    groups: dict[str, Hashable] = {}
    last = stages - 1
    before: set[str] = set()
    segments = by_checkpoints(forward), by_cuts(forward, cuts or ())
    regions = rematerialized(forward)
    if cuts is not None:
        before = before_checkpoints(
            forward.entry, lambda name: not stage_of or stage_of.get(name) == last
        )
        furthest = max(cuts, default=0)
        before.update(one.name for one in forward.entry.instructions[:furthest])
    for instruction in forward.entry:
        name = instruction.name
        stage = stage_of.get(name) if stage_of else 0
        if name not in forward.recomputable or stage is None:
            continue
        region = regions.get(name, "")
        if cuts is not None and (stage != last or name in before):
            groups[name] = (stage, *(segment_of[name] for segment_of in segments), region)
        elif region:
            groups[name] = (stage, region)
    return groups


def _after_layers(forward: ForwardPass, layers: Collection[str]) -> set[int]:
    """Returns the places after layers.

    Raises:
        ValueError: The step has no such layer.
    """
    last: dict[str, int] = {}
    for place, instruction in enumerate(forward.entry):
        is_named = forward.is_forward(instruction) and instruction.layer not in (LOSS, METRICS)
        path = instruction.layer if is_named else ""
        while path:
            last[path] = place + 1
            path = path.rpartition("/")[0]
    paths_of_layers = {
        layer: [p for p in last if f"/{p}".endswith(f"/{layer}")] for layer in layers
    }
    unclear = [
        layer for layer, paths in paths_of_layers.items() if layer not in last and len(paths) != 1
    ]
    if unclear:
        names = ", ".join(sorted(last, key=last.__getitem__))
        raise ValueError(
            f"Activations cannot be kept after {', '.join(map(repr, unclear))}: the forward pass "
            f"does not have one layer of that name. It has {names}. Received: {list(layers)!r}."
        )
    return {last[layer if layer in last else paths[0]] for layer, paths in paths_of_layers.items()}


def _outputs_of_stages(module: Module, stage_of: Mapping[str, int]) -> dict[int, tuple[str, ...]]:
    """Returns the values that each stage hands to others in its forward pass."""
    names_of_stages: dict[int, dict[str, None]] = {}
    by_name = module.entry_computation.by_name()
    for reader in module.entry_computation:
        stage = stage_of.get(reader.name)
        for name in reader.operands:
            source = stage_of.get(name)
            value = by_name[name]
            crosses = source is not None and stage is not None and source != stage
            is_result = value.phase == "forward" and value.opcode != "parameter"
            if source is not None and crosses and is_result:
                names_of_stages.setdefault(source, {})[name] = None
    return {stage: tuple(names) for stage, names in names_of_stages.items()}
