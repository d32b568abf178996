"""Computes values of the forward pass again where the backward pass needs them.

A value is recomputed once. It waits until the gradients are there that its first reader combines it
with: earlier it would only take memory.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Set

from ipu_tf.compiler.hlo import Computation, Instruction
from ipu_tf.compiler.passes.rewrite import rename_operands

_SUFFIX = ".recomputed"


class Copies:
    """Rewrites the entry of a step so that its backward pass recomputes values.

    Args:
        entry: The entry.
        groups: The values that may be recomputed, by name, with the group of each.
        kept_names: Values among them that are kept.
        stage_of: Stage of each instruction; a stage recomputes only its own values.
        ends: Values that a stage hands to others in the forward pass, by stage: it recomputes
            after it has made those that come before the reader.
    """

    def __init__(
        self,
        entry: Computation,
        groups: Mapping[str, Hashable],
        kept_names: Set[str],
        stage_of: Mapping[str, int],
        ends: Mapping[int, tuple[str, ...]],
    ) -> None:
        self._entry = entry
        self._by_name = entry.by_name()
        self._place = {instruction.name: place for place, instruction in enumerate(entry)}
        self._groups, self._checkpoints = groups, kept_names
        self._stage_of, self._ends = stage_of, ends
        self._end_of: dict[Hashable, int] = {}
        for name, group in groups.items():
            self._end_of[group] = max(self._place[name], self._end_of.get(group, 0))
        self._reach: dict[str, int] = {}
        self._aliases: dict[str, str] = {}
        self._postponements: set[str] = set()
        self._instructions: list[Instruction] = []
        self._current = ""
        self.stages: dict[str, int] = {}

    def instructions(self) -> list[Instruction]:
        """Returns the instructions of the entry, with those that recompute values among them."""
        for instruction in self._entry:
            self._add(instruction)
        return self._instructions

    def _add(self, instruction: Instruction) -> None:
        self._current = instruction.name
        self._reach[instruction.name] = self._last_source(instruction)
        names = self._sources_before(instruction)
        late: tuple[str, ...] = ()
        again = [name for name in names if name not in self._postponements]
        if instruction.phase == "backward" and again:
            end = max(self._end_of[self._groups[name]] for name in again)
            late = tuple(name for name in instruction.operands if self._is_gradient(name, end))
            if not late:
                # It reads values alone, such as the sign of an activation: so it can wait, too.
                self._postponements.add(instruction.name)
                return
        for name in names:
            self._emit(name, late)
        self._instructions.append(self._with_aliases(instruction))

    def _last_source(self, instruction: Instruction) -> int:
        """Returns the last place in the forward pass that an instruction depends on."""
        if instruction.opcode == "parameter":
            return -1
        if instruction.phase == "forward":
            return self._place[instruction.name]
        return max((self._reach[name] for name in instruction.operands), default=-1)

    def _is_gradient(self, name: str, end: int) -> bool:
        """Returns whether a value depends on the forward pass beyond a place."""
        value = self._by_name[name]
        is_there = name not in self._postponements
        return value.phase == "backward" and is_there and self._reach[name] > end

    def _sources_before(self, instruction: Instruction) -> list[str]:
        """Returns values to recompute, and postponed instructions, before one; in their order."""
        names: set[str] = set()
        if instruction.phase == "backward":
            stack = list(self._sources(instruction))
        else:
            stack = [name for name in instruction.operands if name in self._postponements]
        while stack:
            name = stack.pop()
            if name not in names:
                names.add(name)
                stack += self._sources(self._by_name[name])
        return sorted(names, key=self._place.__getitem__)

    def _sources(self, reader: Instruction) -> Iterator[str]:
        """Yields the operands of an instruction that are to be made for it first."""
        for name in reader.operands:
            is_missing = name not in self._aliases and self._is_again(name, reader)
            if is_missing or name in self._postponements:
                yield name

    def _is_again(self, name: str, reader: Instruction) -> bool:
        """Returns whether a reader gets a value that is recomputed."""
        if name not in self._groups or name in self._checkpoints:
            return False
        if self._stage_of.get(name) != self._stage_of.get(reader.name):
            return False  # A stage keeps what it receives.
        if reader.phase == "backward":
            return True
        # Of the forward pass only what is about to be recomputed itself.
        return reader.name in self._groups and reader.name not in self._checkpoints

    def _emit(self, name: str, after: tuple[str, ...]) -> None:
        instruction = self._by_name[name]
        if name in self._postponements:
            self._postponements.remove(name)
            self._instructions.append(self._with_aliases(instruction))
            return
        again = f"{name}{_SUFFIX}"
        stage = self._stage_of.get(name)
        if stage is not None:
            self.stages[again] = stage
            # A loss may be handed on after gradients that do not read it.
            place = self._place[self._current]
            after = (
                *after,
                *(end for end in self._ends.get(stage, ()) if self._place[end] < place),
            )
        copy = rename_operands(instruction, self._aliases)
        self._aliases[name] = again
        self._instructions.append(
            copy.replace(name=again, phase="backward", recomputed=True, after=after)
        )

    def _with_aliases(self, instruction: Instruction) -> Instruction:
        if instruction.phase != "backward":
            return instruction
        aliases = {
            name: self._aliases[name]
            for name in instruction.operands
            if name in self._aliases and self._is_again(name, instruction)
        }
        return rename_operands(instruction, aliases)
