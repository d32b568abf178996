"""Gives every instruction of a step a stage of the pipeline.

An instruction of a layer is in the stage of the layer; one of no layer follows its operands, or
else its readers. Values never flow to an earlier stage in the forward pass, nor to a later one in
the backward pass. Of a layer that several stages call, an instruction is in the first stage that
its operands reach, or in the last one that its readers allow if it reads weights or inputs alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from ipu_tf.compiler.hlo import Computation, Instruction, Module, Parameter
from ipu_tf.compiler.opcodes import is_elementwise
from ipu_tf.tile_program.phase import Phase

_ROLES_OF_LAYERS = frozenset({"weight", "optimizer_state"})
"""Roles of parameters that live on the IPU of one stage, even if nothing updates them."""

_Value = TypeVar("_Value")

_CONTRACTIONS = frozenset({"convolution", "dot"})

_NO_DECISIONS: Mapping[str, int] = MappingProxyType({})
_NO_SHARED_LAYERS: Mapping[str, tuple[int, ...]] = MappingProxyType({})

_TIMELESS = frozenset({"constant", "iota"})
_FORMS = frozenset({"broadcast", "reshape", "bitcast", "convert", "slice", "transpose"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The stages of the instructions of an entry computation.

    Attributes:
        stage_of: Stage of instructions, and of the parameters that live in one stage. Every stage
            that needs a missing instruction or parameter makes or reads it itself.
        anywhere: Names of instructions that depend on no parameter: each stage computes its own.
    """

    stage_of: Mapping[str, int]
    anywhere: frozenset[str]


def layer_stage(layer: str, stage_of_layers: Mapping[str, int]) -> int | None:
    """Returns the stage of a layer, or of the nearest enclosing layer with one; else None."""
    return _of_layer(layer, stage_of_layers)


def _of_layer(layer: str, by_path: Mapping[str, _Value]) -> _Value | None:
    """Returns the value of a layer, or of the nearest enclosing layer with one; else None."""
    path = layer
    while path:
        if path in by_path:
            return by_path[path]
        path = path.rpartition("/")[0]
    return None


def assign(
    module: Module,
    stage_of_layers: Mapping[str, int],
    stages: int,
    decided_stages: Mapping[str, int] = _NO_DECISIONS,
    shared_layers: Mapping[str, tuple[int, ...]] = _NO_SHARED_LAYERS,
) -> Assignment:
    """Returns the stages of the instructions of a simplified module.

    Args:
        module: The step, prepared.
        stage_of_layers: Stage of each layer by its path.
        stages: Number of stages.
        decided_stages: Stages of instructions of the update that are decided, by their names.
        shared_layers: All stages of each layer that several stages call, by its path.
    """
    return _Assigner(module, stage_of_layers, stages, decided_stages, shared_layers).run()


class _Assigner:
    """Finds stages, phase by phase, in the order of the data."""

    def __init__(
        self,
        module: Module,
        stage_of_layers: Mapping[str, int],
        stages: int,
        decided_stages: Mapping[str, int],
        shared_layers: Mapping[str, tuple[int, ...]],
    ) -> None:
        self._entry = module.entry_computation
        self._parameters = module.parameters
        self._by_name = self._entry.by_name()
        self._of_layers = stage_of_layers
        self._shared = shared_layers
        self._last = stages - 1
        self._anywhere = _anywhere(self._entry)
        self._users = self._entry.users
        self._stages = dict(decided_stages)
        self._weights = frozenset(
            name for name, parameter in self._parameter_names() if parameter.role == "weight"
        )

    def run(self) -> Assignment:
        """Returns the stages."""
        for name, parameter in self._parameter_names():
            if parameter.role in _ROLES_OF_LAYERS:
                stage = layer_stage(parameter.layer, self._of_layers)
                if stage is not None:
                    self._stages[name] = stage
        self._assign("forward", forwards=True, default=self._last)
        self._assign("backward", forwards=False, default=self._last)
        self._assign_updates()
        self._keep_tuples_together()
        self._place_parameters()
        return Assignment(stage_of=self._stages, anywhere=self._anywhere)

    def _assign(self, phase: Phase, *, forwards: bool, default: int) -> None:
        """Assigns the instructions of a phase.

        An instruction that multiplies by a weight, or reads one, is in the stage of its layer. All
        others are as close to their own layer as the flow of data allows: where the work of two
        layers was joined, an instruction of one may carry the layer of the other.

        Args:
            phase: The phase.
            forwards: Whether data flows to later stages in it; else it flows to earlier ones.
            default: The stage of instructions for which nothing else decides.
        """
        instructions = [i for i in self._entry if i.phase == phase and self._needs_stage(i)]
        sign = 1 if forwards else -1  # Data flows from lower to higher values of sign * stage.
        limits = self._limits(instructions, phase, sign)
        unknown = []
        for instruction in instructions:
            name = instruction.name
            before = [sign * stage for stage in self._stages_of_operands(instruction, phase)]
            own_stages = self._stages_of_layer(instruction, sign)
            if len(own_stages) > 1:
                own_stages = _choice(own_stages, before, limits.get(name))
                if not own_stages:
                    unknown.append(name)
                    continue
            if own_stages:
                nearest_stage = max([*own_stages, *before])
            elif before:
                nearest_stage = max(before)
            elif anything := self._stages_of_operands(instruction, None):
                nearest_stage = sign * max(anything)
            else:
                unknown.append(name)
                continue
            self._stages[name] = sign * min(nearest_stage, limits.get(name, nearest_stage))
        for name in reversed(unknown):
            after = [
                sign * self._stages[u.name] for u in self._users[name] if u.name in self._stages
            ]
            self._stages[name] = sign * min(after) if after else default

    def _assign_updates(self) -> None:
        """Assigns the weight update: the stage that holds a weight updates it."""
        instructions = [
            i
            for i in self._entry
            if i.phase == "update" and self._needs_stage(i) and i.name not in self._stages
        ]
        for instruction in instructions:
            own_stage = layer_stage(instruction.layer, self._of_layers)
            reader_stages = self._stages_of_operands(instruction, None)
            if own_stage is not None or reader_stages:
                self._stages[instruction.name] = (
                    max(reader_stages) if own_stage is None else own_stage
                )
        for instruction in reversed(instructions):
            name = instruction.name
            after = [self._stages[u.name] for u in self._users[name] if u.name in self._stages]
            self._stages.setdefault(
                name, min(after or self._of_other_readers(instruction), default=0)
            )

    def _of_other_readers(self, instruction: Instruction) -> list[int]:
        """Returns the stages of all that reads the operands of an instruction.

        An update by a constant gradient follows nothing else: it is where its weight is.
        """
        readers = (user.name for name in instruction.operands for user in self._users[name])
        return [self._stages[name] for name in readers if name in self._stages]

    def _limits(
        self, instructions: Sequence[Instruction], phase: Phase, sign: int
    ) -> Mapping[str, int]:
        """Returns the last stage, as `sign * stage`, that each instruction may be in so that its
        readers can stay in the stages of their weights."""
        limits: dict[str, int] = {}
        for instruction in reversed(instructions):
            own_stages = self._stages_of_layer(instruction, sign)
            after = [
                limits[user.name]
                for user in self._users[instruction.name]
                if user.phase == phase and user.name in limits
            ]
            if own_stages and self._is_tied(instruction):
                places = [place for place in own_stages if not after or place <= min(after)]
                limits[instruction.name] = (places or own_stages[:1])[-1]
            elif after:
                limits[instruction.name] = min(after)
        return limits

    def _stages_of_layer(self, instruction: Instruction, sign: int) -> list[int]:
        """Returns the stages of an instruction's layer, as `sign * stage`, in the order of data."""
        first = layer_stage(instruction.layer, self._of_layers)
        if first is None:
            return []
        stages = _of_layer(instruction.layer, self._shared) or (first,)
        return sorted(sign * stage for stage in stages)

    def _is_tied(self, instruction: Instruction) -> bool:
        """Whether an instruction must be in the stage of its layer's weights."""
        return instruction.opcode in _CONTRACTIONS or any(
            operand in self._weights for operand in instruction.operands
        )

    def _stages_of_operands(self, instruction: Instruction, phase: Phase | None) -> list[int]:
        """Returns the stages of an instruction's operands, of one phase or of all."""
        return [
            self._stages[name]
            for name in instruction.operands
            if name in self._stages
            and (phase is None or self._by_name[name].phase == phase)
            and (phase is None or self._by_name[name].opcode != "parameter")
        ]

    def _needs_stage(self, instruction: Instruction) -> bool:
        return (
            instruction.opcode != "parameter"
            and instruction.name not in self._anywhere
            and instruction.name != self._entry.root
        )

    def _keep_tuples_together(self) -> None:
        """Moves the packing of a tuple to its reader, and the unpacking to its maker.

        A tuple that is a result of the step as a whole stays in the stage of its parts.
        """
        for instruction in reversed(self._entry.instructions):
            if instruction.opcode == "tuple" and instruction.name != self._entry.root:
                readers = (user.name for user in self._users[instruction.name])
                stages = (self._stages[name] for name in readers if name in self._stages)
                self._stages[instruction.name] = next(stages, self._stages[instruction.name])
        for instruction in self._entry:
            if instruction.opcode == "get-tuple-element":
                whole = self._stages.get(instruction.operands[0])
                if whole is not None:
                    self._stages[instruction.name] = whole

    def _place_parameters(self) -> None:
        """Puts parameters of one stage where they are updated, else where they are first read."""
        results = self._by_name[self._entry.root].operands
        for name, parameter in self._parameter_names():
            new_value = parameter.updated_by
            maker = results[new_value] if new_value is not None else ""
            if maker in self._stages and self._by_name[maker].opcode != "parameter":
                self._stages[name] = self._stages[maker]
            elif name not in self._stages and (
                new_value is not None or parameter.role in _ROLES_OF_LAYERS
            ):
                readers = [self._stages.get(user.name, 0) for user in self._users[name]]
                self._stages[name] = min(readers, default=0)

    def _parameter_names(self) -> list[tuple[str, Parameter]]:
        return [
            (instruction.name, self._parameters[instruction.attributes["parameter_number"]])
            for instruction in self._entry
            if instruction.opcode == "parameter"
        ]


def _choice(own_stages: Sequence[int], before: Sequence[int], limit: int | None) -> list[int]:
    """Returns the one stage of several that an instruction of their layer is in; none if only its
    readers tell. All stages are `sign * stage`."""
    if before:
        return [next((stage for stage in own_stages if stage >= max(before)), own_stages[-1])]
    if limit is None:
        return []
    return [max((stage for stage in own_stages if stage <= limit), default=own_stages[0])]


def _anywhere(entry: Computation) -> frozenset[str]:
    """Returns the instructions that compute cheaply from constants alone."""
    names: set[str] = set()
    for instruction in entry:
        made_of_them = bool(instruction.operands) and names.issuperset(instruction.operands)
        cheap = instruction.opcode in _FORMS or is_elementwise(instruction)
        if instruction.opcode in _TIMELESS or (cheap and made_of_them):
            names.add(instruction.name)
    return frozenset(names - {entry.root})
