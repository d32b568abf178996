"""Graphs on several IPUs and replicas: links, syncs, memory counted by hand; their reports."""

import re

import numpy as np
import pytest

from ipu_tf.machine import exchange, host, links, sync
from ipu_tf.machine.system import system_of
from ipu_tf.poplar.model.graph import (
    PROGRAM,
    READ,
    WORKER,
    WRITTEN,
    Counts,
    PoplarGraph,
    ProgramKind,
)
from ipu_tf.poplar.model.lowering import lower, step_cycles, thread_cycles
from ipu_tf.poplar.model.overflow import overflow_text
from ipu_tf.poplar.model.summary import summary
from ipu_tf.profile.comparison.report_comparison import compare
from ipu_tf.profile.html.program_data import program_data
from ipu_tf.profile.report import Report
from ipu_tf.profile.traces.tracks import tracks
from ipu_tf.programs.program import Program
from ipu_tf.tile_program.tile_details import detailed
from tests.poplar.test_model import EXECUTE, TILES, lowered, records


def on(ipu, size, ipus=2):
    """The bytes of a variable on the second tile of an IPU."""
    held = [0] * (TILES * ipus)
    held[TILES * ipu + 1] = size
    return held


def crossing(size=400, **target):
    """A vertex of IPU 1 that reads so many bytes of IPU 0."""
    return lowered(
        variables=[("x", on(0, size), 0)],
        vertices=[(WORKER, 0, TILES + 2, 10)],
        edges=[(0, READ, [(0, size)])],
        steps=[EXECUTE],
        ipus=2,
        **target,
    )


def test_operands_of_another_ipu_come_over_links():
    program = crossing()
    system = system_of(program.target, 2)
    assert (len(program.stages), program.replica_ipus, program.in_step) == (2, 2, True)
    for stage in program.stages:
        (step,) = stage.program.steps
        over, compute = step.supersteps
        seconds = links.transfer_seconds(system, links.route(system, 0, 1), 400)
        assert over.exchange_cycles == exchange.phase_cycles(
            400, program.target, sent_bytes=400
        ) + round(seconds * program.target.clock_hz)
        assert over.sync_cycles == sync.cross_ipu_cycles(system, 2) > program.target.sync_cycles
        assert (over.name, compute.total_cycles) == ("global exchange", 60)
    sent, received = (one.program.steps[0].supersteps[0].tile_figures for one in program.stages)
    assert sent.sent_bytes.counts.tolist() == [0, 400, 0, 0]
    assert sent.received_bytes.total == received.sent_bytes.total == 0
    assert received.received_bytes.counts.tolist() == [0, 0, 400, 0]
    own = [one.program.steps[0].supersteps[1].busy_tile_cycles for one in program.stages]
    assert own == [0, 60]


def test_ipus_run_in_step():
    program = crossing()
    assert program.cycles == program.stages[0].program.cycles == program.stages[1].program.cycles
    assert program.timeline.busy_cycles == (program.cycles, program.cycles)
    waiting = program.stages[0].program.steps[0].supersteps[1].tile_figures.sync_wait_cycles
    assert waiting.counts.tolist() == [60] * TILES


def test_an_element_crosses_once_to_each_ipu():
    def link_cycles(tiles):
        program = lowered(
            variables=[("x", on(0, 4000, ipus=4), 0)],
            vertices=[(WORKER, 0, tile, 1) for tile in tiles],
            edges=[(n, READ, [(0, 4000)]) for n in range(len(tiles))],
            steps=[EXECUTE],
            ipus=4,
        )
        return program.steps[0].supersteps[0].exchange_cycles

    one = link_cycles([TILES])
    assert link_cycles([TILES, TILES + 1]) == one  # Both listen.
    assert link_cycles([TILES, 3 * TILES]) > one  # IPU 3 is farther away.


def test_results_for_another_ipu_leave_afterwards():
    program = lowered(
        variables=[("x", on(1, 8), 0)],
        vertices=[(WORKER, 0, 0, 1)],
        edges=[(0, WRITTEN, [(0, 8)])],
        steps=[EXECUTE],
        ipus=2,
    )
    names = [one.name for one in program.steps[0].supersteps]
    assert names == ["compute", "global exchange"]


def test_what_stays_on_its_ipu_costs_what_it_costs_on_one():
    graph = {
        "vertices": [(WORKER, 0, 2, 10)],
        "edges": [(0, READ, [(0, 400)])],
        "steps": [EXECUTE, (ProgramKind.COPY, 0, PROGRAM, 0, [(0, 400, 400)])],
    }
    variables = [("x", on(0, 400, ipus=1), 0), ("y", on(0, 400, ipus=1)[::-1], 0)]
    alone = lowered(variables=variables, **graph)
    both = [(name, [*held, *[0] * TILES], flags) for name, held, flags in variables]
    assert lowered(variables=both, ipus=2, **graph).cycles == alone.cycles


def test_a_copy_goes_over_links_where_its_ends_are_apart():
    program = lowered(
        variables=[("x", on(0, 80), 0), ("y", on(1, 80), 0)],
        steps=[(ProgramKind.COPY, 0, PROGRAM, 0, [(0, 80, 80)])],
        ipus=2,
    )
    assert [one.name for one in program.steps[0].supersteps] == ["global exchange"]


def test_data_of_the_host_lands_on_its_ipu():
    program = lowered(
        variables=[("x", on(1, 4000), 0)],
        steps=[(ProgramKind.FROM_STREAM, 0, PROGRAM, 0, [(0, 0, 4000)])],
        ipus=2,
    )
    transfer, rearranged = program.stages[1].program.steps[0].supersteps
    assert transfer.tile_figures.received_bytes.counts.tolist() == [1000] * TILES
    assert transfer.host_cycles == host.transfer_cycles(system_of(program.target, 2), 4000)
    assert rearranged.tile_figures.received_bytes.counts.tolist() == [0, 3000, 0, 0]
    (elsewhere, _) = program.stages[0].program.steps[0].supersteps
    assert (elsewhere.exchange_bytes, transfer.exchange_bytes) == (0, 4000)


def test_a_value_that_all_ipus_branch_on_goes_over_links():
    def choice(ipus):
        steps = [(ProgramKind.IF, 0, PROGRAM, 0, [])]
        return lowered(steps=steps, ipus=ipus).steps[0].supersteps[0]

    assert choice(2).sync_cycles > choice(1).sync_cycles
    assert choice(4).exchange_cycles > choice(2).exchange_cycles > choice(1).exchange_cycles
    assert choice(2).busy_tile_cycles == choice(1).busy_tile_cycles


def test_every_ipu_has_its_memory():
    program = lowered(
        variables=[("x", [100, 0, 0, 0, 0, 0, 0, 300], 4), ("y", on(1, 8), 0)],
        steps=[EXECUTE],
        ipus=2,
    )
    first, second = (ipu.memory.always_live["state"].tolist() for ipu in program.ipus)
    assert (first, second) == ([100, 0, 0, 0], [0, 8, 0, 300])
    names = [[tensor.name for tensor in one.program.tensors] for one in program.stages]
    assert names == [["x"], ["x", "y"]]
    assert [one.bytes for one in program.stages[1].program.tensors] == [300, 8]


def test_an_overflow_names_the_tile_among_those_of_all_ipus():
    program = lowered(variables=[("x", on(1, 9000), 4)], steps=[EXECUTE], tile_bytes=8000, ipus=2)
    assert overflow_text(program).startswith(f"Tile {TILES + 1} is out of memory: it needs ")
    assert "(tiles over the limit: 1)" in overflow_text(program)


def test_the_summary_has_all_ipus_and_the_time_of_links():
    graph = PoplarGraph.of(
        records(
            variables=[("x", on(0, 400), 0)],
            vertices=[(WORKER, 0, TILES + 2, 10)],
            edges=[(0, READ, [(0, 400)])],
            steps=[EXECUTE],
            ipus=2,
        )
    )
    counts = Counts(runs=np.array([1]))
    program = lower(graph, counts)
    text = summary(graph, program, busy_cycles=thread_cycles(graph, counts))
    rows = dict(re.findall(r"^ *([^:\n]*): +(.*)$", text, re.MULTILINE))
    over, _ = program.stages[0].program.steps[0].supersteps
    assert (rows["Number of IPUs"], rows["Total Tiles"]) == ("2", f"{2 * TILES}")
    assert rows["Total cycles"].startswith(f"{program.cycles:,} ")
    assert rows["Tile average global exchange cycles"].startswith(f"{over.exchange_cycles:,}.0 ")
    assert rows["Tile average IPU exchange cycles"].startswith("0.0 ")
    assert rows["Tile average compute cycles (including idle threads)"].startswith("7.5 ")
    assert step_cycles(graph, counts).tolist() == [program.cycles]


@pytest.mark.parametrize(("own", "expected"), [({"sync_cycles": 0}, 0), ({"sync_cycles": 7}, 7)])
def test_a_model_has_a_sync_of_its_own(own, expected):
    program = lowered(
        variables=[("x", [8, 0, 0, 0], 0)],
        vertices=[(WORKER, 0, 1, 1)],
        edges=[(0, READ, [(0, 8)])],
        steps=[EXECUTE],
        **own,
    )
    assert program.steps[0].supersteps[0].sync_cycles == expected


def test_a_model_has_a_sync_of_several_ipus_of_its_own():
    over = crossing(sync_cycles=7, link_sync_cycles=600).steps[0].supersteps[0]
    assert over.sync_cycles == 607


def test_replicas_share_the_host_and_copy_to_each_other_over_links():
    def replicated(replicas):
        return lowered(
            variables=[("x", [400, 0, 0, 0], 0), ("y", [0, 400, 0, 0], 0)],
            steps=[
                (ProgramKind.SEQUENCE, 0, PROGRAM, 0, []),
                (ProgramKind.FROM_STREAM, 0, 0, 0, [(0, 0, 400)]),
                (ProgramKind.CROSS_REPLICA_COPY, 0, 0, 0, [(0, 400, 400)]),
            ],
            replication_factor=replicas,
        )

    program = replicated(4)
    system = system_of(program.target, 4)
    assert (program.replicas, program.replica_ipus, program.system) == (4, 1, system.name)
    stream, copy = program.steps
    assert stream.supersteps[0].host_cycles == host.transfer_cycles(system, 1600, 4)
    assert copy.opcode == "cross-replica-copy"
    (over,) = copy.supersteps
    assert over.sync_cycles == sync.cross_ipu_cycles(system, 4)
    assert over.tile_figures.sent_bytes.counts.tolist() == [400, 0, 0, 0]
    assert over.tile_figures.received_bytes.counts.tolist() == [0, 400, 0, 0]
    seconds = links.transfer_seconds(system, links.route(system, 0, 1), 400)
    assert over.exchange_cycles > seconds * program.target.clock_hz


def reported(device):
    return Report(programs=(Program(name=device.name, device=detailed(device)),))


OTHERS = re.compile(r"keras|tensorflow|layer|batch|forward|strategy|tile ops|pipelin|stage", re.I)
"""Words that mean nothing in a report of a graph of Poplar."""


@pytest.mark.parametrize("tile_bytes", [64 * 1024, 600])
@pytest.mark.parametrize("ipus", [1, 2])
def test_reports_speak_of_graphs(ipus, tile_bytes, tmp_path):
    def made(size, **target):
        return reported(
            lowered(
                variables=[("x", on(0, size, ipus), 4), ("y", on(ipus - 1, 8, ipus), 1)],
                vertices=[(WORKER, 0, 0, 10), (WORKER, 1, 0, 0)],
                edges=[(0, READ, [(0, size)])],
                steps=[
                    EXECUTE,
                    (ProgramKind.EXECUTE, 1, PROGRAM, 0, []),
                    (ProgramKind.FROM_STREAM, 0, PROGRAM, 0, [(0, 0, size)]),
                    (ProgramKind.IF, 0, PROGRAM, 0, []),
                ],
                tile_bytes=tile_bytes,
                ipus=ipus,
                **target,
            )
        )

    report, other = made(400), made(800)
    report.to_json(tmp_path / "report.json")
    report = Report.from_json(tmp_path / "report.json")
    compared = compare(report, other)
    compared.to_html(tmp_path / "compared.html")
    slices = [piece for track in tracks(report.programs, None) for piece in track.slices]
    data = program_data(report.programs[0])
    shown = [data["verdict"], data["device"]["words"], data["device"]["texts"]]
    shown += [ipu["advice"] for ipu in data["device"]["ipus"]]
    texts = {
        "text": report.summary(),
        "comparison": str(compared),
        "trace": " ".join(piece.name + piece.category for piece in slices),
        "page": str(shown),
    }
    assert "run in step" in report.timeline()
    for where, text in texts.items():
        assert not OTHERS.search(text), (where, OTHERS.search(text))
    for ipu in range(ipus):
        if ipus > 1:
            assert f"IPU {ipu}: max" in texts["text"]
        assert [track.name for track in tracks(report.programs, None)][ipu] == f"IPU {ipu} (gc200)"
    assert ("OUT OF MEMORY" in texts["text"]) == (tile_bytes == 600)
