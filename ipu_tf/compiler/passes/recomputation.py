"""Recomputes cheap values in the backward pass rather than keep them from the forward pass.

A value that both passes read is in memory all the time between them. It need not be if one pass
over its elements computes it from values that are live anyway: for example the difference of a
batch and its mean, or a float32 copy of a float16 array. A recomputed value joins the fusion of its
reader and costs a few cycles per element. The library's normalisations keep no such values either.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import each_program, rename_operands, with_instructions

_CHEAP = frozenset({"add", "convert", "multiply", "negate", "subtract"})
"""Opcodes of a few cycles for a vector of elements."""

_VIEWS = frozenset({"broadcast", "reshape"})
_LASTING = frozenset({"constant", "iota"})
"""Opcodes of values that are always live, or take no memory."""

_LASTING_ROLES = frozenset({"weight", "optimizer_state", "state", "constant", "accumulator"})
"""Roles of parameters that are always live."""


def run(module: Module) -> Module:
    """Returns the module in which the backward pass reads fewer values of the forward pass.

    Expects known phases. Recomputes a cheap value that both passes read for its readers in the
    backward pass, if that keeps fewer bytes.
    """
    always_live = {
        instruction.name
        for instruction in module.entry_computation
        if instruction.opcode == "parameter"
        and module.parameters[instruction.attributes["parameter_number"]].role in _LASTING_ROLES
    }
    return each_program(
        module, lambda computation: _Recomputer(computation, always_live).computation()
    )


class _Recomputer:
    """Rewrites one computation.

    Args:
        computation: The computation.
        always_live: Names of parameters that are always live.
    """

    def __init__(self, computation: Computation, always_live: Collection[str]) -> None:
        self._lasting = always_live
        self._original = computation
        self._definitions = computation.by_name()
        self._read_by = computation.users
        self._again: set[str] = set()
        for instruction in computation:
            if self._is_worth_it(instruction):
                self._again.add(instruction.name)

    def computation(self) -> Computation:
        """Returns the computation that recomputes values."""
        if not self._again:
            return self._original
        instructions: list[Instruction] = []
        for instruction in self._original:
            if instruction.phase == "backward":
                aliases: dict[str, str] = {}
                instructions += self._copies(instruction, instruction, aliases)
                instruction = rename_operands(instruction, aliases)
            instructions.append(instruction)
        return with_instructions(self._original, instructions)

    def _is_worth_it(self, instruction: Instruction) -> bool:
        readers = self._read_by[instruction.name]
        if instruction.phase != "forward" or instruction.opcode not in _CHEAP:
            return False
        if len({reader.phase == "backward" for reader in readers}) < 2:
            return False
        operands = dict.fromkeys(instruction.operands)
        return sum(map(self._kept_bytes, operands)) < instruction.type.bytes

    def _kept_bytes(self, name: str) -> int:
        """Returns the bytes kept until the backward pass only to recompute the instruction."""
        value = self._definitions[name]
        if value.opcode in _VIEWS:
            return self._kept_bytes(value.operands[0])
        if value.opcode in _LASTING or name in self._lasting or value.phase == "backward":
            return 0
        if name in self._again:
            # Every reader of every link would recompute a longer chain from its beginning.
            return 0 if value.opcode == "convert" else value.type.bytes
        is_kept = any(reader.phase == "backward" for reader in self._read_by[name])
        return 0 if is_kept else value.type.bytes

    def _copies(
        self, reader: Instruction, instruction: Instruction, aliases: dict[str, str]
    ) -> Iterator[Instruction]:
        """Yields copies, for a reader, of the recomputed instructions that an instruction needs.

        Args:
            reader: The reader in the backward pass.
            instruction: The reader itself, or the original of a copy.
            aliases: Gets the names of the copies, by those of the originals.
        """
        for name in dict.fromkeys(instruction.operands):
            value = self._definitions[name]
            if name in aliases or not self._needs_copy(value):
                continue
            yield from self._copies(reader, value, aliases)
            aliases[name] = f"{name}.again.{reader.name}"
            copy = rename_operands(value, aliases)
            yield copy.replace(name=aliases[name], phase="backward", layer=reader.layer)

    def _needs_copy(self, value: Instruction) -> bool:
        if value.opcode in _VIEWS and value.phase != "backward":
            return self._needs_copy(self._definitions[value.operands[0]])
        return value.name in self._again
