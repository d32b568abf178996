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
        self._definitions = computation.by_name()
        self._read_by = computation.users

    def computation(self) -> Computation:
        """Returns the computation with dropouts."""
        dropouts: dict[str, Instruction] = {}
        aliases: dict[str, str] = {}
        for instruction in self._computation:
            if instruction.opcode != "compare" or instruction.name == self._computation.root:
                continue
            generator = self._generator(instruction)
            selects = self._read_by[instruction.name]
            if generator is None or not all(self._is_dropout(i, instruction) for i in selects):
                continue
            for select in selects:
                elements = self._unscaled(select.operands[1])
                dropouts[select.name] = select.replace(
                    opcode="dropout", operands=(elements, *generator.operands), attributes={}
                )
                if (scaled := self._scaled(select)) is not None:
                    aliases[scaled] = select.name
        if not dropouts:
            return self._computation
        instructions = [
            rename_operands(dropouts.get(i.name, i), aliases)
            for i in self._computation
            if i.name not in aliases
        ]
        return with_instructions(
            self._computation, instructions, aliases.get(self._computation.root)
        )

    def _generator(self, mask: Instruction) -> Instruction | None:
        """Returns the seeded generator of a mask that nothing but its bits and constants makes."""
        generators: dict[str, Instruction] = {}
        worklist = list(mask.operands)
        while worklist:
            value = self._definitions[worklist.pop()]
            if value.opcode == "rng-bit-generator":
                generators[value.name] = value
            elif value.opcode in ELEMENTWISE or value.opcode in _VIEWS:
                worklist += value.operands
            elif value.opcode != "constant":
                return None
        return next(iter(generators.values())) if len(generators) == 1 else None

    def _is_dropout(self, instruction: Instruction, mask: Instruction) -> bool:
        """Returns whether an instruction chooses elements where a mask is set, and zero else."""
        return (
            instruction.opcode == "select"
            and instruction.operands[0] == mask.name
            and scalar_of(instruction.operands[2], self._definitions) == 0
        )

    def _unscaled(self, name: str) -> str:
        """Returns the elements before a product with a constant that nothing else reads."""
        product = self._definitions[name]
        if len(self._read_by[name]) > 1:
            return name
        return _varying_factor(product, self._definitions) or name

    def _scaled(self, select: Instruction) -> str | None:
        """Returns the only reader of the chosen elements if it scales them."""
        readers = self._read_by[select.name]
        if select.name == self._computation.root or len(readers) != 1:
            return None
        factor = _varying_factor(readers[0], self._definitions)
        return readers[0].name if factor == select.name else None


def _varying_factor(product: Instruction, by_name: Mapping[str, Instruction]) -> str | None:
    """Returns the factor of a product whose other factor is a constant."""
    if product.opcode != "multiply" or not isinstance(product.type, Array):
        return None
    factors = [name for name in product.operands if scalar_of(name, by_name) is None]
    return factors[0] if len(factors) == 1 else None
