"""Sums as their terms: additions, scales and conversions are linear, so each term has its own.

`(a + b) * s` is the terms `a * s` and `b * s`, also where a fusion computes them. A term that is
more than the name of a value is a small tree of element-wise instructions, and a fusion again where
it is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """A value of an expression.

    Attributes:
        value: The instruction that computes it, or a value of the program if `operands` is None.
        operands: Its operands.
    """

    value: Instruction
    operands: tuple[Term, ...] | None = None

    def reads(self) -> Iterator[str]:
        """Yields the names of the values of the program that it reads."""
        if self.operands is None:
            yield self.value.name
        for operand in self.operands or ():
            yield from operand.reads()

    @property
    def is_scalar(self) -> bool:
        """Whether all of its elements are one constant."""
        if self.value.opcode == "broadcast" and self.operands:
            return self.operands[0].is_scalar
        return (
            self.value.opcode == "constant"
            and isinstance(self.value.type, Array)
            and self.value.type.elements == 1
        )


def expression(value: Instruction, by_name: Mapping[str, Instruction], module: Module) -> Term:
    """Returns a value of a program as an expression of its operands.

    Args:
        value: An element-wise instruction or a fusion.
        by_name: The instructions of its program.
        module: The module with the computations of fusions.
    """
    operands = tuple(Term(value=by_name[name]) for name in value.operands)
    if value.opcode != "fusion":
        return Term(value=value, operands=operands)
    values: dict[str, Term] = {}
    inside = module.computations[value.computations[0]]
    for one in inside:
        if one.opcode == "parameter":
            values[one.name] = operands[one.attributes["parameter_number"]]
        else:
            values[one.name] = Term(
                value=one, operands=tuple(values[name] for name in one.operands)
            )
    return values[inside.root]


def terms(whole: Term) -> tuple[Term, ...]:
    """Returns the terms of which an expression is the sum: itself if it is no sum."""
    opcode, operands = whole.value.opcode, whole.operands or ()
    if opcode == "add" and operands:
        return tuple(term for operand in operands for term in terms(operand))
    if opcode in ("convert", "negate") and operands:
        return tuple(_with(whole, operands, 0, term) for term in terms(operands[0]))
    arrays = [place for place, operand in enumerate(operands) if not operand.is_scalar]
    if opcode == "multiply" and len(arrays) == 1:
        (place,) = arrays
        return tuple(_with(whole, operands, place, term) for term in terms(operands[place]))
    return (whole,)


def substituted(whole: Term, values: Mapping[str, Term]) -> Term:
    """Returns an expression with values of the program replaced by expressions of theirs."""
    if whole.operands is None:
        return values.get(whole.value.name, whole)
    return Term(value=whole.value, operands=tuple(substituted(o, values) for o in whole.operands))


def fusion(
    like: Instruction, name: str, summands: Sequence[Term]
) -> tuple[Instruction, Computation]:
    """Returns the fusion of a sum of terms, and the computation that it calls.

    Args:
        like: The instruction of the whole sum, with its type, layer and phase.
        name: The name of the fusion.
        summands: The terms, at least one of which is more than the name of a value.
    """
    inside: dict[str, Instruction] = {}
    names_of_terms: dict[int, str] = {}
    reads = list(dict.fromkeys(read for term in summands for read in term.reads()))
    prefix = f"{name}.terms"

    def place(opcode: Instruction, operands: tuple[str, ...]) -> str:
        one = opcode.replace(
            name=f"{prefix}.{len(inside)}", operands=operands, layer="", op_name="", op_type=""
        )
        inside[one.name] = one
        return one.name

    def name_of_term(term: Term) -> str:
        if id(term) not in names_of_terms:
            names_of_terms[id(term)] = compute(term)
        return names_of_terms[id(term)]

    def compute(term: Term) -> str:
        if term.operands is None:
            number = reads.index(term.value.name)
            parameter = Instruction(
                name=f"{prefix}.in{number}",
                opcode="parameter",
                type=term.value.type,
                attributes={"parameter_number": number},
            )
            inside.setdefault(parameter.name, parameter)
            return parameter.name
        return place(term.value, tuple(name_of_term(operand) for operand in term.operands))

    plus = Instruction(name="", opcode="add", type=like.type)
    first, *other_names = (name_of_term(term) for term in summands)
    for other_name in other_names:
        first = place(plus, (first, other_name))
    call = like.replace(
        name=name, opcode="fusion", operands=tuple(reads), computations=(prefix,), attributes={}
    )
    return call, Computation(name=prefix, instructions=tuple(inside.values()), root=first)


def _with(whole: Term, operands: tuple[Term, ...], place: int, term: Term) -> Term:
    """Returns the expression with another operand at a place."""
    return Term(value=whole.value, operands=(*operands[:place], term, *operands[place + 1 :]))
