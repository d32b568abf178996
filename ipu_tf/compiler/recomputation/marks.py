"""Marks that traced functions leave in HLO: checkpoints, and regions that Keras rematerializes.

Both are names of scopes, so that they pass through every tracer. A checkpoint is an identity of the
traced function; XLA would drop it, so it becomes an `opt-barrier`.
"""

from __future__ import annotations

import re

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import rewrite

CHECKPOINT = "ipu_tf_checkpoint"
"""Name of the identities whose values are kept while others are recomputed."""

REMATERIALIZED = "ipu_tf_remat"
"""Name of the scopes whose ops are recomputed, such as those of `keras.RematScope`."""

_CHECKPOINT = re.compile(rf"(?:.*/)?{CHECKPOINT}(?:_\d+)?$")
_REGION = re.compile(rf"(?:^|(?<=/)){REMATERIALIZED}(?:_\d+)?(?=/)")
_BARRIER = "opt-barrier"


def is_checkpoint_name(op_name: str) -> bool:
    """Returns whether an op with this name is a checkpoint."""
    return _CHECKPOINT.match(op_name) is not None


def regions_of(op_name: str) -> tuple[str, ...]:
    """Returns the rematerialized scopes around an op, the outermost first."""
    return tuple(op_name[: match.end()] for match in _REGION.finditer(op_name))


def is_rematerialized(instruction: Instruction) -> bool:
    """Returns whether an instruction is in a rematerialized scope."""
    return REMATERIALIZED in instruction.op_name


def is_checkpoint(instruction: Instruction) -> bool:
    """Returns whether an instruction is a checkpoint: it passes on the array of its operand."""
    return instruction.opcode == _BARRIER and is_checkpoint_name(instruction.op_name)


def with_checkpoints(module: Module) -> Module:
    """Returns a module as traced, with its checkpoints as barriers of one array each.

    XLA writes the barrier of an array as a barrier of a tuple, and takes it out again. Only the
    entry keeps its checkpoints: an iteration of a loop is recomputed as a whole.
    """
    computations = {
        name: _of_arrays(computation) if name == module.entry else _without(computation)
        for name, computation in module.computations.items()
    }
    return module.replace(computations=computations)


def without_checkpoints(module: Module) -> Module:
    """Returns a module in which readers of a checkpoint read the checkpoint's operand."""
    computations = {name: _without(each) for name, each in module.computations.items()}
    return module.replace(computations=computations)


def has_checkpoints(module: Module) -> bool:
    """Returns whether the entry of a module has a checkpoint."""
    return any(map(is_checkpoint, module.entry_computation))


def _of_arrays(computation: Computation) -> Computation:
    def step(instruction: Instruction, by_name: dict[str, Instruction]) -> Instruction | str:
        source = _passed_on(instruction, by_name)
        if source is None or source == instruction.operands[0]:
            return instruction
        return instruction.replace(opcode=_BARRIER, operands=(source,), attributes={})

    return rewrite(computation, step)  # type: ignore[arg-type]


def _without(computation: Computation) -> Computation:
    def step(instruction: Instruction, by_name: dict[str, Instruction]) -> Instruction | str:
        return _passed_on(instruction, by_name) or instruction

    if not any(map(is_checkpoint, computation)):
        return computation
    return rewrite(computation, step)  # type: ignore[arg-type]


def _passed_on(instruction: Instruction, by_name: dict[str, Instruction]) -> str | None:
    """Returns the array that a checkpoint passes on, or the part of one that was a tuple."""
    if is_checkpoint(instruction):
        (source,) = instruction.operands
        return None if by_name[source].opcode == "tuple" else source
    if instruction.opcode != "get-tuple-element":
        return None
    barrier = by_name[instruction.operands[0]]
    if not is_checkpoint(barrier) or by_name[barrier.operands[0]].opcode != "tuple":
        return None
    return by_name[barrier.operands[0]].operands[instruction.attributes["tuple_index"]]
