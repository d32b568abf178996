"""Updates of variables that replicas share out: each replica computes the new values of its share.

Works on values that meet element by element: a weight, its gradient, its momentum. If all that
happens to them in the update is element-wise, or a sum over everything, each replica updates an
equal share of their elements. A sum over everything is then one of partial sums, which the replicas
add up. Any other update (sums over rows, products) is computed whole by every replica.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module, Parameter, TupleType
from ipu_tf.compiler.opcodes import ELEMENTWISE
from ipu_tf.machine.cost import ceil_div

_VIEWS = frozenset({"bitcast", "broadcast", "reshape", "transpose"})
_SUMS = frozenset({"norm-sum", "reduce"})
_ALONG = ELEMENTWISE | _VIEWS | _SUMS | {"norm-apply"}
"""Opcodes that work on a share as they do on the whole."""

_INSIDE = _ALONG | {"constant", "parameter"}


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedUpdate:
    """A module whose replicas each update a share of the variables.

    Attributes:
        module: The module; parameters of shared optimizer state have the size of a share.
        variables: Names of the variables whose updates are shared out.
        sums: Number of sums over everything that the replicas add up.
    """

    module: Module
    variables: frozenset[str] = frozenset()
    sums: int = 0


def share_update(
    module: Module, parts: int, *, least_bytes: int, shares_weights: bool
) -> SharedUpdate:
    """Returns a module whose weight update works on one of `parts` equal shares.

    Args:
        module: The module of a stage.
        parts: Replicas that share out the update.
        least_bytes: Bytes of the smallest variable that is shared out.
        shares_weights: Whether the weights stay shared out after the update; otherwise the
            replicas gather the new ones.
    """
    if parts == 1:
        return SharedUpdate(module=module)
    groups = [group for group in _Groups(module).shareable() if group.bytes >= least_bytes]
    if not groups:
        return SharedUpdate(module=module)
    return _Rewriter(module, groups, parts, shares_weights=shares_weights).result()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group:
    """Values of the update that meet element by element.

    Attributes:
        elements: Elements of each of them.
        values: Their names.
        bytes: Bytes of the largest variable among them.
    """

    elements: int
    values: frozenset[str]
    bytes: int


class _Groups:
    """Finds the groups of values of a module's update."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._entry = module.entry_computation
        self._by_name = self._entry.by_name()
        self._parents: dict[str, str] = {}
        self._whole: set[str] = set()
        for instruction in self._entry:
            if instruction.phase == "update" and instruction.name != self._entry.root:
                self._join(instruction)

    def shareable(self) -> Iterator[_Group]:
        """Yields the groups that hold a variable with a new value, and may be shared out."""
        members: dict[str, set[str]] = {}
        for name in self._parents:
            members.setdefault(self._find(name), set()).add(name)
        new_values = self._updated()
        whole = {self._find(name) for name in self._whole if name in self._parents}
        whole |= {self._find(name) for name in self._kept_results() if name in self._parents}
        for group, names in members.items():
            sizes = {_elements(self._by_name[name]) for name in names}
            variables = names & new_values.keys()
            if group in whole or len(sizes) != 1 or not variables:
                continue
            largest = max(self._by_name[name].type.bytes for name in variables)
            yield _Group(elements=sizes.pop(), values=frozenset(names), bytes=largest)

    def _join(self, instruction: Instruction) -> None:
        values = [name for name in instruction.operands if _is_wide(self._by_name[name])]
        if not isinstance(instruction.type, Array) or not self._works_on_shares(instruction):
            self._whole.update(values)
        if _is_wide(instruction):
            values.append(instruction.name)
            if isinstance(instruction.type, TupleType):
                self._whole.add(instruction.name)
        for name in values:
            self._parents.setdefault(name, name)
            self._parents[self._find(name)] = self._find(values[0])

    def _works_on_shares(self, instruction: Instruction) -> bool:
        if instruction.opcode not in _ALONG:
            return False
        if instruction.opcode in _SUMS and _is_wide(instruction):
            return False
        inside = (i for name in instruction.computations for i in self._module.computations[name])
        return all(
            one.opcode in _INSIDE
            and isinstance(one.type, Array)
            and not (_is_wide(one) and one.opcode in {"constant", *_SUMS})
            for one in inside
        )

    def _updated(self) -> dict[str, str]:
        """Returns the parameters of weights and optimizer state with new values."""
        return {
            instruction.name: parameter.name
            for instruction, parameter in _parameters(self._module)
            if parameter.updated_by is not None and parameter.role in ("weight", "optimizer_state")
        }

    def _kept_results(self) -> set[str]:
        """Returns the results of the module that are no new values of variables."""
        results = self._by_name[self._entry.root].operands
        updates = {parameter.updated_by for parameter in self._module.parameters}
        return {name for number, name in enumerate(results) if number not in updates}

    def _find(self, name: str) -> str:
        while self._parents[name] != name:
            name = self._parents[name]
        return name


class _Rewriter:
    """Rewrites the updates of groups to work on shares."""

    def __init__(
        self, module: Module, groups: Iterable[_Group], parts: int, *, shares_weights: bool
    ) -> None:
        self._module = module
        self._gathers = not shares_weights
        self._entry = module.entry_computation
        self._share = {
            name: ceil_div(group.elements, parts) for group in groups for name in group.values
        }
        self._read_by = self._entry.users
        self._computations = dict(module.computations)
        self._instructions: list[Instruction] = []
        self._new_names: dict[str, str] = {}
        self._sums = 0

    def result(self) -> SharedUpdate:
        """Returns the rewritten module."""
        slots = self._slots()
        variables = frozenset(
            parameter.name
            for instruction, parameter in _parameters(self._module)
            if instruction.name in self._share and parameter.updated_by is not None
        )
        for instruction in self._entry:
            if instruction.name == self._entry.root:
                self._instructions.append(self._root(instruction, slots))
            elif instruction.phase == "update" and instruction.opcode != "parameter":
                self._instructions.append(self._updating(instruction))
            elif instruction.name in slots:
                self._instructions.append(self._shared(instruction))
            else:
                self._instructions.append(instruction)
                if instruction.name in self._share:
                    self._choose_share(instruction)
        self._computations[self._entry.name] = Computation(
            name=self._entry.name,
            instructions=tuple(self._instructions),
            root=self._entry.root,
        )
        module = self._module.replace(computations=self._computations)
        return SharedUpdate(module=module, variables=variables, sums=self._sums)

    def _slots(self) -> set[str]:
        """Returns the parameters of optimizer state that the update alone reads."""
        return {
            instruction.name
            for instruction, parameter in _parameters(self._module)
            if instruction.name in self._share
            and parameter.role == "optimizer_state"
            and all(reader.phase == "update" for reader in self._read_by[instruction.name])
        }

    def _choose_share(self, value: Instruction) -> None:
        """Adds the share of a whole value, for its readers in the update."""
        name = f"{value.name}.share"
        self._new_names[value.name] = name
        self._instructions.append(
            self._shared(
                value.replace(
                    name=name,
                    opcode="replica-share",
                    operands=(value.name,),
                    computations=(),
                    attributes={},
                    phase="update",
                ),
                self._share[value.name],
            )
        )

    def _updating(self, instruction: Instruction) -> Instruction:
        """Returns an instruction of the update as it works on shares."""
        operands = tuple(self._new_names.get(name, name) for name in instruction.operands)
        shares = {self._share[name] for name in instruction.operands if name in self._share}
        if not shares and instruction.name not in self._share:
            return instruction
        share = self._share.get(instruction.name) or shares.pop()
        self._sums += instruction.opcode in _SUMS
        share_instruction = instruction.replace(
            operands=operands,
            computations=tuple(self._inside(name, share) for name in instruction.computations),
        )
        if instruction.opcode == "transpose":  # Any order of a share's elements will do.
            share_instruction = share_instruction.replace(opcode="reshape", attributes={})
        return (
            self._shared(share_instruction, share) if _is_wide(instruction) else share_instruction
        )

    def _inside(self, name: str, share: int) -> str:
        """Returns the name of a called computation's copy that works on shares."""
        copy_name = f"{name}.share{share}"
        if copy_name not in self._computations:
            original = self._module.computations[name]
            self._computations[copy_name] = Computation(
                name=copy_name,
                instructions=tuple(
                    _copy_of(self._shared(one, share) if _is_wide(one) else one, copy_name)
                    for one in original
                ),
                root=f"{copy_name}.{original.root}",
            )
        return copy_name

    def _root(self, root: Instruction, slots: set[str]) -> Instruction:
        """Returns the result of the module, after shares have become whole again."""
        by_name = self._entry.by_name()
        operands = list(root.operands)
        types = [by_name[name].type for name in operands]
        for instruction, parameter in _parameters(self._module):
            number = parameter.updated_by
            if number is None or operands[number] not in self._share:
                continue
            new = operands[number]
            if instruction.name in slots:
                types[number] = self._shared(by_name[new], self._share[new]).type
            elif by_name[new].phase == "update":
                operands[number] = self._gather(instruction, by_name[new])
        return root.replace(operands=tuple(operands), type=TupleType(tuple(types)))

    def _gather(self, variable: Instruction, new: Instruction) -> str:
        """Adds the whole new value of a variable and returns its name."""
        name = f"{new.name}.whole"
        self._instructions.append(
            Instruction(
                name=name,
                opcode="replica-gather",
                type=variable.type,
                operands=(self._new_names.get(new.name, new.name), variable.name),
                attributes={"gathered": self._gathers},
                layer=new.layer,
                phase="update",
            )
        )
        return name

    def _shared(self, value: Instruction, share: int = 0) -> Instruction:
        """Returns a value with the size of a share, of as many dimensions as before."""
        if not isinstance(value.type, Array):
            raise TypeError(f"'{value.name}' is no array and has no shares.")
        dims = (*(1 for _ in value.type.dims[1:]), share or self._share[value.name])
        return value.replace(type=Array(value.type.dtype, dims))


def _copy_of(instruction: Instruction, computation: str) -> Instruction:
    """Returns an instruction of a copied computation: names are unique in a module."""
    if instruction.opcode == "transpose":
        instruction = instruction.replace(opcode="reshape", attributes={})
    return instruction.replace(
        name=f"{computation}.{instruction.name}",
        operands=tuple(f"{computation}.{name}" for name in instruction.operands),
    )


def _parameters(module: Module) -> Iterator[tuple[Instruction, Parameter]]:
    for instruction in module.entry_computation:
        if instruction.opcode == "parameter":
            yield instruction, module.parameters[instruction.attributes["parameter_number"]]


def _is_wide(instruction: Instruction) -> bool:
    """Returns whether a value has more than one element."""
    return _elements(instruction) != 1


def _elements(instruction: Instruction) -> int:
    """Returns the elements of an array, 0 for a tuple."""
    return instruction.type.elements if isinstance(instruction.type, Array) else 0
