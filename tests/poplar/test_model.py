"""Graphs of a few tiles as device programs: cycles, traffic and memory counted by hand."""

import dataclasses
import io
import json
import socket
import struct
import subprocess
import sys

import numpy as np
import pytest

from ipu_tf.machine import exchange, host
from ipu_tf.machine.system import system_of
from ipu_tf.machine.target import CHIPS
from ipu_tf.poplar.model import pieces, summary
from ipu_tf.poplar.model.graph import (
    ALL_WORKERS,
    PROGRAM,
    READ,
    SUPERVISOR,
    WORKER,
    WRITTEN,
    Counts,
    PoplarGraph,
    ProgramKind,
)
from ipu_tf.poplar.model.lowering import lower, step_cycles, thread_cycles
from ipu_tf.poplar.model.machine import NotModelledError
from ipu_tf.poplar.model.overflow import overflow_text
from ipu_tf.poplar.model.workers import tile_cycles
from ipu_tf.profile import poplar_helper as helper

TILES = 4


def records(*, variables=(), vertices=(), edges=(), steps=(), tile_bytes=64 * 1024, **target):
    """The records of a graph.

    Args:
        variables: (name, [bytes on each tile], flags); they follow one another from address 0.
        vertices: (kind, compute set, tile, estimate).
        edges: (vertex, flags, [(address, bytes)]).
        steps: (kind, id, parent, count, [(from, to, bytes)]).
        tile_bytes: Bytes of a tile.
        target: Other numbers of the target.
    """

    def array(values, kind="<u4"):
        return np.array(list(values), kind).tobytes()

    sizes = [sum(held) for _, held, _ in variables]
    address = np.cumsum([0, *sizes])
    runs = [run for *_, found in edges for run in found]
    moves = [move for *_, found in steps for move in found]
    mapped = [
        (int(address[v] + sum(held[:tile])), size, tile)
        for v, (_, held, _) in enumerate(variables)
        for tile, size in enumerate(held)
        if size
    ]
    of_target = {
        "kind": "model",
        "version": "ipu2",
        "ipus": 1,
        "tiles_per_ipu": TILES,
        "workers": 6,
        "tile_bytes": tile_bytes,
        "exchange_bytes_per_cycle": 4,
        "clock_hz": 1.33e9,
    } | target
    types = [
        {"name": name, "kind": kind, "state_bytes": 16, "code_bytes": 100}
        for kind, name in enumerate(("Worker", "Workers", "Supervisor"))
    ]
    return {
        "target": json.dumps(of_target).encode(),
        "types": json.dumps(types).encode(),
        "sets": b'["first", "group/second"]',
        "streams": b'["in"]',
        "remote_buffers": b"[]",
        "variables.names": b"".join(name.encode() + b"\0" for name, *_ in variables),
        "variables.address": array(address[:-1], "<u8"),
        "variables.bytes": array(sizes, "<u8"),
        "variables.flags": array((flags for *_, flags in variables), np.uint8),
        "tiles.address": array((one[0] for one in mapped), "<u8"),
        "tiles.bytes": array((one[1] for one in mapped), "<u8"),
        "tiles.tile": array(one[2] for one in mapped),
        "vertices.type": array(one[0] for one in vertices),
        "vertices.set": array(one[1] for one in vertices),
        "vertices.tile": array(one[2] for one in vertices),
        "vertices.cycles": array((one[3] for one in vertices), "<u8"),
        "edges.vertex": array(one[0] for one in edges),
        "edges.flags": array((one[1] for one in edges), np.uint8),
        "edges.runs": array(len(one[2]) for one in edges),
        "runs.address": array((one[0] for one in runs), "<u8"),
        "runs.bytes": array((one[1] for one in runs), "<u8"),
        "steps.kind": array((one[0] for one in steps), np.uint8),
        "steps.id": array(one[1] for one in steps),
        "steps.parent": array((one[2] for one in steps), "<i4"),
        "steps.count": array((one[3] for one in steps), "<u8"),
        "steps.bytes": array((sum(move[2] for move in one[4]) for one in steps), "<u8"),
        "steps.moves": array(len(one[4]) for one in steps),
        "moves.from": array((one[0] for one in moves), "<u8"),
        "moves.to": array((one[1] for one in moves), "<u8"),
        "moves.bytes": array((one[2] for one in moves), "<u8"),
    }


def lowered(runs=None, slots=(), **graph):
    made = PoplarGraph.of(records(**graph))
    counts = np.zeros(len(made.steps.kind), np.int64) if runs is None else np.array(runs)
    return lower(made, Counts(runs=counts, slots=np.array(slots, np.int64)))


EXECUTE = (ProgramKind.EXECUTE, 0, PROGRAM, 0, [])


def test_a_tile_takes_six_times_the_slots_of_its_busiest_worker():
    vertices = [(WORKER, 0, 1, 10)] * 7 + [(WORKER, 0, 2, 33)]
    (step,) = lowered(vertices=vertices, steps=[EXECUTE]).steps
    assert (step.cycles, step.supersteps[0].busy_tile_cycles) == (33 * 6, 20 * 6 + 33 * 6)


def test_a_vertex_starts_on_the_worker_that_is_free_first():
    target = dataclasses.replace(CHIPS["gc200"], tiles=20, workers=2)
    for tiles in (1, 20):  # One by one, and side by side.
        tile = np.tile(np.arange(tiles), 4)
        slots = np.repeat([5, 1, 2, 4], tiles)
        cycles = tile_cycles(tile, np.zeros(len(tile), np.int64), slots, target, target.tiles)
        assert set(cycles[:tiles].tolist()) == {2 * 7}


def test_vertices_of_all_workers_and_of_the_supervisor_run_alone():
    vertices = [(ALL_WORKERS, 0, 0, 60), (SUPERVISOR, 0, 0, 7), (WORKER, 0, 0, 3)]
    (step,) = lowered(vertices=vertices, steps=[EXECUTE]).steps
    assert step.cycles == 60 + 7 + 3 * 6


def test_operands_of_a_tile_arrive_once():
    program = lowered(
        variables=[("x", [400, 0, 0, 0], 0)],
        vertices=[(WORKER, 0, 1, 1), (WORKER, 0, 1, 1), (WORKER, 0, 2, 1), (WORKER, 0, 0, 1)],
        edges=[
            (0, READ, [(0, 40)]),
            (1, READ, [(20, 40)]),
            (2, READ, [(0, 40)]),
            (3, READ, [(0, 400)]),
        ],
        steps=[EXECUTE],
    )
    (superstep,) = program.steps[0].supersteps
    figures = superstep.tile_figures
    assert figures.received_bytes.counts.tolist() == [0, 60, 40, 0]
    assert figures.sent_bytes.counts.tolist() == [60, 0, 0, 0]
    assert superstep.exchange_cycles == exchange.phase_cycles(60, program.target, sent_bytes=60)
    assert superstep.sync_cycles == program.target.sync_cycles


def test_results_for_other_tiles_go_there_afterwards():
    (step,) = lowered(
        variables=[("x", [0, 0, 0, 8], 0)],
        vertices=[(WORKER, 0, 0, 1)],
        edges=[(0, WRITTEN, [(0, 8)])],
        steps=[EXECUTE],
    ).steps
    before, after = step.supersteps
    assert (before.exchange_bytes, after.exchange_bytes) == (0, 8)


def test_an_operand_in_pieces_is_copied_only_where_it_does_not_arrive():
    def cycles(tile):
        (step,) = lowered(
            variables=[("x", [800, 0, 0, 0], 0)],
            vertices=[(WORKER, 0, tile, 1)],
            edges=[(0, READ, [(0, 40), (400, 40)])],
            steps=[EXECUTE],
        ).steps
        return step.supersteps[0].compute_cycles

    assert cycles(1) == 6
    assert cycles(0) > 6


def test_a_copy_moves_between_tiles_or_within_one():
    variables = [("group/x", [40, 40, 0, 0], 0), ("group/y", [40, 0, 40, 0], 0)]
    (step,) = lowered(
        variables=variables, steps=[(ProgramKind.COPY, 0, PROGRAM, 0, [(0, 80, 80)])]
    ).steps
    assert (step.layer, step.name) == ("group/copy x to y", "copy x to y")
    (superstep,) = step.supersteps
    assert superstep.exchange_bytes == 40
    figures = superstep.tile_figures
    assert figures.received_bytes.counts.tolist() == [0, 0, 40, 0]
    assert (figures.compute_cycles.counts > 0).tolist() == [True, False, False, False]


def test_data_of_the_host_lands_evenly_and_goes_to_its_tiles():
    program = lowered(
        variables=[("x", [0, 4000, 0, 0], 0)],
        steps=[(ProgramKind.FROM_STREAM, 0, PROGRAM, 0, [(0, 0, 4000)])],
    )
    transfer, rearranged = program.steps[0].supersteps
    assert transfer.tile_figures.received_bytes.counts.tolist() == [1000] * 4
    assert rearranged.tile_figures.received_bytes.counts.tolist() == [0, 3000, 0, 0]
    assert program.steps[0].name == "in"
    assert transfer.host_cycles == host.transfer_cycles(system_of(program.target), 4000)


def test_a_function_of_the_host_costs_the_copies_of_its_arguments():
    steps = [
        (ProgramKind.HOST_FUNCTION, 0, PROGRAM, 0, []),
        (ProgramKind.TO_STREAM, 1, 0, 0, [(0, 0, 4), (4, 64, 4)]),
        (ProgramKind.FROM_STREAM, 1, 0, 0, [(0, 0, 4)]),
    ]
    graph = records(variables=[("x", [8, 0, 0, 0], 0)], steps=steps) | {"streams": b'["in", "f"]'}
    program = lower(PoplarGraph.of(graph), Counts(runs=np.array([3, 3, 3])))
    called = [(step.name, step.opcode, step.repeats) for step in program.steps]
    assert called == [("f", "outfeed", 3), ("f", "infeed", 3)]


def test_steps_count_as_often_as_they_ran():
    steps = [
        (ProgramKind.SEQUENCE, 0, PROGRAM, 0, []),
        (ProgramKind.REPEAT_WHILE, 0, 0, 1, []),
        (ProgramKind.SEQUENCE, 0, 1, 0, []),
        (ProgramKind.EXECUTE, 0, 1, 0, []),
        (ProgramKind.IF, 0, 0, 0, []),
        (ProgramKind.EXECUTE, 1, 4, 0, []),
    ]
    vertices = [(WORKER, 0, 0, 10), (WORKER, 1, 0, 10)]
    program = lowered(vertices=vertices, steps=steps, runs=[1, 1, 8, 7, 1, 0])
    assert [(step.name, step.repeats) for step in program.steps] == [
        ("test the condition 1", 8),
        ("first", 7),
        ("choose a branch 4", 1),
    ]


def test_one_run_of_each_step_has_cycles_of_its_own():
    steps = [
        (ProgramKind.REPEAT_WHILE, 0, PROGRAM, 1, []),
        (ProgramKind.EXECUTE, 0, 0, 0, []),
        (ProgramKind.EXECUTE, 1, 0, 0, []),
    ]
    graph = PoplarGraph.of(records(vertices=[(WORKER, 0, 0, 10), (WORKER, 1, 0, 20)], steps=steps))
    none, condition, body = step_cycles(graph, Counts(runs=np.array([1, 5, 4]))).tolist()
    assert (none, body) == (0, 120)
    assert condition > 60


def test_before_a_run_programs_functions_and_repeats_count_once():
    steps = [
        (ProgramKind.EXECUTE, 1, -1, 0, []),  # A function.
        (ProgramKind.SEQUENCE, 0, PROGRAM, 0, []),
        (ProgramKind.REPEAT, 0, 1, 5, []),
        (ProgramKind.SEQUENCE, 0, 2, 0, []),
        (ProgramKind.EXECUTE, 0, 3, 0, []),
        (ProgramKind.CALL, 0, 3, 0, []),
    ]
    program = lowered(vertices=[(WORKER, 0, 0, 10), (WORKER, 1, 0, 10)], steps=steps)
    assert [(step.layer, step.name, step.repeats) for step in program.steps] == [
        ("group/second", "second", 5),
        ("first", "first", 5),
    ]
    assert "Nothing has run yet" in program.notes[0]


def test_counted_instructions_stand_where_there_is_no_estimate():
    vertices = [(WORKER, 0, 0, 10), (WORKER, 0, 1, 0), (ALL_WORKERS, 0, 2, 0)]
    program = lowered(vertices=vertices, steps=[EXECUTE], runs=[3], slots=[0, 41, 9])
    figures = program.steps[0].supersteps[0].tile_figures
    assert figures.compute_cycles.counts.tolist() == [60, 14 * 6, 3 * 6, 0]
    assert program.notes[0].startswith("estimated from instructions")


def test_codelets_without_cycles_are_named():
    program = lowered(vertices=[(WORKER, 0, 0, 0)], steps=[EXECUTE])
    assert program.unsupported == {"Worker": ("first",)}


def test_memory_has_variables_state_code_buffers_and_stacks():
    program = lowered(
        variables=[("kept", [100, 0, 0, 0], 4), ("temporary", [0, 200, 0, 0], 0)],
        vertices=[(WORKER, 0, 1, 1), (WORKER, 1, 1, 1)],
        edges=[(0, READ, [(0, 100)]), (0, WRITTEN, [(100, 200)]), (1, READ, [(100, 200)])],
        steps=[
            (ProgramKind.SEQUENCE, 0, PROGRAM, 0, []),
            *((ProgramKind.EXECUTE, n, 0, 0, []) for n in (0, 1)),
        ],
    )
    memory = program.memory
    assert memory.always_live["state"].tolist() == [100, 0, 0, 0]
    assert memory.not_always_live_peak["scratch"].tolist() == [0, 200, 0, 0]
    assert memory.not_always_live_peak["exchange_buffers"].tolist() == [0, 100, 0, 0]
    assert memory.always_live["vertex_state"].tolist() == [0, 32, 0, 0]
    assert memory.always_live["vertex_code"].tolist() == [0, 100, 0, 0]
    assert memory.always_live["stack"].tolist() == [3168] * TILES


@pytest.mark.parametrize(
    ("edges", "in_loop", "lives"),
    [
        ([(0, WRITTEN, [(0, 8)]), (1, READ, [(0, 8)])], False, (0, 1)),
        ([(0, WRITTEN, [(0, 4)]), (1, READ, [(0, 8)])], False, None),  # Not written in full.
        ([(0, READ, [(0, 8)]), (1, WRITTEN, [(0, 8)])], False, None),
        ([(1, WRITTEN, [(0, 8)])], True, (0, 1)),  # Lives through the loop.
    ],
)
def test_a_variable_lives_from_its_first_write_to_its_last_use(edges, in_loop, lives):
    steps = [
        (ProgramKind.REPEAT if in_loop else ProgramKind.SEQUENCE, 0, PROGRAM, 3, []),
        (ProgramKind.SEQUENCE, 0, 0, 0, []),
        *((ProgramKind.EXECUTE, n, 1, 0, []) for n in (0, 1)),
    ]
    program = lowered(
        variables=[("x", [8, 0, 0, 0], 0)],
        vertices=[(WORKER, 0, 0, 1), (WORKER, 1, 0, 1)],
        edges=edges,
        steps=steps,
    )
    (tensor,) = program.tensors
    assert tensor.always_live is (lives is None)
    if lives is not None:
        assert (tensor.first_step, tensor.last_step) == lives


def test_an_uneven_tensor_has_few_footprints(monkeypatch):
    monkeypatch.setattr("ipu_tf.poplar.model.memory._RUNS", 2)
    program = lowered(variables=[("x", [8, 16, 24, 4], 0)], steps=[EXECUTE])
    assert [tensor.footprint.tile_bytes for tensor in program.tensors] == [16, 24]


def test_a_program_that_does_not_fit_names_the_tile_and_what_fills_it():
    program = lowered(variables=[("large", [0, 9000, 0, 0], 0)], steps=[EXECUTE], tile_bytes=8000)
    words = overflow_text(program)
    assert words.startswith(
        "Tile 1 is out of memory: it needs 12,168 bytes of 8,000 while it runs 'first' (tiles over "
        "the limit: 1). The largest there:\n"
    )
    assert "\n  9,000 bytes: state 'large'\n" in words
    assert overflow_text(lowered(variables=[("x", [8, 0, 0, 0], 0)], steps=[EXECUTE])) == ""


def test_the_summary_has_target_graph_memory_and_execution():
    program = lowered(vertices=[(WORKER, 0, 0, 10)], steps=[EXECUTE], runs=[2])
    graph = PoplarGraph.of(records(vertices=[(WORKER, 0, 0, 10)], steps=[EXECUTE]))
    text = summary.summary(
        graph, program, busy_cycles=thread_cycles(graph, Counts(runs=np.array([2]))), steps=True
    )
    for line in ("Target:", "Graph:", "Memory Usage:", "Execution:", "Steps:"):
        assert f"{line}\n" in text
    assert "Tile average compute cycles (including idle threads): 30.0 (25.0% of total)" in text
    assert "Tile average compute cycles (excluding idle threads): 5.0 (4.2% of total)" in text
    assert "first (execute, 2 times):" in text


def test_equal_pieces_count_once_and_neighbours_are_one_message():
    transfers = pieces.Transfers(
        source=np.array([0, 0, 0, 1]),
        destination=np.array([2, 2, 2, 2]),
        address=np.array([0, 4, 0, 8]),
        bytes=np.array([4, 4, 4, 4]),
    )
    found = pieces.exchange(transfers, TILES)
    assert found.received.tolist() == [0, 0, 12, 0]
    assert found.messages_in.tolist() == [0, 0, 2, 0]
    assert found.sent.tolist() == [8, 4, 0, 0]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ({"kind": "cpu"}, "A CPU target has no tiles"),
        ({"ipus": 5000}, "No system has 8192 gc200 IPUs"),
    ],
)
def test_targets_without_a_model_are_refused(target, words):
    with pytest.raises(NotModelledError, match=words):
        lowered(steps=[EXECUTE], **target)


def request(name, content):
    parts = [struct.pack("<I", len(name)), name.encode(), struct.pack("<I", len(content))]
    for key, value in content.items():
        parts += [struct.pack("<I", len(key)), key.encode(), struct.pack("<Q", len(value)), value]
    return b"".join(parts)


class Pipe(io.BytesIO):
    """Reads requests, and keeps what is written."""

    def __init__(self, content):
        super().__init__(content)
        self.written = b""

    def write(self, content):
        self.written += content


def test_the_helper_answers_requests_and_names_what_fails(tmp_path):
    graph = records(vertices=[(WORKER, 0, 0, 10)], steps=[EXECUTE])
    counts = {"counts.runs": np.array([1], "<u8").tobytes(), "id": b"1"}
    (tmp_path / "file").touch()
    pipe = Pipe(
        request("graph", graph | {"id": b"1"})
        + request("overflow", counts)
        + request("summary", counts | {"options": b""})
        + request("write", counts | {"folder": str(tmp_path / "file").encode()})
        + request("no such", counts)
    )
    helper.serve(helper.Session(), pipe)
    answers, rest = [], pipe.written
    while rest:
        failed, size = struct.unpack("<BQ", rest[:9])
        answers.append((failed, rest[9 : 9 + size].decode()))
        rest = rest[9 + size :]
    assert answers[:2] == [(0, ""), (0, "")]
    assert answers[2][0] == 0
    assert "Execution:" in answers[2][1]
    assert answers[3] == (1, f"Cannot write {tmp_path / 'file'}: File exists.")
    assert answers[4][0] == 1
    assert "The model of cycles and memory failed" in answers[4][1]


def test_the_helper_ends_with_its_program(monkeypatch):
    ours, theirs = socket.socketpair()
    ours.sendall(request("overflow", {"id": b"1"})[:-1])
    ours.close()
    sockets = socket.socket
    end = theirs.detach()
    monkeypatch.setattr(helper.socket, "socket", lambda fileno: sockets(fileno=end))
    helper.main()


@pytest.mark.slow
def test_the_helper_needs_no_tensorflow():
    rooms = "ipu_tf.profile.poplar_helper, ipu_tf.profile.report"
    code = f"import sys, {rooms}; print('tensorflow' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_a_million_edges_lower_in_array_operations():
    """The work in Python does not grow with the edges: a profile of calls would show it."""
    count = 20_000
    graph = records(
        variables=[("x", [4 * count] * TILES, 0)],
        vertices=[(WORKER, 0, n % TILES, 1) for n in range(count)],
        edges=[(n, READ, [(4 * n, 4)]) for n in range(count)],
        steps=[EXECUTE],
    )
    made = PoplarGraph.of(graph)
    calls = 0

    def count_calls(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_calls)
    try:
        lower(made, Counts(runs=np.array([1])))
    finally:
        sys.setprofile(None)
    assert calls < count / 4
