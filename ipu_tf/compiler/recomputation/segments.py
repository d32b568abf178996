"""Divides the forward pass into the segments that the backward pass recomputes, one at a time.

A segment ends at checkpoints. It keeps the values that other segments read, and recomputes all
others that its own backward pass reads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.hlo.module import LOSS, METRICS
from ipu_tf.compiler.passes.rewrite import SOURCES, has_side_effect, with_side_effects
from ipu_tf.compiler.recomputation import marks

_SOURCES = (SOURCES - {"rng-bit-generator"}) | {"constant", "iota"}
"""Opcodes of results that cannot be computed again, or are always there. A generator draws the same
bits from the same seeds."""


class ForwardPass:
    """The forward pass of a step, as recomputation sees it.

    Attributes:
        entry: The entry of the step.
        recomputable: Names of the instructions of the forward pass that may run again.
        floating: Those of them that depend on no data, such as casts of weights.
        read_by: The readers of each instruction.
    """

    def __init__(self, module: Module) -> None:
        self.entry = module.entry_computation
        self.read_by = self.entry.users
        effects = with_side_effects(module)
        states, constants = _parameters(module)
        self.recomputable: set[str] = set()
        self.floating: set[str] = set()
        for instruction in self.entry:
            is_source = instruction.opcode in _SOURCES or has_side_effect(instruction, effects)
            if instruction.opcode in ("constant", "iota"):
                constants.add(instruction.name)
            # The state changes until the backward pass: what reads a seed is kept.
            reads_state = not states.isdisjoint(instruction.operands)
            if is_source or reads_state or not self.is_forward(instruction):
                continue
            self.recomputable.add(instruction.name)
            if constants.issuperset(instruction.operands):
                constants.add(instruction.name)
                self.floating.add(instruction.name)

    def is_forward(self, instruction: Instruction) -> bool:
        """Returns whether an instruction is part of the forward pass."""
        root = instruction.name == self.entry.root
        return instruction.phase == "forward" and not root

    def with_floating(self, segments: dict[str, int]) -> dict[str, int]:
        """Returns the segments of instructions; floating ones are where they are first read."""
        for instruction in reversed(self.entry.instructions):
            if instruction.name in self.floating:
                readers = [r.name for r in self.read_by[instruction.name] if r.name in segments]
                if readers:
                    segments[instruction.name] = min(segments[name] for name in readers)
        return segments


def _parameters(module: Module) -> tuple[set[str], set[str]]:
    """Returns the parameters of states that the step changes, and those that are always there."""
    states, constants = set(), set()
    for instruction in module.entry_computation:
        if instruction.opcode == "parameter":
            parameter = module.parameters[instruction.attributes["parameter_number"]]
            if parameter.role == "state" and parameter.updated_by is not None:
                states.add(instruction.name)
            elif parameter.role not in ("input", "host", "link"):
                constants.add(instruction.name)
    return states, constants


def by_checkpoints(forward: ForwardPass) -> dict[str, int]:
    """Returns the segment of each instruction of the forward pass: the checkpoints before it."""
    segments: dict[str, int] = {}
    for instruction in forward.entry:
        if forward.is_forward(instruction):
            before = max((segments.get(name, 0) for name in instruction.operands), default=0)
            segments[instruction.name] = before + marks.is_checkpoint(instruction)
    return forward.with_floating(segments)


def by_cuts(forward: ForwardPass, cuts: Collection[int]) -> dict[str, int]:
    """Returns the segment of each instruction of the forward pass that ends segments at `cuts`.

    Args:
        forward: The forward pass.
        cuts: Places in the entry's order; a segment ends before the instruction at each of them.
    """
    segments: dict[str, int] = {}
    segment = 0
    for place, instruction in enumerate(forward.entry):
        segment += place in cuts
        if forward.is_forward(instruction):
            segments[instruction.name] = segment
    return forward.with_floating(segments)


def rematerialized(forward: ForwardPass) -> dict[str, str]:
    """Returns the outermost rematerialized scope of each instruction that is in one.

    A scope around the whole forward pass, as of a model that was made in a `keras.RematScope`, does
    not count: to run everything again right afterwards would free nothing.
    """
    scopes = {
        one.name: marks.regions_of(one.op_name)
        for one in forward.entry
        if one.name in forward.recomputable
    }
    inner = [
        scopes[one.name]
        for one in forward.entry
        if one.name in scopes and one.layer not in ("", LOSS, METRICS)
    ]
    around = 0
    while inner and all(regions[around:] for regions in inner):
        if len({regions[around] for regions in inner}) > 1:
            break
        around += 1
    return {name: regions[around] for name, regions in scopes.items() if len(regions) > around}


def before_checkpoints(entry: Computation, within: Callable[[str], bool]) -> set[str]:
    """Returns the instructions that lead to a checkpoint.

    Args:
        entry: The entry of a step.
        within: Maps the name of an instruction to whether it counts.
    """
    names: set[str] = set()
    for instruction in reversed(entry.instructions):
        leads = instruction.name in names or marks.is_checkpoint(instruction)
        if leads and within(instruction.name):
            names.update(instruction.operands)
    return names


def kept_values(
    forward: ForwardPass, groups: Mapping[str, Hashable], stage_of: Mapping[str, int]
) -> set[str]:
    """Returns the values that stay in memory until the backward pass reads them.

    Args:
        forward: The forward pass.
        groups: The groups of instructions that are recomputed together, by their names.
        stage_of: Stage of each instruction: a stage that sends a value to another keeps none.
    """
    names: set[str] = set()
    for instruction in forward.entry:
        name = instruction.name
        group, stage = groups.get(name), stage_of.get(name)
        for reader in forward.read_by[name]:
            here = forward.is_forward(reader) and stage_of.get(reader.name, stage) == stage
            if here and groups.get(reader.name) != group:
                names.add(name)
        if group is None:
            names.add(name)
    return names
