"""Gives every layer its own cast of a value to a wider type.

A front end that computes in float32 casts a float16 value once and hands the result to several
layers: the gradient behind an addition to the norms of both branches. The result would lie in
memory at twice the size. The library's vertices read the narrow type, and the passes for them look
within a layer, so each layer gets a cast of its own there. Casts that no vertex takes over are one
again after common subexpressions are found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.recognition.polynomials import FLOATS
from ipu_tf.compiler.passes.rewrite import (
    each_program,
    rename_operands,
    with_instructions,
)
from ipu_tf.machine.dtypes import DTYPE_BITS


def run(module: Module) -> Module:
    """Returns the module whose layers cast values to wider types themselves.

    Expects known layers and phases.
    """
    return each_program(module, _with_local_casts)


def widens(instruction: Instruction, source: Instruction) -> bool:
    """Returns whether an instruction casts a floating point value to a wider type.

    Args:
        instruction: The instruction.
        source: The instruction that makes its (first) operand.
    """
    types = (source.type, instruction.type)
    if instruction.opcode != "convert" or not all(isinstance(type_, Array) for type_ in types):
        return False
    narrow, wide = (getattr(type_, "dtype", "") for type_ in types)
    return {narrow, wide} <= FLOATS and DTYPE_BITS[narrow] < DTYPE_BITS[wide]


def _with_local_casts(computation: Computation) -> Computation:
    by_name, read_by = computation.by_name(), computation.users
    copies: dict[tuple[str, str], Instruction] = {}
    for instruction in computation:
        if instruction.operands and widens(instruction, by_name[instruction.operands[0]]):
            for copy in _copies(instruction, read_by[instruction.name], computation.root):
                copies[instruction.name, copy.layer] = copy
    if not copies:
        return computation
    return with_instructions(computation, _with_local_operands(computation, copies))


def _copies(cast: Instruction, readers: Sequence[Instruction], root: str) -> Iterator[Instruction]:
    """Yields a copy of a cast for each other layer that reads it."""
    layers = {"", cast.layer}
    for reader in readers:
        if reader.layer in layers or reader.name == root:
            continue
        layers.add(reader.layer)
        yield cast.replace(
            name=f"{cast.name}.cast{len(layers) - 2}", layer=reader.layer, phase=reader.phase
        )


def _with_local_operands(
    computation: Computation, copies: dict[tuple[str, str], Instruction]
) -> Iterator[Instruction]:
    """Yields the instructions, each copy before the first of its layer that reads it."""
    cast_names: set[str] = set()
    for instruction in computation:
        aliases = {}
        for name in instruction.operands:
            copy = copies.get((name, instruction.layer))
            if copy is None or instruction.name == computation.root:
                continue
            aliases[name] = copy.name
            if copy.name not in cast_names:
                cast_names.add(copy.name)
                yield copy
        yield rename_operands(instruction, aliases)
