"""Finds which extents of a traced step grow with the samples, from those of its inputs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from ipu_tf.compiler.batch_axes.extents import Axes, Extents, NotInferable
from ipu_tf.compiler.batch_axes.rules import InstructionExtents, apply
from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module

AxesByName = Mapping[str, tuple[Axes, ...]]
"""The extents of the arrays of each instruction, by its name."""

_CALLS = frozenset({"call", "conditional"})
"""Opcodes that pass arrays to computations. Not loops: one may run once for each sample."""


def sample_extents(module: Module, samples: int) -> tuple[Extents, AxesByName]:
    """Returns the extents of a step, and of each which of them grow with the samples.

    The first axis of every input counts samples. Variables, constants of the function and whatever
    follows from them do not. Each opcode says which extents are equal; that of a reshape follows
    from the only place where its elements keep their order.

    Args:
        module: The step of one micro-batch.
        samples: The samples of its inputs.

    Raises:
        NotInferable: It is open of an extent, or two rules contradict each other.
    """
    extents = Extents()
    axes_by_name = {
        instruction.name: extents.of_arrays(instruction.type)
        for computation in module.computations.values()
        for instruction in computation
    }
    _fix_inputs(module, samples, extents, axes_by_name)
    reshapes: list[InstructionExtents] = []
    for computation in module.computations.values():
        by_name = computation.by_name()
        for instruction in computation:
            work = _instruction_extents(instruction, by_name, extents, axes_by_name)
            if instruction.opcode in _CALLS:
                _join_calls(module, work, axes_by_name)
            elif instruction.opcode == "reshape":
                reshapes.append(work)
            elif instruction.opcode != "parameter":
                _apply(work)
    while sum(_reshaped(work, samples) for work in reshapes):
        pass
    return extents, axes_by_name


def _apply(work: InstructionExtents) -> None:
    try:
        apply(work)
    except NotInferable as error:
        one = work.instruction
        raise NotInferable(f"'{one.name}' ({one.opcode}): {error}") from None


def _instruction_extents(
    instruction: Instruction,
    by_name: Mapping[str, Instruction],
    extents: Extents,
    axes_by_name: AxesByName,
) -> InstructionExtents:
    return InstructionExtents(
        extents=extents,
        instruction=instruction,
        operands=[axes_by_name[name] for name in instruction.operands],
        types=[by_name[name].type for name in instruction.operands],
        results=axes_by_name[instruction.name],
    )


def _fix_inputs(module: Module, samples: int, extents: Extents, axes_by_name: AxesByName) -> None:
    for instruction in module.entry_computation:
        if instruction.opcode != "parameter":
            continue
        parameter = module.parameters[instruction.attributes["parameter_number"]]
        for axes in axes_by_name[instruction.name]:
            for axis, extent in enumerate(axes):
                counts = parameter.role == "input" and axis == 0
                extents.fix(extent, counts_samples=counts)
        type_ = instruction.type
        is_batch = isinstance(type_, Array) and type_.dims[:1] in ((), (samples,))
        if parameter.role == "host" or (parameter.role == "input" and not is_batch):
            raise NotInferable(f"the input '{parameter.name}' is no batch of {samples} samples")


def _join_calls(module: Module, work: InstructionExtents, axes_by_name: AxesByName) -> None:
    """Joins what a call or a conditional passes to its computations and gets from them."""
    instruction, extents = work.instruction, work.extents
    callees = [module.computations[name] for name in instruction.computations]
    for number, callee in enumerate(callees):
        if instruction.opcode == "conditional":
            arguments = [work.operands[1 + number]]
        else:
            arguments = list(work.operands)
        for parameter in callee:
            if parameter.opcode == "parameter":
                argument = arguments[parameter.attributes["parameter_number"]]
                for one, other in zip(argument, axes_by_name[parameter.name], strict=True):
                    extents.join_all(one, other)
        for one, other in zip(axes_by_name[callee.root], work.results, strict=True):
            extents.join_all(one, other)


def _reshaped(work: InstructionExtents, samples: int) -> bool:
    """Notes what the extents of one side of a reshape say of the other; whether that is news."""
    dims = work.instruction.array.dims
    sides = (work.operand(0), work.array(0).dims), (work.result, dims)
    news = [_from_side(work.extents, *sides[one], *sides[1 - one], samples) for one in (0, 1)]
    return any(news)


def _from_side(
    extents: Extents,
    axes: Axes,
    known_dims: Sequence[int],
    other: Axes,
    other_dims: Sequence[int],
    samples: int,
) -> bool:
    """Fixes the open extents of one side of a reshape if those of the other one are all known."""
    is_of_samples = [extents.counts_samples(extent) for extent in axes]
    unknowns = [n for n, extent in enumerate(other) if extents.counts_samples(extent) is None]
    if None in is_of_samples or not unknowns:
        return False
    if is_of_samples.count(True) > 1:
        raise NotInferable("a reshape of several axes that count samples")
    if not any(is_of_samples):
        _fix(extents, other, unknowns, None)
        return True
    before = math.prod(known_dims[: is_of_samples.index(True)])
    if any(extents.counts_samples(extent) for extent in other):
        _fix(extents, other, unknowns, None)
        return True
    places = [n for n in unknowns if _may_count(n, other_dims, before, samples)]
    if not places:
        raise NotInferable("a reshape has no place for the axis that counts samples")
    if len(places) > 1:
        return False
    _fix(extents, other, unknowns, places[0])
    return True


def _may_count(axis: int, dims: Sequence[int], before: int, samples: int) -> bool:
    """Returns whether an axis may hold the samples, with `before` elements before their axis."""
    first = math.prod(dims[:axis])
    return (
        dims[axis] % samples == 0
        and before % first == 0
        and ((dims[axis] // samples) % (before // first) == 0)
    )


def _fix(extents: Extents, axes: Axes, unknowns: Sequence[int], sample_axis: int | None) -> None:
    for number in unknowns:
        extents.fix(axes[number], counts_samples=number == sample_axis)


def live(computation: Computation) -> Iterator[Instruction]:
    """Yields the instructions that the result of a computation needs."""
    by_name, worklist, names = computation.by_name(), [computation.root], {computation.root}
    while worklist:
        instruction = by_name[worklist.pop()]
        yield instruction
        new = [name for name in instruction.operands if name not in names]
        names.update(new)
        worklist += dict.fromkeys(new)
