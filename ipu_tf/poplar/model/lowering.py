"""Lowers a graph of Poplar, with what ran of it, to a device program.

Reports list compute sets, copies and variables where they have the layers of a model.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ipu_tf.machine.superstep import Superstep
from ipu_tf.poplar.model.graph import PROGRAM, Counts, PoplarGraph, ProgramKind
from ipu_tf.poplar.model.machine import machine_of
from ipu_tf.poplar.model.memory import Memory
from ipu_tf.poplar.model.on_ipus import on_ipus
from ipu_tf.poplar.model.supersteps import SuperstepMaker, set_runs, slots_of
from ipu_tf.tile_program.device_program import DeviceProgram, on_all_ipus
from ipu_tf.tile_program.memory import tile_memory
from ipu_tf.tile_program.program import Step, TileProgram

NAME = "poplar"
"""The name of the program in reports."""

_HOST_COPIES = {
    ProgramKind.FROM_STREAM: "infeed",
    ProgramKind.TO_STREAM: "outfeed",
    ProgramKind.FROM_REMOTE: "copy-from-remote",
    ProgramKind.TO_REMOTE: "copy-to-remote",
    ProgramKind.PRINT: "print",
}

_COPIES = {
    ProgramKind.COPY: "copy",
    ProgramKind.CROSS_REPLICA_COPY: "cross-replica-copy",
}

_DECISIONS = {
    ProgramKind.REPEAT_WHILE: "test the condition",
    ProgramKind.IF: "choose a branch",
    ProgramKind.SWITCH: "choose a case",
    ProgramKind.ABORT_ON_CONDITION: "test the condition",
}

_NOT_RUN = (
    "Nothing has run yet: every program counts once, and so does a loop whose end depends on data."
)
_NOTE_ON_COUNTS = (
    "estimated from instructions: vertices whose estimate does not hold take the issue slots of a "
    "scalar build of their codelets, counted while they ran."
)

_ESTIMATES = (
    "vertices take the program's estimates, as on a model; set the engine's option "
    "debug.instrument to count their instructions."
)


def lower(graph: PoplarGraph, counts: Counts) -> DeviceProgram:
    """Returns the device program of all that ran, or of each program once if nothing did.

    Raises:
        NotModelledError: The target has no tiles, or no system has its IPUs.
    """
    machine = machine_of(graph.target)
    runs = _runs(graph, counts)
    supersteps = SuperstepMaker(graph, machine, slots_of(graph, counts, machine.target))
    numbers = [step for step in np.flatnonzero(runs).tolist() if _has_cost(graph, step)]
    steps = [_step(graph, step, _times(graph, runs, step), supersteps) for step in numbers]
    memory = Memory(graph, np.array(numbers, np.int64), supersteps.traffic_of, machine)
    tensors, program_bytes = memory.tensors(), memory.program_bytes()
    unsupported, notes = _without_cost(graph, supersteps, numbers), _notes(graph, counts)
    programs = []
    for ipu, ipu_steps in enumerate(on_ipus(steps, machine)):
        own_bytes = {kind: of.reshape(machine.ipus, -1)[ipu] for kind, of in program_bytes.items()}
        program = TileProgram(
            name=NAME,
            front="poplar",
            target=machine.target,
            steps=ipu_steps,
            tensors=tuple(tensors[ipu]),
            memory=tile_memory(
                tensors[ipu], steps=len(steps), target=machine.target, program_bytes=own_bytes
            ),
            unsupported=unsupported,
            notes=notes,
        )
        programs.append(program)
    return on_all_ipus(programs, system=machine.system.name, replicas=machine.replicas)


def step_cycles(graph: PoplarGraph, counts: Counts) -> NDArray[np.int64]:
    """Returns the cycles of one run of each step by itself, int64[steps].

    The tests of a loop count with its condition, which runs as often.

    Raises:
        NotModelledError: The target has no tiles, or no system has its IPUs.
    """
    machine = machine_of(graph.target)
    supersteps = SuperstepMaker(graph, machine, slots_of(graph, counts, machine.target))
    cycles = np.zeros(len(graph.steps.kind), np.int64)
    for number in range(len(cycles)):
        if _has_cost(graph, number):
            step = _step(graph, number, 1, supersteps)
            cycles[number + (graph.steps.kind[number] == ProgramKind.REPEAT_WHILE)] += step.cycles
    return cycles


def thread_cycles(graph: PoplarGraph, counts: Counts) -> float:
    """Returns the compute cycles of a tile, on average, if none of its workers were ever idle.

    Raises:
        NotModelledError: The target has no tiles, or no system has its IPUs.
    """
    machine = machine_of(graph.target)
    runs = _runs(graph, counts)
    times = set_runs(graph, runs)[graph.vertex_set]
    return float((times * slots_of(graph, counts, machine.target)).sum() / machine.tiles)


def _runs(graph: PoplarGraph, counts: Counts) -> NDArray[np.int64]:
    """Returns how often each step ran, or would run once if nothing did, int64[steps]."""
    return counts.runs if counts.runs.any() else static_runs(graph)


def static_runs(graph: PoplarGraph) -> NDArray[np.int64]:
    """Returns how often each step runs if each program runs once, as far as the graph says so."""
    steps = graph.steps
    runs = np.zeros(len(steps.kind), np.int64)
    kinds, counts, parents = steps.kind.tolist(), steps.count.tolist(), steps.parent.tolist()
    call_runs = np.zeros(len(runs), np.int64)
    in_function = _functions(parents)
    for functions in (False, True):  # Functions run when the programs that call them are known.
        order = range(len(runs)) if not functions else range(len(runs) - 1, -1, -1)
        for root in _roots(parents, order, in_function, functions):
            runs[root] = call_runs[root] if functions else 1
            for step in _tree(parents, root):
                if step != root:
                    parent = parents[step]
                    times = counts[parent] if kinds[parent] == ProgramKind.REPEAT else 1
                    runs[step] = runs[parent] * times
                if kinds[step] == ProgramKind.CALL:
                    call_runs[int(steps.id[step])] += runs[step]
    return runs


def _functions(parents: Sequence[int]) -> list[bool]:
    """Returns whether each step is of a function."""
    is_in_function: list[bool] = []
    for parent in parents:
        is_in_function.append(is_in_function[parent] if parent >= 0 else parent != PROGRAM)
    return is_in_function


def _roots(
    parents: Sequence[int], order: Sequence[int], in_function: Sequence[bool], functions: bool
) -> list[int]:
    return [step for step in order if parents[step] < 0 and in_function[step] == functions]


def _tree(parents: Sequence[int], root: int) -> range:
    """Returns a root and its steps, which follow it."""
    end = root + 1
    while end < len(parents) and parents[end] >= 0:
        end += 1
    return range(root, end)


def _has_cost(graph: PoplarGraph, step: int) -> bool:
    kind = ProgramKind(graph.steps.kind[step])
    return kind in (ProgramKind.EXECUTE, *_COPIES) or kind in _HOST_COPIES or kind in _DECISIONS


def _times(graph: PoplarGraph, runs: NDArray[np.int64], step: int) -> int:
    """Returns how often a step costs: a loop each time it tests, as often as its condition ran."""
    tests = graph.steps.kind[step] == ProgramKind.REPEAT_WHILE
    return int(runs[step + 1] if tests else runs[step])


def _step(graph: PoplarGraph, number: int, runs: int, supersteps: SuperstepMaker) -> Step:
    kind, of = ProgramKind(graph.steps.kind[number]), int(graph.steps.id[number])
    step_supersteps: tuple[Superstep, ...]
    if kind == ProgramKind.EXECUTE:
        name, opcode, step_supersteps = graph.sets[of], "execute", supersteps.execute(of)
    elif kind in _COPIES:
        copy_of = supersteps.copy if kind == ProgramKind.COPY else supersteps.replica_copy
        name, opcode, step_supersteps = _copy_name(graph, number), _COPIES[kind], copy_of(number)
    elif kind in _HOST_COPIES:
        opcode = _HOST_COPIES[kind]
        name, step_supersteps = _host_name(graph, kind, of, number), supersteps.host_copy(number)
    else:
        name, opcode = f"{_DECISIONS[kind]} {number}", "control"
        step_supersteps = supersteps.decision(_DECISIONS[kind])
    return Step(
        name=name.rpartition("/")[2] or opcode,
        opcode=opcode,
        layer=name,
        phase="forward",
        supersteps=step_supersteps,
        repeats=runs,
    )


def _copy_name(graph: PoplarGraph, number: int) -> str:
    """Returns the name of a copy by the variables it begins with."""
    move = int(graph.steps.first_move[number])
    ends = (graph.steps.source.address, graph.steps.target.address)
    if not graph.steps.moves[number]:
        return f"copy {number}"
    source, target = (graph.names[int(graph.variable_at(end[move]))] for end in ends)
    layer, slash, last = source.rpartition("/")
    return f"{layer}{slash}copy {last} to {target.rpartition('/')[2]}"


def _host_name(graph: PoplarGraph, kind: ProgramKind, of: int, number: int) -> str:
    if kind == ProgramKind.PRINT:
        return f"print {number}"
    is_stream = kind in (ProgramKind.FROM_STREAM, ProgramKind.TO_STREAM)
    return (graph.streams if is_stream else graph.remote_buffers)[of]


def _without_cost(
    graph: PoplarGraph, supersteps: SuperstepMaker, numbers: Sequence[int]
) -> dict[str, tuple[str, ...]]:
    """Returns codelets without estimate or count, with the compute sets that ran them."""
    ran = {int(graph.steps.id[n]) for n in numbers if graph.steps.kind[n] == ProgramKind.EXECUTE}
    unknown = (supersteps.slots == 0) & np.isin(graph.vertex_set, list(ran))
    sets_of_names: dict[str, tuple[str, ...]] = {}
    pairs = np.stack([graph.vertex_type[unknown], graph.vertex_set[unknown]], axis=1)
    for of, place in np.unique(pairs, axis=0).tolist():
        name = graph.types[of].name
        sets_of_names[name] = (*sets_of_names.get(name, ()), graph.sets[place])
    return sets_of_names


def _notes(graph: PoplarGraph, counts: Counts) -> tuple[str, ...]:
    notes = [] if counts.runs.any() else [_NOT_RUN]
    if counts.slots.any():
        notes.append(_NOTE_ON_COUNTS)
    elif graph.target["kind"] == "ipu" and graph.vertex_cycles.any():
        notes.append(_ESTIMATES)
    return tuple(notes)
