"""Compiles stages that differ in names alone once, as those of equal blocks of a large model."""

from __future__ import annotations

import dataclasses
import hashlib
import marshal
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.cache import Plain, plain_attribute
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Module
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.tile_program.program import TileProgram

_CANONICAL = 2
"""Version of marshal's format without references: equal values give equal bytes."""


class _Numbers(dict[str, int]):
    """Numbers names in the order in which they are first seen; "" is no name."""

    def __init__(self) -> None:
        super().__init__({"": -1})

    def __missing__(self, name: str) -> int:
        self[name] = len(self)
        return self[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Names:
    """The names in a module, each kind in the order in which they are first seen."""

    values: _Numbers
    layers: _Numbers
    op_names: _Numbers


class StageCompiler:
    """Compiles modules for an IPU each; of those that differ in names alone only the first.

    Args:
        options: The chip, and options of the planner.
        plans: Plans that tile ops run, by the name of their TensorFlow op.
    """

    def __init__(self, options: CompilerOptions, plans: Mapping[str, tuple[OpShape, Plan]]) -> None:
        self._options = options
        self._plans = plans
        self._compiled: dict[bytes, tuple[TileProgram, _Names]] = {}

    def program(self, module: Module) -> TileProgram:
        """Returns the program of a module as `build_program` does, with the same errors."""
        names = _Names(values=_Numbers(), layers=_Numbers(), op_names=_Numbers())
        digest = hashlib.blake2b(digest_size=16)
        for part in self._parts(module, names):
            digest.update(marshal.dumps(part, _CANONICAL))
        key = digest.digest()
        if key in self._compiled:
            program, program_names = self._compiled[key]
            return _with_names(program, module.name, program_names, names)
        program = build_program(module, options=self._options, plans=self._plans)
        if not program.unsupported and not program.notes:  # Which name layers in sentences.
            self._compiled[key] = program, names
        return program

    def _parts(self, module: Module, names: _Names) -> Iterator[tuple[Plain, ...]]:
        """Yields everything that decides on the program of a module, with numbers for names."""
        values, layers, computations = names.values, names.layers, _Numbers()
        for name in module.computations:
            computations[name]
        yield computations[module.entry], tuple(sorted(module.links))
        for parameter in module.parameters:
            layer = layers[parameter.layer]
            yield values[parameter.name], parameter.role, layer, parameter.updated_by
        for name, computation in module.computations.items():
            for one in computation:
                yield (
                    values[one.name],
                    one.opcode,
                    str(one.type),
                    [values[operand] for operand in one.operands],
                    [computations[inner] for inner in one.computations],
                    [
                        (key, _attribute_key(value, computations))
                        for key, value in one.attributes.items()
                    ],
                    names.op_names[one.op_name],
                    one.op_type,
                    layers[one.layer],
                    one.phase,
                    one.recomputed,
                    [values[earlier] for earlier in one.after],
                )
            yield computations[name], values[computation.root]
        for name in names.op_names:
            yield (repr(self._plans.get(name)),)


def _attribute_key(attribute: object, computations: _Numbers) -> Plain:
    """Returns an attribute as plain values, the name of a computation as its number."""
    if isinstance(attribute, str) and attribute in computations:
        return computations[attribute]
    return plain_attribute(attribute)


def _with_names(
    program: TileProgram, name: str, program_names: _Names, names: _Names
) -> TileProgram:
    """Returns a program with other names.

    Args:
        program: The program.
        name: Name of the other function.
        program_names: The names in the module of the program.
        names: Those of the other module, in the same order.
    """
    value = dict(zip(program_names.values, names.values, strict=True))
    layer = dict(zip(program_names.layers, names.layers, strict=True))
    op_name = dict(zip(program_names.op_names, names.op_names, strict=True))
    return dataclasses.replace(
        program,
        name=name,
        steps=tuple(
            dataclasses.replace(
                step,
                name=_counterpart(step.name, value),
                layer=layer[step.layer],
                op_name=op_name[step.op_name],
            )
            for step in program.steps
        ),
        tensors=tuple(
            dataclasses.replace(
                tensor, name=_counterpart(tensor.name, value), layer=layer[tensor.layer]
            )
            for tensor in program.tensors
        ),
    )


def _counterpart(name: str, names: Mapping[str, str]) -> str:
    """Returns the other name of a value, or of one that is named after it, such as "dot.1.update".

    Names that no value has, as those of transfers with the host, stay.
    """
    stem, ending = name, ""
    while stem not in names:
        stem, dot, part = stem.rpartition(".")
        if not dot:
            return name
        ending = f".{part}{ending}"
    return names[stem] + ending
