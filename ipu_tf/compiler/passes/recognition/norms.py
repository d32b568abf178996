"""Recognises normalisations: batch, group, layer and root-mean-square norms, and their gradients.

A front end spells them out in float32: casts, element-wise chains, sums. The machine's library has
vertices for them that read and write the data's own type. The pass finds the squares that a norm
sums up, then its element x, then the gradient g that its backward pass multiplies with x. A value
of degree one in x and g, with coefficients that repeat along axes, becomes one `norm-apply`; sums
over such values and over products of two become a `norm-sum` each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.recognition.polynomials import (
    FLOATS,
    MOST_FACTORS,
    Polynomials,
    Terms,
    elements,
    factors,
)
from ipu_tf.compiler.passes.rewrite import programs, with_instructions

_ROOTS = frozenset({"rsqrt", "sqrt", "power"})
_STEPS_TO_ROOT = 8
"""Instructions between a norm's sum of squares and the root of the variance, at most."""

_TERM_NAMES = {(2,): "square", (2, 0): "square", (1, 1): "product"}


def run(module: Module) -> Module:
    """Returns the module with `norm-sum` and `norm-apply` for normalisations.

    Both call a computation that computes them from their operands: x, the gradient if they read
    it, then coefficients. Attributes: `term` of a sum is "sum", "square" or "product", `whitens`
    marks the product that makes the normalised x again; `kept_dimensions` are those of x along
    which statistics differ. Expects known layers.
    """
    computations = dict(module.computations)
    for name in programs(module):
        rewriter = _Rewriter(module, computations[name])
        computations[name] = rewriter.computation()
        computations |= {body.name: body for body in rewriter.bodies}
    return module.replace(computations=computations)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Norm:
    """A normalisation.

    Attributes:
        layer: Its layer.
        bases: Names of x and of the gradient, if there is one.
        kept_dimensions: Dimensions of x along which statistics differ.
    """

    layer: str
    bases: tuple[str, ...]
    kept_dimensions: tuple[int, ...]


class _Rewriter:
    """Rewrites one computation.

    Attributes:
        made: The computations that the norms call.
    """

    def __init__(self, module: Module, computation: Computation) -> None:
        self._module = module
        self._computation = computation
        self._definitions = computation.by_name()
        self._read_by = computation.users
        self._position = {name: number for number, name in enumerate(self._definitions)}
        self._of_layer: dict[str, list[Instruction]] = {}
        for instruction in computation:
            self._of_layer.setdefault(instruction.layer, []).append(instruction)
        self.bodies: list[Computation] = []

    def computation(self) -> Computation:
        """Returns the computation with norms."""
        replacements: dict[str, Instruction] = {}
        for norm in self._norms():
            replacements |= self._replacements(norm, replacements)
        if not replacements:
            return self._computation
        return with_instructions(
            self._computation, [replacements.get(i.name, i) for i in self._computation]
        )

    def _norms(self) -> Iterator[_Norm]:
        """Yields the normalisations, each x of a layer once."""
        norm_keys: set[tuple[str, str]] = set()
        for instruction in self._computation:
            x = self._normalised(instruction)
            if x is None or (instruction.layer, x.name) in norm_keys:
                continue
            norm_keys.add((instruction.layer, x.name))
            dims = x.type.dims if isinstance(x.type, Array) else ()
            summed = instruction.attributes["dimensions"]
            kept_dimensions = tuple(axis for axis in range(len(dims)) if axis not in summed)
            gradient = self._gradient(x, instruction.layer)
            bases = (x.name,) if gradient is None else (x.name, gradient.name)
            yield _Norm(layer=instruction.layer, bases=bases, kept_dimensions=kept_dimensions)

    def _normalised(self, instruction: Instruction) -> Instruction | None:
        """Returns x if an instruction sums up the squares of a norm, else None."""
        if not self._is_sum(instruction):
            return None
        square = self._definitions[instruction.operands[0]]
        if square.opcode != "multiply" or len(set(square.operands)) > 1:
            return None
        if not self._leads_to_root(instruction):
            return None
        deviation = self._definitions[square.operands[0]]
        if deviation.opcode == "subtract" and self._is_broadcast(deviation.operands[1]):
            deviation = self._definitions[deviation.operands[0]]
        x = self._uncast(deviation, instruction.layer)
        same_dims = getattr(x.type, "dims", None) == getattr(square.type, "dims", None)
        return x if same_dims and elements(x) > elements(instruction) else None

    def _gradient(self, x: Instruction, layer: str) -> Instruction | None:
        """Returns the tensor that a layer multiplies with its x; None without a backward pass."""
        of_x = Polynomials(self._definitions, layer, [x.name])
        for instruction in self._of_layer[layer]:
            of_x.terms(instruction.name)
            if instruction.opcode != "multiply":
                continue
            for one, other in (instruction.operands, instruction.operands[::-1]):
                terms = of_x.terms(one)
                if terms and factors(terms) == 1 and of_x.terms(other) is None:
                    return self._without_coefficients(self._definitions[other], of_x, layer)
        return None

    def _without_coefficients(
        self, factor: Instruction, of_x: Polynomials, layer: str
    ) -> Instruction:
        """Returns a factor without its casts and its products with coefficients."""
        while factor.layer == layer:
            if factor.opcode == "multiply":
                factors = [name for name in factor.operands if not of_x.is_coefficient(name)]
                if len(factors) != 1:
                    break
                factor = self._definitions[factors[0]]
            elif factor.opcode == "negate":
                factor = self._definitions[factor.operands[0]]
            elif factor.opcode == "convert" and self._uncast(factor, layer) is not factor:
                factor = self._uncast(factor, layer)
            else:
                break
        return factor

    def _uncast(self, instruction: Instruction, layer: str) -> Instruction:
        """Returns the value before the layer's casts between floating point types."""
        while instruction.opcode == "convert" and instruction.layer in ("", layer):
            source = self._definitions[instruction.operands[0]]
            if not isinstance(source.type, Array) or source.type.dtype not in FLOATS:
                break
            instruction = source
        return instruction

    def _replacements(
        self, norm: _Norm, earlier: Mapping[str, Instruction]
    ) -> dict[str, Instruction]:
        """Returns the sums and applications of a norm, by the names of what they replace."""
        polynomials = Polynomials(self._definitions, norm.layer, norm.bases)
        replacements: dict[str, Instruction] = {}
        whitens = True
        for instruction in self._of_layer[norm.layer]:
            polynomials.terms(instruction.name)
        for instruction in self._of_layer[norm.layer]:
            name, terms = instruction.name, polynomials.terms(instruction.name)
            if name in earlier or name in norm.bases:
                continue
            if self._is_sum(instruction):
                summed = polynomials.terms(instruction.operands[0])
                if summed is not None and factors(summed):
                    attributes = _sum_attributes(summed, norm, whitens=whitens)
                    whitens = whitens and attributes["term"] != "product"
                    replacements[name] = self._call(instruction, "norm-sum", norm, attributes)
            elif terms is not None and self._is_applied(instruction, terms, polynomials):
                attributes = {"kept_dimensions": norm.kept_dimensions}
                application = self._call(instruction, "norm-apply", norm, attributes)
                if any(operand not in norm.bases for operand in application.operands):
                    replacements[name] = application
        return replacements

    def _is_applied(self, instruction: Instruction, terms: Terms, polynomials: Polynomials) -> bool:
        """Returns whether an instruction is an application of the norm that others read."""
        reads_x = any(term[0] for term in terms)
        if not reads_x or factors(terms) >= MOST_FACTORS:
            return False
        readers = self._read_by[instruction.name]
        if instruction.name == self._computation.root:
            return True
        return any(
            polynomials.terms(reader.name) is None
            and not (self._is_sum(reader) and reader.layer == instruction.layer)
            for reader in readers
        )

    def _call(
        self,
        instruction: Instruction,
        opcode: str,
        norm: _Norm,
        attributes: Mapping[str, object],
    ) -> Instruction:
        """Returns an instruction that calls a computation of another one's value."""
        body, operands = self._body(instruction, norm.bases)
        self.bodies.append(body)
        return instruction.replace(
            opcode=opcode, operands=operands, computations=(body.name,), attributes=attributes
        )

    def _body(
        self, root: Instruction, bases: tuple[str, ...]
    ) -> tuple[Computation, tuple[str, ...]]:
        """Returns a computation of an instruction's value from large tensors and coefficients."""
        prefix = f"{root.name}.norm"
        operand_names: set[str] = set()
        inside: set[str] = set()
        worklist = [root.name]
        while worklist:
            name = worklist.pop()
            if name in inside or name in operand_names:
                continue
            instruction = self._definitions[name]
            is_scalar = instruction.opcode == "constant" and elements(instruction) == 1
            is_large = elements(instruction) == elements(self._definitions[bases[0]])
            if name not in bases and (name == root.name or is_scalar or is_large):
                inside.add(name)
                worklist += instruction.operands
            else:
                operand_names.add(name)
        coefficients = sorted(operand_names - set(bases), key=self._position.__getitem__)
        operands = (*(base for base in bases if base in operand_names), *coefficients)
        instructions = [
            Instruction(
                name=f"{prefix}.{name}",
                opcode="parameter",
                type=self._definitions[name].type,
                attributes={"parameter_number": number},
            )
            for number, name in enumerate(operands)
        ]
        order = sorted(inside, key=self._position.__getitem__)
        instructions += [_plain(self._definitions[name], prefix) for name in order]
        return (
            Computation(
                name=prefix, instructions=tuple(instructions), root=f"{prefix}.{root.name}"
            ),
            operands,
        )

    def _is_sum(self, instruction: Instruction) -> bool:
        """Returns whether an instruction adds up the elements of one tensor."""
        if instruction.opcode != "reduce" or len(instruction.operands) != 2:
            return False
        callee = self._module.computations[instruction.computations[0]]
        return callee.by_name()[callee.root].opcode == "add"

    def _leads_to_root(self, instruction: Instruction) -> bool:
        """Returns whether smaller values lead from a sum to a square root."""
        values = [instruction]
        for _ in range(_STEPS_TO_ROOT):
            values = [
                reader
                for value in values
                for reader in self._read_by[value.name]
                if elements(reader) <= elements(instruction)
            ]
            if any(reader.opcode in _ROOTS for reader in values):
                return True
        return False

    def _is_broadcast(self, name: str) -> bool:
        return self._definitions[name].opcode == "broadcast"


def _sum_attributes(terms: Terms, norm: _Norm, *, whitens: bool) -> dict[str, object]:
    """Returns the attributes of a `norm-sum`."""
    names = [_TERM_NAMES[term] for term in terms if term in _TERM_NAMES]
    name = names[0] if names else "sum"
    attributes: dict[str, object] = {"term": name, "kept_dimensions": norm.kept_dimensions}
    if name == "product":
        attributes["whitens"] = whitens
    return attributes


def _plain(instruction: Instruction, prefix: str) -> Instruction:
    """Returns an instruction without its origin, with names of a computation of its own."""
    return Instruction(
        name=f"{prefix}.{instruction.name}",
        opcode=instruction.opcode,
        type=instruction.type,
        operands=tuple(f"{prefix}.{name}" for name in instruction.operands),
        computations=instruction.computations,
        attributes=instruction.attributes,
    )
