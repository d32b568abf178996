"""Modules as readable text, near HLO's own syntax, and back.

    module step

    parameter 0 input "x"
    parameter 1 weight "dense/kernel" layer="dense" updated_by=0

    ENTRY main {
      x = f32[4,8] parameter(0)
      w = f32[8,2] parameter(1)
      ROOT y = f32[4,2] dot(x, w), dot_dimension_numbers={lhs_contracting={1} rhs_contracting={0}}
    }

Beside HLO's attributes an instruction may have `layer`, `phase`, `op_name`, `op_type`, `recomputed`
and `after`. Lines that begin with // are comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import TypedDict, cast

import numpy as np

from ipu_tf.compiler.hlo import attribute_text, literal
from ipu_tf.compiler.hlo.attributes import Attributes
from ipu_tf.compiler.hlo.module import (
    Array,
    Computation,
    Instruction,
    Module,
    Parameter,
    Role,
    TupleType,
    Type,
)
from ipu_tf.machine.dtypes import DTYPE_BITS
from ipu_tf.tile_program.phase import Phase

_IN_PARENTHESES = {"parameter": "parameter_number", "constant": "literal"}
"""Attributes written in place of operands, by opcode."""

_FIELDS = ("layer", "phase", "op_name", "op_type")
_DEFAULTS = {"layer": "", "phase": "forward", "op_name": "", "op_type": ""}
_ARRAY = re.compile(r"([a-z0-9]+)\[([\d,]*)\](?:\{[\d,]*\})?$")
_HEAD = re.compile(r"(ROOT )?%?(\S+) = (.*)$")
_CALL = re.compile(r"([a-z][a-z0-9-]*)\(")
_PARAMETER = re.compile(r'parameter (\d+) (\w+) ("(?:[^"\\]|\\.)*")(.*)$')


class _Rest(TypedDict, total=False):
    """Fields of an instruction that have a default."""

    layer: str
    phase: Phase
    op_name: str
    op_type: str
    recomputed: bool
    after: tuple[str, ...]


class _ParameterRest(TypedDict, total=False):
    """Fields of a parameter that have a default."""

    layer: str
    updated_by: int


class ParseError(ValueError):
    """A text does not describe a module."""


def to_text(module: Module) -> str:
    """Returns the text of a module; `parse` reads it back to an equal module."""
    lines = [f"module {module.name}", ""]
    lines += [_parameter_text(n, parameter) for n, parameter in enumerate(module.parameters)]
    for computation in module.computations.values():
        head = f"ENTRY {computation.name}" if computation.name == module.entry else computation.name
        lines += ["", f"{head} {{"]
        for instruction in computation:
            root = "ROOT " if instruction.name == computation.root else ""
            lines.append(f"  {root}{instruction_text(instruction)}")
        lines.append("}")
    return "\n".join(lines) + "\n"


def instruction_text(instruction: Instruction) -> str:
    """Returns the line of an instruction."""
    inner = _IN_PARENTHESES.get(instruction.opcode, "")
    inside = instruction.attributes.get(inner)
    if inside is None:
        arguments = ", ".join(instruction.operands)
    else:
        arguments = literal.to_text(inside) if isinstance(inside, np.ndarray) else str(inside)
    parts = [f"{instruction.name} = {instruction.type} {instruction.opcode}({arguments})"]
    if instruction.computations:
        parts.append(f"calls={{{', '.join(instruction.computations)}}}")
    for key, value in instruction.attributes.items():
        if key != inner:
            parts.append(f"{key}={attribute_text.to_text(key, value)}")
    for field in _FIELDS:
        value = getattr(instruction, field)
        if value != _DEFAULTS[field]:
            parts.append(f"{field}={value if field == 'phase' else _quoted(value)}")
    if instruction.recomputed:
        parts.append("recomputed=true")
    if instruction.after:
        parts.append(f"after={{{', '.join(instruction.after)}}}")
    return ", ".join(parts)


def parse(text: str) -> Module:
    """Returns the module of a text.

    Args:
        text: In the form that `to_text` writes. Parameters that it does not describe are inputs,
            named after their instructions.

    Raises:
        ParseError: The text does not describe a module; the message has the line.
    """
    name, entry, header = "module", None, dict[int, Parameter]()
    computations: dict[str, Computation] = {}
    lines = _Lines(text)
    for line in lines:
        try:
            if line.startswith("module "):
                name = line.removeprefix("module ")
            elif match := _PARAMETER.match(line):
                header[int(match[1])] = _parse_parameter(match)
            elif line.endswith("{"):
                is_entry, computation = _parse_computation(line, lines)
                computations[computation.name] = computation
                entry = computation.name if is_entry else entry
            else:
                raise ValueError("It is neither a module, a parameter nor a computation.")
        except (ValueError, TypeError, KeyError, IndexError) as error:
            raise ParseError(
                f"Line {lines.number} is not a line of a module: {error} Received: "
                f"{lines.current!r}."
            ) from error
    if entry is None:
        raise ParseError("A module needs one computation marked ENTRY. Received: none.")
    inputs = [i for i in computations[entry] if i.opcode == "parameter"]
    inputs.sort(key=lambda i: i.attributes["parameter_number"])
    parameters = tuple(
        header.get(number, Parameter(name=instruction.name, role="input"))
        for number, instruction in enumerate(inputs)
    )
    return Module(name=name, computations=computations, entry=entry, parameters=parameters)


def parse_type(text: str) -> Type:
    """Returns the type of a text such as "f32[2,3]" or "(f32[], s32[4])".

    Raises:
        ValueError: The text is no type.
    """
    if text.startswith("(") and text.endswith(")"):
        return TupleType(tuple(parse_type(part) for part in attribute_text.split(text[1:-1])))
    match = _ARRAY.match(text)
    if match is None or match[1] not in DTYPE_BITS:
        raise ValueError(f"'{text}' is not a type such as f32[2,3].")
    return Array(match[1], tuple(int(dim) for dim in match[2].split(",") if dim))


class _Lines:
    """The non-empty lines of a text, stripped, with the number of the last one read."""

    def __init__(self, text: str) -> None:
        self._lines = iter(text.splitlines())
        self.number = 0
        self.current = ""

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            self.number += 1
            self.current = line.strip()
            if self.current and not self.current.startswith("//"):
                yield self.current


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _parameter_text(number: int, parameter: Parameter) -> str:
    text = f"parameter {number} {parameter.role} {_quoted(parameter.name)}"
    if parameter.layer:
        text += f" layer={_quoted(parameter.layer)}"
    if parameter.updated_by is not None:
        text += f" updated_by={parameter.updated_by}"
    return text


def _parse_parameter(match: re.Match[str]) -> Parameter:
    rest = cast("_ParameterRest", dict(_pair(part) for part in attribute_text.split(match[4], " ")))
    role = cast("Role", match[2])
    return Parameter(name=json.loads(match[3]), role=role, **rest)


def _pair(text: str) -> tuple[str, object]:
    key, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"'{text}' is not of the form key=value.")
    return key, attribute_text.parse(key, value)


def _parse_computation(head: str, lines: Iterable[str]) -> tuple[bool, Computation]:
    is_entry = head.startswith("ENTRY ")
    name = head.removeprefix("ENTRY ").removesuffix("{").strip().lstrip("%")
    instructions: list[Instruction] = []
    root = None
    for line in lines:
        if line == "}":
            break
        is_root, instruction = _parse_instruction(line)
        instructions.append(instruction)
        root = instruction.name if is_root else root
    if not instructions:
        raise ValueError(f"Computation '{name}' is empty.")
    root = root or instructions[-1].name
    return is_entry, Computation(name=name, instructions=tuple(instructions), root=root)


def _parse_instruction(line: str) -> tuple[bool, Instruction]:
    head = _HEAD.match(line)
    call = _CALL.search(line, head.start(3)) if head else None
    if head is None or call is None:
        raise ValueError("An instruction is `name = type opcode(operands), key=value`.")
    opcode = call[1]
    type_ = parse_type(line[head.start(3) : call.start()].strip())
    end = _closing(line, call.end() - 1)
    inside = line[call.end() : end]
    attributes = dict(_pair(part) for part in attribute_text.split(line[end + 1 :]))
    names = (*_FIELDS, "recomputed", "after")
    fields = {name: attributes.pop(name) for name in names if name in attributes}
    computations = cast("tuple[str, ...]", attributes.pop("calls", ()))
    operands: tuple[str, ...] = ()
    if opcode == "parameter":
        attributes = {"parameter_number": int(inside)} | attributes
    elif opcode == "constant":
        if inside and isinstance(type_, Array):
            attributes = {"literal": literal.parse(inside, type_)} | attributes
    else:
        operands = tuple(part.split()[-1].lstrip("%") for part in attribute_text.split(inside))
    return head[1] is not None, Instruction(
        name=head[2],
        opcode=opcode,
        type=type_,
        operands=operands,
        computations=computations,
        attributes=cast("Attributes", attributes),
        **cast("_Rest", fields),
    )


def _closing(line: str, opening: int) -> int:
    depth = 0
    for index in range(opening, len(line)):
        depth += {"(": 1, ")": -1}.get(line[index], 0)
        if depth == 0:
            return index
    raise ValueError("A parenthesis is not closed.")
