"""Finds the blocks that the instructions of a trace belong to."""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.equal_blocks.repetition import Block, Repetition
from ipu_tf.compiler.hlo import Instruction, Module
from ipu_tf.compiler.passes import attribution


def blocks_of_instructions(module: Module, repetition: Repetition) -> Mapping[str, Block]:
    """Returns the blocks of the entry's instructions by name, without those outside of all.

    An instruction of no layer, such as one of an optimizer, is of the block whose values it reads:
    going forward the last of several, going back the first. What is left and is read in one block
    alone, such as a constant, is of this block.
    """
    entry = module.entry_computation
    phases = {one.name: one.phase for one in attribution.run(module).entry_computation}
    blocks: dict[str, Block] = {}
    for instruction in entry:
        if instruction.name == entry.root:
            continue
        block = repetition.block_of(_path(instruction, module))
        if block is None:
            operand_blocks = [
                blocks[operand] for operand in instruction.operands if operand in blocks
            ]
            last = max if phases[instruction.name] == "forward" else min
            block = last(operand_blocks, default=None)
        if block is not None:
            blocks[instruction.name] = block
    for instruction in reversed(entry.instructions):
        if instruction.name in blocks or instruction.name == entry.root:
            continue
        readers = {blocks.get(user.name) for user in entry.users[instruction.name]}
        only = readers.pop() if len(readers) == 1 else None
        if only is not None:
            blocks[instruction.name] = only
    return blocks


def _path(instruction: Instruction, module: Module) -> str:
    """Returns the path of an instruction's layer; that of a parameter is the variable's."""
    if instruction.opcode != "parameter":
        return instruction.layer
    return module.parameters[instruction.attributes["parameter_number"]].layer
