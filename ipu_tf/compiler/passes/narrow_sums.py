"""Adds up values in their own, narrower type.

XLA adds up float16 values as float32: it casts all of them first. The library's reductions read
float16 and add up in float32 (poplibs' ReduceAdd of half to float), so the cast values never lie in
memory.
"""

from __future__ import annotations

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.local_casts import widens
from ipu_tf.compiler.passes.rewrite import programs, rename_operands, with_instructions


def run(module: Module) -> Module:
    """Returns the module whose sums read values from before casts that only sums read."""
    computations = dict(module.computations)
    for name in programs(module):
        computations[name] = _with_narrow_sums(module, computations[name])
    return module.replace(computations=computations)


def _with_narrow_sums(module: Module, computation: Computation) -> Computation:
    by_name, read_by = computation.by_name(), computation.users
    aliases = {
        cast.name: cast.operands[0]
        for cast in computation
        if cast.operands
        and widens(cast, by_name[cast.operands[0]])
        and all(_adds_up(reader, cast.name, module) for reader in read_by[cast.name])
    }
    if not aliases:
        return computation
    return with_instructions(
        computation,
        [
            rename_operands(instruction, aliases)
            for instruction in computation
            if instruction.name not in aliases
        ],
    )


def _adds_up(reader: Instruction, name: str, module: Module) -> bool:
    """Returns whether an instruction adds up the elements of one tensor."""
    if reader.opcode != "reduce" or len(reader.operands) != 2 or reader.operands[0] != name:
        return False
    callee = module.computations[reader.computations[0]]
    return isinstance(reader.type, Array) and callee.by_name()[callee.root].opcode == "add"
