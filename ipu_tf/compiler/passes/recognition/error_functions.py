"""Replaces written-out error functions by one `erf` in the type of their operand.

The front end spells out the approximations of TensorFlow's ops Erf and Erfc in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions

_COMPLEMENT: Mapping[str, bool] = {"Erf": False, "Erfc": True}
"""Whether an op computes one less the function, by its type."""


def run(module: Module) -> Module:
    """Returns the module with an `erf` for every op Erf or Erfc.

    Attribute `complement`: whether it is one less the function, which costs as much.
    """
    return each_program(module, _with_error_functions)


def _with_error_functions(computation: Computation) -> Computation:
    regions: dict[tuple[str, str], list[Instruction]] = {}
    for instruction in computation:
        if instruction.op_type in _COMPLEMENT and instruction.opcode != "erf":
            key = instruction.op_type, instruction.op_name
            regions.setdefault(key, []).append(instruction)
    if not regions:
        return computation
    read_by = computation.users
    functions: dict[str, Instruction] = {}
    for region in regions.values():
        functions |= _function(region, read_by, computation)
    return with_instructions(computation, [functions.get(i.name, i) for i in computation])


def _function(
    region: Sequence[Instruction],
    read_by: Mapping[str, Sequence[Instruction]],
    computation: Computation,
) -> dict[str, Instruction]:
    """Returns the function of a region by the name of its result; nothing for another structure.

    Values that other ops share with the region, as constants, are no results of it.
    """
    inside = {i.name for i in region}
    operations = [i for i in region if i.opcode not in ("broadcast", "constant")]
    results = [
        i
        for i in operations
        if i.name == computation.root or any(one.name not in inside for one in read_by[i.name])
    ]
    by_name = computation.by_name()
    operands = dict.fromkeys(
        name
        for i in operations
        for name in i.operands
        if name not in inside and by_name[name].opcode not in ("broadcast", "constant")
    )
    if len(results) != 1 or len(operands) != 1:
        return {}
    (result,), (operand,) = results, operands
    if not isinstance(result.type, Array) or by_name[operand].type != result.type:
        return {}
    attributes = {"complement": _COMPLEMENT[result.op_type]}
    return {result.name: result.replace(opcode="erf", operands=(operand,), attributes=attributes)}
