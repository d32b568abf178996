"""Recognises normal numbers that are computed from random bits.

A tile draws them in one instruction (f32v2grand, f16v2grand); a program that computes a sine of
pairs of bits, or the inverse error function of bits, would be charged for software.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import each_program, with_instructions

_DISTRIBUTIONS = {
    "StatelessRandomNormal": "normal",
    "StatelessRandomNormalV2": "normal",
    "StatelessTruncatedNormal": "truncated_normal",
    "StatelessTruncatedNormalV2": "truncated_normal",
    "TruncatedNormal": "truncated_normal",
}
"""Distributions of TensorFlow's random ops, with mean 0 and deviation 1, by op type.
RandomStandardNormal is an `rng` already; truncated normals with bounds other than two deviations
stay arithmetic."""

_FLOATS = frozenset({"f32", "f16", "bf16"})
_GENERATORS = frozenset({"rng", "rng-bit-generator"})


def run(module: Module) -> Module:
    """Returns the module with an `rng` of the distribution in place of computed normal numbers.

    Their operands are the seeds that the generators of the bits read, if any: they have no
    parameters, their mean is 0 and their deviation 1.
    """
    return each_program(module, _with_random_normals)


def _with_random_normals(computation: Computation) -> Computation:
    regions: dict[tuple[str, str], list[Instruction]] = {}
    for instruction in computation:
        if instruction.op_type in _DISTRIBUTIONS:
            key = instruction.op_type, instruction.op_name
            regions.setdefault(key, []).append(instruction)
    if not regions:
        return computation
    read_by = computation.users
    draws: dict[str, Instruction] = {}
    for (op_type, _), region in regions.items():
        draws |= _draws(region, _DISTRIBUTIONS[op_type], read_by, computation.root)
    return with_instructions(computation, [draws.get(i.name, i) for i in computation])


def _draws(
    region: Sequence[Instruction],
    distribution: str,
    read_by: Mapping[str, Sequence[Instruction]],
    root: str,
) -> dict[str, Instruction]:
    """Returns the replacements of the numbers that others read, by the names of the numbers."""
    inside = {i.name for i in region}
    seeds = _seeds(region)
    return {
        i.name: i.replace(
            opcode="rng", operands=seeds[i.name], attributes={"distribution": distribution}
        )
        for i in region
        if i.name in seeds
        and i.opcode not in _GENERATORS
        and isinstance(i.type, Array)
        and i.type.dtype in _FLOATS
        and (i.name == root or any(user.name not in inside for user in read_by[i.name]))
    }


def _seeds(region: Sequence[Instruction]) -> dict[str, tuple[str, ...]]:
    """Returns the seeds behind every instruction that depends on random bits.

    An `rng` has none: its operands are the parameters of its numbers.
    """
    seeds: dict[str, tuple[str, ...]] = {}
    for i in region:
        if i.opcode in _GENERATORS:
            seeds[i.name] = i.operands if i.opcode == "rng-bit-generator" else ()
        elif any(operand in seeds for operand in i.operands):
            operand_seeds = (seed for operand in i.operands for seed in seeds.get(operand, ()))
            seeds[i.name] = tuple(dict.fromkeys(operand_seeds))
    return seeds
