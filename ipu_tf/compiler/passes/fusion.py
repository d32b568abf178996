"""Joins element-wise instructions into fusions, which run as one pass over their elements.

An instruction joins the fusion of its readers if all of them are in the same one, so nothing is
computed twice and a fusion has one result. Constant scalars and broadcasts compute nothing: every
fusion that reads them gets a copy, and a broadcast is not repeated in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import programs, with_instructions

ELEMENTWISE = frozenset(
    {
        "abs", "add", "and", "atan2", "cbrt", "ceil", "clamp", "compare", "convert", "cosine",
        "count-leading-zeros", "divide", "erf", "exponential", "exponential-minus-one", "floor",
        "is-finite", "log", "log-plus-one", "logistic", "maximum", "minimum", "multiply",
        "negate", "not", "or", "popcnt", "power", "remainder", "round-nearest-afz",
        "round-nearest-even", "rsqrt", "select", "shift-left", "shift-right-arithmetic",
        "shift-right-logical", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor",
        "reduce-precision", "bitcast-convert",
    }
)  # fmt: skip
"""Opcodes that compute each element of their result from the operands' elements at its index."""


def run(module: Module) -> Module:
    """Returns the module with opcode "fusion" for chains of element-wise instructions.

    A fusion calls a computation of its own, whose parameters are the fusion's operands in order.
    All of its instructions belong to the same layer and phase of the step. Only the fusion names
    them, so equal fusions of different layers may call one computation.
    """
    computations = dict(module.computations)
    for name in programs(module):
        fuser = _Fuser(computations[name])
        computations[name] = fuser.computation()
        computations |= {fused.name: fused for fused in fuser.fused}
    return module.replace(computations=computations)


@dataclass(slots=True, kw_only=True)
class _Group:
    """Instructions that become one fusion.

    Attributes:
        root: The one whose result others read.
        members: All, last to first.
    """

    root: Instruction
    members: list[Instruction] = field(default_factory=list)


class _Fuser:
    """Fuses one computation.

    Attributes:
        fused: The computations of its fusions.
    """

    def __init__(self, computation: Computation) -> None:
        self._computation = computation
        self._definitions = computation.by_name()
        self._read_by = computation.users
        self.fused: list[Computation] = []

    def computation(self) -> Computation:
        """Returns the computation with fusions."""
        groups = self._groups()
        members = {member.name for group in groups.values() for member in group.members}
        instructions = []
        for instruction in self._computation:
            group = groups.get(instruction.name)
            if group is not None:
                instructions.append(self._fusion(group))
            elif instruction.name not in members:
                instructions.append(instruction)
        return with_instructions(self._computation, self._without_unread(instructions))

    def _groups(self) -> Mapping[str, _Group]:
        """Returns the groups that are worth fusing, by the names of their roots."""
        group_of: dict[str, _Group] = {}
        for instruction in reversed(self._computation.instructions):
            if not self._is_member(instruction):
                continue
            group = self._common_group(instruction, group_of)
            if group is None and instruction.opcode in ELEMENTWISE:
                group = _Group(root=instruction)
            if group is not None:
                group.members.append(instruction)
                group_of[instruction.name] = group
        return {
            group.root.name: group
            for group in group_of.values()
            if len(group.members) > 1 or any(map(self._is_free, self._operands(group.root)))
        }

    def _is_member(self, instruction: Instruction) -> bool:
        if not isinstance(instruction.type, Array) or self._is_free(instruction):
            return False
        return instruction.opcode in ELEMENTWISE or instruction.opcode == "reshape"

    def _is_free(self, instruction: Instruction) -> bool:
        """Whether to copy an instruction into all its readers: a scalar constant, a broadcast."""
        while instruction.opcode == "reshape":
            instruction = self._definitions[instruction.operands[0]]
        if instruction.opcode == "broadcast":
            return True
        type_ = instruction.type
        return instruction.opcode == "constant" and isinstance(type_, Array) and type_.elements == 1

    def _operands(self, instruction: Instruction) -> Iterable[Instruction]:
        return (self._definitions[name] for name in instruction.operands)

    def _common_group(
        self, instruction: Instruction, group_of: Mapping[str, _Group]
    ) -> _Group | None:
        """Returns the common group of all readers of an instruction, if it may join that group."""
        readers = self._read_by[instruction.name]
        if not readers or instruction.name == self._computation.root:
            return None
        group = group_of.get(readers[0].name)
        if group is None or any(group_of.get(user.name) is not group for user in readers):
            return None
        return group if _fits(instruction, group.root) else None

    def _fusion(self, group: _Group) -> Instruction:
        root = group.root
        body: dict[str, Instruction] = {}
        parameters: dict[str, Instruction] = {}
        inner_names: dict[str, str] = {}
        prefix = f"{root.name}.fused"
        for member in reversed(group.members):
            for operand in self._operands(member):
                self._import(operand, prefix, body, parameters, inner_names)
            operands = tuple(inner_names.get(name, name) for name in member.operands)
            body[member.name] = _plain(member, operands)
        inner = f"{prefix}.root"
        body[inner] = body.pop(root.name).replace(name=inner)
        instructions = (*parameters.values(), *body.values())
        self.fused.append(Computation(name=prefix, instructions=instructions, root=inner))
        return root.replace(
            opcode="fusion", operands=tuple(parameters), computations=(prefix,), attributes={}
        )

    def _import(
        self,
        operand: Instruction,
        prefix: str,
        body: dict[str, Instruction],
        parameters: dict[str, Instruction],
        inner_names: dict[str, str],
    ) -> None:
        """Makes an operand known in a fusion: copies a free instruction, else adds a parameter."""
        name = operand.name
        if name in body or name in inner_names:
            return
        inner_names[name] = f"{prefix}.{name}"
        if self._is_free(operand):
            for inner in self._operands(operand):
                self._import(inner, prefix, body, parameters, inner_names)
            operands = tuple(inner_names[inner] for inner in operand.operands)
            body[inner_names[name]] = _plain(operand, operands).replace(name=inner_names[name])
            return
        parameters[name] = Instruction(
            name=inner_names[name],
            opcode="parameter",
            type=operand.type,
            attributes={"parameter_number": len(parameters)},
        )

    def _without_unread(self, instructions: list[Instruction]) -> list[Instruction]:
        """Returns the instructions without free ones that only fusions read."""
        operands = {operand for i in instructions for operand in i.operands}
        operands.add(self._computation.root)
        live: list[Instruction] = []
        for instruction in reversed(instructions):
            if instruction.name in operands or not self._is_free(instruction):
                live.append(instruction)
        return live[::-1]


def _plain(instruction: Instruction, operands: tuple[str, ...]) -> Instruction:
    """Returns an instruction without its origin."""
    return Instruction(
        name=instruction.name,
        opcode=instruction.opcode,
        type=instruction.type,
        operands=operands,
        attributes=instruction.attributes,
    )


def _fits(instruction: Instruction, root: Instruction) -> bool:
    """Whether an instruction has the size, layer and phase of a fusion's root."""
    same_work = instruction.phase == root.phase and instruction.layer in ("", root.layer)
    mine, roots = instruction.type, root.type
    return (
        same_work
        and isinstance(mine, Array)
        and isinstance(roots, Array)
        and mine.elements == roots.elements
    )
