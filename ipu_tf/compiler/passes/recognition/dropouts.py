"""Recognises dropout: random numbers, a comparison with the rate, a choice of elements or zero.

The library has one vertex for it. It draws the mask while it scales the elements, and again from
the same seed for their gradients, so that no mask is kept.
"""

from __future__ import annotations

from collections.abc import Mapping

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.fusion import ELEMENTWISE
from ipu_tf.compiler.passes.identities import scalar_of
from ipu_tf.compiler.passes.rewrite import each_program, rename_operands, with_instructions

_VIEWS = frozenset({"broadcast", "get-tuple-element", "reshape"})


def run(module: Module) -> Module:
    """Returns the module with a `dropout` for elements that stay where a random mask is set.

    Operands: the elements, then the seeds of their generator. The products with a constant before
    or after it belong to it.
    """
    return each_program(module, lambda computation: _Rewriter(computation).computation())


class _Rewriter:
    """Rewrites one computation."""

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self._defined = computation.by_name()
        self._read_by = computation.users

    def computation(self) -> Computation:
        """Returns the computation with dropouts."""
        made: dict[str, Instruction] = {}
        aliases: dict[str, str] = {}
        for instruction in self._computation:
            if instruction.opcode != "compare" or instruction.name == self._computation.root:
                continue
            generator = self._generator(instruction)
            chosen = self._read_by[instruction.name]
            if generator is None or not all(self._is_dropout(i, instruction) for i in chosen):
                continue
            for select in chosen:
                elements = self._unscaled(select.operands[1])
                made[select.name] = select.replace(
                    opcode="dropout", operands=(elements, *generator.operands), attributes={}
                )
                if (scaled := self._scaled(select)) is not None:
                    aliases[scaled] = select.name
        if not made:
            return self._computation
        instructions = [
            rename_operands(made.get(i.name, i), aliases)
            for i in self._computation
            if i.name not in aliases
        ]
        return with_instructions(
            self._computation, instructions, aliases.get(self._computation.root)
        )

    def _generator(self, mask: Instruction) -> Instruction | None:
        """Returns the seeded generator of a mask that nothing but its bits and constants makes."""
        found: dict[str, Instruction] = {}
        waiting = list(mask.operands)
        while waiting:
            value = self._defined[waiting.pop()]
            if value.opcode == "rng-bit-generator":
                found[value.name] = value
            elif value.opcode in ELEMENTWISE or value.opcode in _VIEWS:
                waiting += value.operands
            elif value.opcode != "constant":
                return None
        return next(iter(found.values())) if len(found) == 1 else None

    def _is_dropout(self, instruction: Instruction, mask: Instruction) -> bool:
        """Returns whether an instruction chooses elements where a mask is set, and zero else."""
        return (
            instruction.opcode == "select"
            and instruction.operands[0] == mask.name
            and scalar_of(instruction.operands[2], self._defined) == 0
        )

    def _unscaled(self, name: str) -> str:
        """Returns the elements before a product with a constant that nothing else reads."""
        product = self._defined[name]
        if len(self._read_by[name]) > 1:
            return name
        return _varying_factor(product, self._defined) or name

    def _scaled(self, select: Instruction) -> str | None:
        """Returns the only reader of the chosen elements if it scales them."""
        readers = self._read_by[select.name]
        if select.name == self._computation.root or len(readers) != 1:
            return None
        varying = _varying_factor(readers[0], self._defined)
        return readers[0].name if varying == select.name else None


def _varying_factor(product: Instruction, defined: Mapping[str, Instruction]) -> str | None:
    """Returns the factor of a product whose other factor is a constant."""
    if product.opcode != "multiply" or not isinstance(product.type, Array):
        return None
    varying = [name for name in product.operands if scalar_of(name, defined) is None]
    return varying[0] if len(varying) == 1 else None
