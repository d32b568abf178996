"""Attributes every instruction to a layer and to a phase of the step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Computation, Instruction, Module
from ipu_tf.compiler.passes.rewrite import programs, with_instructions
from ipu_tf.tile_program.phase import Phase

_BACKWARD_SCOPES = frozenset({"gradient_tape", "gradients"})
_BOUNDARY_SCOPES = frozenset({"", "XLA_Args", "XLA_Retvals"})
"""Names of instructions that XLA adds around a function: they belong to nothing."""

_TIMELESS = frozenset({"constant", "broadcast", "iota"})
"""Opcodes that any phase of a step may have been the first to need."""

_UPDATED_ROLES = frozenset({"weight", "optimizer_state"})


def run(module: Module) -> Module:
    """Returns the module with `phase` and `layer` of every instruction.

    update: instructions that only new values of weights and of the optimizer's state need, except
    gradients; their layer is that of the weight. backward: instructions that TensorFlow made as a
    gradient, or that read nothing but gradients. forward: all others. An instruction without its
    own op follows its readers, then its operands; so do sums of gradients, which TensorFlow makes
    outside of all layers, and tests of a gradient by the update (whether it is finite). The
    instructions of a loop or branch follow its caller. Accumulators belong to the backward pass.
    """
    computations = {**module.computations, module.entry: _with_accumulators(module)}
    # A caller comes before its callees, which inherit from it.
    callers: dict[str, Instruction] = {}
    update_layers: dict[str, dict[int, str]] = {module.entry: _updated_results(module)}
    for name in programs(module):
        computation = _attributed(
            computations[name], callers.get(name), update_layers.get(name, {})
        )
        computations[name] = computation
        read_by = computation.users
        for instruction in computation:
            for callee in instruction.computations:
                callers.setdefault(callee, instruction)
                if instruction.phase == "update":
                    update_layers.setdefault(callee, _parts(read_by[instruction.name]))
    return module.replace(computations=computations)


def _with_accumulators(module: Module) -> Computation:
    """Returns the entry with its sums of gradients attributed; their terms follow."""
    entry = module.entry_computation
    if all(parameter.role != "accumulator" for parameter in module.parameters):
        return entry

    def attributed(instruction: Instruction) -> Instruction:
        if instruction.opcode != "parameter":
            return instruction
        parameter = module.parameters[instruction.attributes["parameter_number"]]
        if parameter.role != "accumulator":
            return instruction
        return instruction.replace(phase="backward", layer=parameter.layer)

    return with_instructions(entry, [attributed(instruction) for instruction in entry])


def _updated_results(module: Module) -> dict[int, str]:
    """Returns the layers of the entry's results that become weights or optimizer states."""
    return {
        parameter.updated_by: parameter.layer
        for parameter in module.parameters
        if parameter.updated_by is not None and parameter.role in _UPDATED_ROLES
    }


def _parts(readers: Sequence[Instruction]) -> dict[int, str]:
    """Returns the layers of the parts of a tuple, by its `get-tuple-element`s."""
    return {
        reader.attributes["tuple_index"]: reader.layer
        for reader in readers
        if reader.opcode == "get-tuple-element" and reader.layer
    }


def _attributed(
    computation: Computation, caller: Instruction | None, update_layers: Mapping[int, str]
) -> Computation:
    """Returns a computation with phases and layers.

    Args:
        computation: The computation.
        caller: The instruction that calls it; None for the entry.
        update_layers: Layers of the parts of its result that become weights or optimizer states.
    """
    read_by = computation.users
    root = computation.by_name()[computation.root]
    results = root.operands if root.opcode == "tuple" else ()
    updates = {
        results[index]: layer for index, layer in update_layers.items() if index < len(results)
    }
    kept_results = frozenset(results) - set(updates)
    by_name: dict[str, Instruction] = {}
    for instruction in reversed(computation.instructions):
        readers = [by_name[user.name] for user in read_by[instruction.name] if user is not root]
        is_update = bool(updates) and instruction.name not in kept_results
        by_name[instruction.name] = _from_readers(instruction, readers, caller, updates, is_update)
    for instruction in computation:
        operands = [by_name[name] for name in instruction.operands]
        by_name[instruction.name] = _from_operands(by_name[instruction.name], operands, caller)
    return with_instructions(computation, [by_name[i.name] for i in computation])


def _from_operands(
    instruction: Instruction, operands: Sequence[Instruction], caller: Instruction | None
) -> Instruction:
    """Returns an instruction, attributed by its operands."""
    phase, layer = instruction.phase, instruction.layer
    sources = [operand for operand in operands if operand.opcode not in _TIMELESS]
    if phase == "forward" and sources and all(i.phase == "backward" for i in sources):
        phase = "backward"
    is_known = _has_op(instruction)
    if not layer and (phase != "forward" or not is_known):
        if phase == "update" and is_known:  # A test of a gradient, such as whether it is finite.
            operands = [operand for operand in sources if operand.opcode != "parameter"]
        layers = dict.fromkeys(operand.layer for operand in operands if operand.layer)
        if len(layers) == 1 or (layers and phase == "backward"):
            layer = next(iter(layers))
        elif caller is not None and not is_known:
            layer = caller.layer
    if phase == instruction.phase and layer == instruction.layer:
        return instruction
    return instruction.replace(phase=phase, layer=layer)


def _from_readers(
    instruction: Instruction,
    readers: Sequence[Instruction],
    caller: Instruction | None,
    updates: Mapping[str, str],
    is_update: bool,
) -> Instruction:
    """Returns an instruction, attributed by its name, its caller and its readers."""
    phases: set[Phase] = {reader.phase for reader in readers}
    layers = {reader.layer for reader in readers}
    if instruction.name in updates:
        layers.add(updates[instruction.name])
        phases.add("update")
    layers.discard("")
    # An earlier attribution stands: a fusion may have absorbed its evidence since.
    phase, layer = instruction.phase, instruction.layer
    if phase == "forward":
        phase = _phase(instruction, phases, caller, is_update)
    follows = phase == "update" or (not _has_op(instruction) and not layer)
    if follows and len(layers) == 1:
        layer = layers.pop()
    if phase == instruction.phase and layer == instruction.layer:
        return instruction
    return instruction.replace(phase=phase, layer=layer)


def _phase(
    instruction: Instruction, readers: set[Phase], caller: Instruction | None, is_update: bool
) -> Phase:
    if caller is not None and caller.phase != "forward":
        return caller.phase
    if not _BACKWARD_SCOPES.isdisjoint(instruction.op_name.split("/")):
        return "backward"
    if is_update and readers == {"update"} and instruction.opcode != "parameter":
        return "update"
    if is_update and "update" in readers and instruction.opcode == "conditional":
        return "update"  # Its other results are made no earlier than the weights.
    if not _has_op(instruction) and len(readers) == 1:
        return next(iter(readers))
    return "forward"


def _has_op(instruction: Instruction) -> bool:
    """Whether an instruction comes from an op of the traced function."""
    return instruction.op_name not in _BOUNDARY_SCOPES
