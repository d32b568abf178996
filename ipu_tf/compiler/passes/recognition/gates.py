"""Joins a comparison with a constant and the choice of a value or zero: the gradient of a ReLU.

The library has one vertex for it, which reads the activation and the gradient and stores no mask.
"""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.identities import scalar_of
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions

_FLOATS = frozenset({"f32", "f16", "bf16"})


def run(module: Module) -> Module:
    """Returns the module with a `gate` for values that pass where an activation is large enough.

    Operands: the activation, the value. Attributes: the comparison of the activation with a
    threshold. A comparison with other readers stays.
    """
    return each_program(module, _gated)


def _gated(computation: Computation) -> Computation:
    by_name, read_by = computation.by_name(), computation.users
    gates: dict[str, Instruction] = {}
    for instruction in computation:
        if instruction.opcode != "compare" or instruction.name == computation.root:
            continue
        threshold = scalar_of(instruction.operands[1], by_name)
        readers = read_by[instruction.name]
        if threshold is None or not all(_is_gate(one, instruction, by_name) for one in readers):
            continue
        attributes = {**instruction.attributes, "threshold": threshold}
        for reader in readers:
            operands = (instruction.operands[0], reader.operands[1])
            gates[reader.name] = reader.replace(
                opcode="gate", operands=operands, attributes=attributes
            )
    return with_instructions(computation, [gates.get(i.name, i) for i in computation])


def _is_gate(
    instruction: Instruction, mask: Instruction, by_name: Mapping[str, Instruction]
) -> bool:
    """Returns whether an instruction chooses a value where a mask is set, and zero elsewhere."""
    if instruction.opcode != "select" or instruction.operands[0] != mask.name:
        return False
    activation, value = (
        by_name[mask.operands[0]].type,
        by_name[instruction.operands[1]].type,
    )
    return (
        isinstance(activation, Array)
        and isinstance(value, Array)
        and activation == value
        and value.dtype in _FLOATS
        and scalar_of(instruction.operands[2], by_name) == 0
    )
