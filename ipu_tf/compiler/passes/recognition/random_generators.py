"""Recognises random generators that were written out as integer arithmetic.

The machine has a generator in every tile; a program that computes Philox or ThreeFry rounds in
integer instructions (to scramble a seed, or to draw bits) would be charged for hundreds of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions

_ROUNDS = frozenset(
    {"xor", "add", "multiply", "shift-right-logical", "shift-left", "or", "subtract"}
)
_FEWEST_ROUNDS = 16
"""Philox and ThreeFry have at least 10 rounds of several operations; fewer are no generator."""

_INTEGERS = frozenset({"u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64"})
_OP_TYPES = ("Stateless", "Random", "Rng", "Multinomial", "TruncatedNormal")
"""Beginnings of the types of TensorFlow's random ops."""


def run(module: Module) -> Module:
    """Returns the module in which generators are `rng-bit-generator`s.

    Each has the type of the bits that the program uses (no tuple with the next state, unlike
    XLA's own), and reads the seeds that the arithmetic read.
    """
    return each_program(module, _with_random_bits)


def _with_random_bits(computation: Computation) -> Computation:
    regions: dict[str, list[Instruction]] = {}
    for instruction in computation:
        if instruction.op_type.startswith(_OP_TYPES):
            regions.setdefault(instruction.op_name, []).append(instruction)
    generators: dict[str, Instruction] = {}
    if regions:
        read_by = computation.users
        for region in regions.values():
            generators |= _generators(region, read_by, computation.root)
    if not generators:
        return computation
    instructions = [generators.get(i.name, i) for i in computation]
    return with_instructions(computation, instructions)


def _generators(
    region: Sequence[Instruction], read_by: Mapping[str, Sequence[Instruction]], root: str
) -> dict[str, Instruction]:
    """Returns the replacements of a region's random bits, by the names of the bits."""
    arithmetic = {i.name: i for i in region if _is_integer(i) and not i.computations}
    if sum(i.opcode in _ROUNDS for i in arithmetic.values()) < _FEWEST_ROUNDS:
        return {}
    generators: dict[str, Instruction] = {}
    for name, bits in arithmetic.items():
        leaves = name == root or any(user.name not in arithmetic for user in read_by[name])
        if not leaves:
            continue
        before = _leading_to(bits, arithmetic)
        if sum(i.opcode in _ROUNDS for i in before) >= _FEWEST_ROUNDS:
            generators[name] = bits.replace(
                opcode="rng-bit-generator",
                operands=_sources(before, arithmetic),
                attributes={"rng_algorithm": "default"},
            )
    return generators


def _is_integer(instruction: Instruction) -> bool:
    type_ = instruction.type
    return isinstance(type_, Array) and type_.dtype in _INTEGERS


def _sources(
    instructions: Iterable[Instruction], inside: dict[str, Instruction]
) -> tuple[str, ...]:
    """Returns the values that the instructions read from outside, in the order of first use."""
    operands = (operand for i in instructions for operand in i.operands)
    return tuple(dict.fromkeys(name for name in operands if name not in inside))


def _leading_to(bits: Instruction, arithmetic: dict[str, Instruction]) -> list[Instruction]:
    """Returns the arithmetic that `bits` depend on, `bits` included, in order."""
    sources: set[str] = set()
    worklist = [bits.name]
    while worklist:
        name = worklist.pop()
        if name in arithmetic and name not in sources:
            sources.add(name)
            worklist += arithmetic[name].operands
    return [i for name, i in arithmetic.items() if name in sources]
