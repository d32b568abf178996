"""Makes 32-bit values of float64: the machine has no such type.

Programs hold float64 if a library computes constants or random numbers in NumPy's default type.
64-bit integers stay as they are: tiles count in pairs of words.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from ipu_tf.compiler.hlo import Array, Instruction, Module, TupleType, Type
from ipu_tf.compiler.passes.rewrite import rewrite

_WIDE, _NARROW = "f64", "f32"
_CASTS = frozenset({"convert", "bitcast-convert"})


def run(module: Module) -> Module:
    """Returns the module with float32 in place of float64."""
    if next(wide_instructions(module), None) is None:
        return module
    computations = {name: rewrite(c, _step) for name, c in module.computations.items()}
    return module.replace(computations=computations)


def wide_instructions(module: Module) -> Iterator[Instruction]:
    """Yields the instructions that produce float64 values."""
    for computation in module.computations.values():
        for instruction in computation:
            if _is_wide(instruction.type):
                yield instruction


def _is_wide(type_: Type) -> bool:
    if isinstance(type_, Array):
        return type_.dtype == _WIDE
    return any(_is_wide(part) for part in type_.parts)


def _narrow_type(type_: Type) -> Type:
    if isinstance(type_, TupleType):
        return TupleType(tuple(_narrow_type(part) for part in type_.parts))
    return Array(_NARROW, type_.dims) if type_.dtype == _WIDE else type_


def _step(instruction: Instruction, by_name: Mapping[str, Instruction]) -> Instruction | str:
    """Returns an instruction of float32; the operand of one that cast float32 to float64."""
    changes: dict[str, object] = {}
    if _is_wide(instruction.type):
        changes["type"] = _narrow_type(instruction.type)
    literal = instruction.attributes.get("literal")
    if literal is not None and literal.dtype == np.float64:
        with np.errstate(over="ignore"):
            changes["attributes"] = {
                **instruction.attributes,
                "literal": literal.astype(np.float32),
            }
    narrow = instruction.replace(**changes) if changes else instruction
    return _cast(narrow, by_name) if narrow.opcode in _CASTS else narrow


def _cast(instruction: Instruction, by_name: Mapping[str, Instruction]) -> Instruction | str:
    """Returns a cast between narrowed types, or its operand if the types are now equal."""
    source, target = by_name[instruction.operands[0]].type, instruction.type
    if source == target:
        return instruction.operands[0]
    # The program may reinterpret 64-bit integers as float64, or the reverse.
    same_bits = source.bytes == target.bytes or not _have_same_shape(source, target)
    return instruction if same_bits else instruction.replace(opcode="convert")


def _have_same_shape(one: Type, other: Type) -> bool:
    return isinstance(one, Array) and isinstance(other, Array) and one.dims == other.dims
