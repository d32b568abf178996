"""Drops instructions that return their operand; shortens views; turns squares into products.

A slice of a broadcast whose slices are all alike becomes the operand of the broadcast.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ipu_tf.compiler.hlo import Array, Instruction, Module
from ipu_tf.compiler.passes.rewrite import each_program, rewrite

Defined = Mapping[str, Instruction]


def run(module: Module) -> Module:
    """Returns the module without identities."""
    return each_program(module, lambda computation: rewrite(computation, _step))


def _step(instruction: Instruction, by_name: Defined) -> Instruction | str:
    rule = _RULES.get(instruction.opcode)
    result = rule(instruction, by_name) if rule else instruction
    if isinstance(result, str):
        type_, replacement = instruction.type, by_name[result].type
        # An identity has the type of its operand.
        return result if type_ == replacement else instruction
    return result


def _same_type(instruction: Instruction, by_name: Defined) -> Instruction | str:
    source = by_name[instruction.operands[0]]
    return source.name if source.type == instruction.type else instruction


def _always(instruction: Instruction, by_name: Defined) -> Instruction | str:
    del by_name
    return instruction.operands[0]


def _reshape(instruction: Instruction, by_name: Defined) -> Instruction | str:
    source = by_name[instruction.operands[0]]
    if source.type == instruction.type:
        return source.name
    if source.opcode == "reshape":
        return _reshape(instruction.replace(operands=source.operands), by_name)
    return instruction


def _transpose(instruction: Instruction, by_name: Defined) -> Instruction | str:
    source = by_name[instruction.operands[0]]
    dimensions = instruction.attributes["dimensions"]
    if source.opcode == "transpose":
        inner = source.attributes["dimensions"]
        dimensions = tuple(inner[dimension] for dimension in dimensions)
        attributes = dict(instruction.attributes, dimensions=dimensions)
        instruction = instruction.replace(operands=source.operands, attributes=attributes)
    return instruction.operands[0] if list(dimensions) == sorted(dimensions) else instruction


def _get_tuple_element(instruction: Instruction, by_name: Defined) -> Instruction | str:
    source = by_name[instruction.operands[0]]
    if source.opcode == "tuple":
        return source.operands[instruction.attributes["tuple_index"]]
    return instruction


def _dynamic_slice(instruction: Instruction, by_name: Defined) -> Instruction | str:
    source = by_name[instruction.operands[0]]
    if source.opcode != "broadcast" or not is_uniform_slice(instruction, source):
        return instruction
    whole, part = by_name[source.operands[0]].type, instruction.type
    operands = source.operands
    if isinstance(whole, Array) and isinstance(part, Array) and whole.elements == part.elements:
        reshape = instruction.replace(opcode="reshape", operands=operands, attributes={})
        return _reshape(reshape, by_name)
    return instruction.replace(opcode="broadcast", operands=operands, attributes=source.attributes)


def is_uniform_slice(dynamic_slice: Instruction, broadcast: Instruction) -> bool:
    """Whether slices of a broadcast are the same wherever they begin.

    They are if the broadcast repeats its operand along all axes that are cut.
    """
    sizes = dynamic_slice.attributes["dynamic_slice_sizes"]
    if not isinstance(broadcast.type, Array):
        return False
    return all(
        size == broadcast.type.dims[axis]
        for axis, size in enumerate(sizes)
        if axis in broadcast.attributes["dimensions"]
    )


def _pad(instruction: Instruction, by_name: Defined) -> Instruction | str:
    del by_name
    paddings = instruction.attributes["padding_config"]
    is_none = all(not (p.low or p.high or p.interior) for p in paddings)
    return instruction.operands[0] if is_none else instruction


def _reverse(instruction: Instruction, by_name: Defined) -> Instruction | str:
    del by_name
    type_ = instruction.type
    if isinstance(type_, Array):
        long = [d for d in instruction.attributes["dimensions"] if type_.dims[d] > 1]
        return instruction if long else instruction.operands[0]
    return instruction


def _concatenate(instruction: Instruction, by_name: Defined) -> Instruction | str:
    del by_name
    return instruction if len(instruction.operands) > 1 else instruction.operands[0]


def _neutral(number: float, *, commutes: bool) -> Callable[..., Instruction | str]:
    """Returns the rule of an operation whose result is one operand if the other is `number`."""

    def rule(instruction: Instruction, by_name: Defined) -> Instruction | str:
        first, second = instruction.operands
        if scalar_of(second, by_name) == number:
            return first
        if commutes and scalar_of(first, by_name) == number:
            return second
        return instruction

    return rule


def _power(instruction: Instruction, by_name: Defined) -> Instruction | str:
    base, exponent = instruction.operands
    value = scalar_of(exponent, by_name)
    if value == 1.0:
        return base
    if value == 2.0:
        return instruction.replace(opcode="multiply", operands=(base, base))
    return instruction


def _logical(neutral: bool) -> Callable[..., Instruction | str]:
    """Returns the rule of `and` or `or` of booleans, one of which may be a constant."""

    def rule(instruction: Instruction, by_name: Defined) -> Instruction | str:
        first, second = instruction.operands
        if not isinstance(instruction.type, Array) or instruction.type.dtype != "pred":
            return instruction
        for one, other in ((first, second), (second, first)):
            value = scalar_of(one, by_name)
            if value is not None:
                return other if bool(value) == neutral else one
        return first if first == second else instruction

    return rule


def _select(instruction: Instruction, by_name: Defined) -> Instruction | str:
    predicate, on_true, on_false = instruction.operands
    if on_true == on_false:
        return on_true
    value = scalar_of(predicate, by_name)
    if value is None:
        return instruction
    return on_true if value else on_false


def scalar_of(name: str, by_name: Defined) -> float | None:
    """Returns the common value of all elements of a constant, or None."""
    source = by_name[name]
    while source.opcode in ("broadcast", "reshape"):
        source = by_name[source.operands[0]]
    value = source.attributes.get("literal") if source.opcode == "constant" else None
    if value is None or value.size == 0 or not np.all(value == value.flat[0]):
        return None
    return float(value.flat[0])


_RULES: Mapping[str, Callable[[Instruction, Defined], Instruction | str]] = {
    "copy": _always,
    "convert": _same_type,
    "bitcast-convert": _same_type,
    "bitcast": _same_type,
    "broadcast": _same_type,
    "reshape": _reshape,
    "transpose": _transpose,
    "get-tuple-element": _get_tuple_element,
    "slice": _same_type,
    "dynamic-slice": _dynamic_slice,
    "pad": _pad,
    "reverse": _reverse,
    "concatenate": _concatenate,
    "select": _select,
    "and": _logical(neutral=True),
    "or": _logical(neutral=False),
    # x + 0 stays: it turns -0 into +0, and XLA's front end adds it on purpose.
    "multiply": _neutral(1.0, commutes=True),
    "divide": _neutral(1.0, commutes=False),
    "power": _power,
    "subtract": _neutral(0.0, commutes=False),
    "shift-left": _neutral(0, commutes=False),
    "shift-right-logical": _neutral(0, commutes=False),
}
