"""Computes wide values of small ones anew for each reader, rather than keep them in memory.

One-hot labels are compared from a few indices: as wide as the logits of a loss, but a reader can
compute them in the same pass over its elements. They then take no memory, and lie where the
reader's other operands do. Modelled: what the machine's compiler repeats is not published.
"""

from __future__ import annotations

from collections.abc import Iterator

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.opcodes import is_elementwise
from ipu_tf.compiler.passes.rewrite import each_program, rename_operands, with_instructions

_CHEAP = frozenset(
    {"add", "and", "compare", "convert", "multiply", "negate", "not", "or", "select", "subtract"}
)
"""Opcodes of a few cycles for a vector of elements."""

_SMALL = frozenset({"broadcast", "constant", "iota"})
"""Opcodes of wide values that take no memory, or that of a smaller one."""


def run(module: Module) -> Module:
    """Returns the module whose readers compute wide values of small sources themselves.

    Expects known layers and phases. Copies a value with several readers if all of them are
    element-wise instructions of its own layer and phase, with which the copies become fusions.
    Numbers along a dimension, of which such values are made, become a vector that is broadcast.
    """
    return each_program(module, lambda computation: _Copier(computation).computation())


class _Copier:
    """Rewrites one computation."""

    def __init__(self, computation: Computation) -> None:
        self._original = computation
        self._definitions = computation.by_name()
        self._read_by = computation.users
        self._derived_names: set[str] = set()
        for instruction in computation:
            if instruction.opcode in _CHEAP and all(map(self._is_small, instruction.operands)):
                self._derived_names.add(instruction.name)
        self._copy_names = {
            name for name in self._derived_names if self._is_copied(self._definitions[name])
        }

    def computation(self) -> Computation:
        """Returns the computation with a copy for every reader."""
        if not self._copy_names:
            return self._original
        instructions: list[Instruction] = []
        for instruction in self._original:
            if self._is_of_derived(instruction):
                vector, instruction = _as_vector(instruction)
                instructions.append(vector)
            if instruction.name not in self._derived_names:
                aliases: dict[str, str] = {}
                instructions += self._copies(instruction, instruction, aliases)
                instruction = rename_operands(instruction, aliases)
            instructions.append(instruction)
        return with_instructions(self._original, instructions)

    def _is_small(self, name: str) -> bool:
        return name in self._derived_names or self._definitions[name].opcode in _SMALL

    def _is_copied(self, value: Instruction) -> bool:
        """Returns whether every reader computes a value for itself."""
        readers = self._read_by[value.name]
        return len(readers) > 1 and all(
            is_elementwise(reader)
            and (reader.layer, reader.phase) == (value.layer, value.phase)
            and isinstance(reader.type, Array)
            and isinstance(value.type, Array)
            and reader.type.elements == value.type.elements
            for reader in readers
        )

    def _is_of_derived(self, instruction: Instruction) -> bool:
        """Returns whether an instruction numbers elements for values of small sources alone."""
        type_ = instruction.type
        wide = instruction.opcode == "iota" and isinstance(type_, Array) and len(type_.dims) > 1
        return wide and all(r.name in self._derived_names for r in self._read_by[instruction.name])

    def _copies(
        self, reader: Instruction, instruction: Instruction, aliases: dict[str, str]
    ) -> Iterator[Instruction]:
        """Yields copies of what an instruction needs, for a reader.

        Args:
            reader: The reader.
            instruction: The reader itself, or the original of a copy.
            aliases: Gets the names of the copies, by those of the originals.
        """
        for name in dict.fromkeys(instruction.operands):
            inside = instruction is not reader and name in self._derived_names
            if name in aliases or not (name in self._copy_names or inside):
                continue
            value = self._definitions[name]
            yield from self._copies(reader, value, aliases)
            aliases[name] = f"{name}.for.{reader.name}"
            yield rename_operands(value, aliases).replace(name=aliases[name])


def _as_vector(instruction: Instruction) -> tuple[Instruction, Instruction]:
    """Returns an `iota` of one dimension, and its broadcast in place of one of several."""
    type_ = instruction.type
    if not isinstance(type_, Array):
        raise TypeError(f"'{instruction.name}' is no array.")
    (axis,) = instruction.attributes["dimensions"]
    vector = instruction.replace(
        name=f"{instruction.name}.vector",
        type=Array(type_.dtype, (type_.dims[axis],)),
        attributes={"dimensions": (0,)},
    )
    wide = instruction.replace(
        opcode="broadcast", operands=(vector.name,), attributes={"dimensions": (axis,)}
    )
    return vector, wide
