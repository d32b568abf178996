"""Large values as polynomials of a few large tensors, with coefficients that repeat along axes.

`x * a + b` is of degree one in x if a and b are broadcasts of smaller values. A normalisation and
its gradient consist of such values and of sums over them, however they are written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypeAlias

from ipu_tf.compiler.hlo import Array, Instruction

Term: TypeAlias = tuple[int, ...]
"""The powers of the large tensors in a product, in their order."""

Terms: TypeAlias = frozenset[Term]
"""The terms of a polynomial; the constant one has no powers above 0."""

FLOATS = frozenset({"f32", "f16", "bf16"})
MOST_FACTORS = 2
"""Factors of a term in a normalisation: an element and a gradient, or an element twice."""

_SAME_TERMS = frozenset({"convert", "negate", "reshape"})


class Polynomials:
    """The values of a layer as polynomials of some large tensors.

    Args:
        by_name: The instructions of a computation, by name.
        layer: The layer whose values are polynomials; values of others are coefficients at best.
        bases: Names of the large tensors; all have the same number of elements.
    """

    def __init__(
        self, by_name: Mapping[str, Instruction], layer: str, bases: Collection[str]
    ) -> None:
        self._definitions = by_name
        self._layer = layer
        order = tuple(bases)
        self._elements = elements(by_name[order[0]])
        self._terms_by_name: dict[str, Terms | None] = {
            base: frozenset({tuple(int(base == other) for other in order)}) for base in order
        }
        self._constant: Terms = frozenset({(0,) * len(order)})

    def terms(self, name: str) -> Terms | None:
        """Returns the terms of a value; None if it is no polynomial, or not of the tensors' size.

        The layer's values before it have to be known: ask in the order of the program.
        """
        if name not in self._terms_by_name:
            self._terms_by_name[name] = self._terms(self._definitions[name])
        return self._terms_by_name[name]

    def is_coefficient(self, name: str) -> bool:
        """Returns whether a value repeats along axes, or is made of such values alone."""
        return self.terms(name) == self._constant

    def _terms(self, instruction: Instruction) -> Terms | None:
        opcode = instruction.opcode
        if elements(instruction) != self._elements or not _is_float(instruction):
            return None
        if opcode == "broadcast":
            is_broadcast = elements(self._definitions[instruction.operands[0]]) < self._elements
            return self._constant if is_broadcast else None
        if instruction.layer != self._layer:
            return None
        operands = [self._operand_terms(operand) for operand in instruction.operands]
        operand_terms = [terms for terms in operands if terms is not None]
        if len(operand_terms) < len(operands):
            return None
        if opcode in _SAME_TERMS:
            return operand_terms[0]
        if opcode in ("add", "subtract"):
            return operand_terms[0] | operand_terms[1]
        if opcode == "multiply":
            return _product(*operand_terms)
        if opcode == "divide" and operand_terms[1] == self._constant:
            return operand_terms[0]
        return None

    def _operand_terms(self, name: str) -> Terms | None:
        """Returns the terms of an operand, which may be a broadcast of another layer."""
        if name not in self._terms_by_name and self._definitions[name].opcode == "broadcast":
            return self.terms(name)
        return self._terms_by_name.get(name)


def factors(terms: Terms) -> int:
    """Returns the most factors of a term."""
    return max(map(sum, terms))


def elements(instruction: Instruction) -> int:
    """Returns the elements of an instruction's result; 0 if it is a tuple."""
    return instruction.type.elements if isinstance(instruction.type, Array) else 0


def _product(one: Terms, other: Terms) -> Terms | None:
    terms = frozenset(
        tuple(a + b for a, b in zip(left, right, strict=True)) for left in one for right in other
    )
    return terms if factors(terms) <= MOST_FACTORS else None


def _is_float(instruction: Instruction) -> bool:
    return isinstance(instruction.type, Array) and instruction.type.dtype in FLOATS
