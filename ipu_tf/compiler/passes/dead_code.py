"""Drops instructions that no result and no side effect needs."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Computation, Module
from ipu_tf.compiler.passes.rewrite import (
    has_side_effect,
    programs,
    with_instructions,
    with_side_effects,
)


def run(module: Module) -> Module:
    """Returns the module without unused instructions and computations.

    Parameters stay, so that callers need no change.
    """
    effects = with_side_effects(module)
    computations = dict(module.computations)
    for name in programs(module):
        computations[name] = _alive(computations[name], effects)
    live_computations: dict[str, Computation] = {}
    worklist = [module.entry]
    while worklist:
        name = worklist.pop()
        if name not in live_computations:
            live_computations[name] = computations[name]
            worklist += [callee for i in computations[name] for callee in i.computations]
    in_order = {name: c for name, c in computations.items() if name in live_computations}
    return module.replace(computations=in_order)


def _alive(computation: Computation, effects: frozenset[str]) -> Computation:
    alive = {computation.root}
    live = []
    for instruction in reversed(computation.instructions):
        is_needed = instruction.name in alive or instruction.opcode == "parameter"
        if is_needed or has_side_effect(instruction, effects):
            alive.update(instruction.operands)
            live.append(instruction)
    return with_instructions(computation, reversed(live))
