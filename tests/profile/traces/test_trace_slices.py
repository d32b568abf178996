"""The slices of a trace: they nest, follow each other, and last as long as the report says."""

import csv
import dataclasses

import pytest
from tensorflow.tsl.profiler.protobuf import xplane_pb2

from ipu_tf.base import spans
from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.machine.target import target
from ipu_tf.profile.figures.host_timeline import timeline_of
from ipu_tf.profile.report import Report
from ipu_tf.profile.traces.trace_slices import device_slices
from ipu_tf.profile.traces.tracks import tracks
from ipu_tf.programs.program import Program
from tests.compiler import modules
from tests.profile import programs

STAGES = {"sequential": 0, "sequential/dense": 1, "sequential/dense_1": 1}


def deployed(**options):
    wanted = Deployment(stage_of_layers=STAGES, **options)
    chip = CompilerOptions(target=target("bow", 64), out_of_memory="report")
    return compile_program(modules.text("cifar10"), chip, samples_per_run=4, deployment=wanted)


@pytest.fixture(
    scope="module",
    params=[
        {"micro_batches": 4, "replicas": 2, "recompute": True},
        {"micro_batches": 4, "schedule": "interleaved"},
        {"micro_batches": 2, "schedule": "sequential"},
        None,
    ],
    ids=["grouped", "interleaved", "sequential", "one IPU"],
)
def program(request):
    return programs.device_program() if request.param is None else deployed(**request.param)


def host_timeline():
    recorder = spans.Recorder()
    start = recorder.began_ns
    rows = ("execute", "execution", 5000, 90_000), ("a <b> \u00fc", "user", 6000, 7000)
    for name, category, begin, end in rows:
        recorder.ended(
            spans.Span(
                name=name,
                category=category,
                track="MainThread",
                begin_ns=start + begin,
                end_ns=start + end,
                program="net.train_step" if category == "execution" else "",
            )
        )
    return timeline_of(recorder)


def check_nesting(slices, times=lambda piece: (piece.begin, piece.end)):
    """Checks that slices nest and begin in order; returns their depths."""
    ends, last, depths = [], 0, []
    for piece in slices:
        begin, end = times(piece)
        assert last <= begin <= end
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or end <= ends[-1]
        ends.append(end)
        last = begin
        depths.append(len(ends) - 1)
    return depths


def test_slices_nest_and_a_run_lasts_its_cycles(program):
    found = device_slices(program)
    assert [*found] == [ipu.ipu for ipu in program.ipus]
    for slices in found.values():
        shown = [piece for piece in slices if piece.end > piece.begin]
        depths = check_nesting(shown)
        roots = [piece for piece, depth in zip(shown, depths, strict=True) if depth == 0]
        assert [root.end - root.begin for root in roots] == [program.cycles]
        assert all(piece.details["cycles"] == piece.end - piece.begin for piece in slices)


def test_passes_last_as_long_as_the_report_says(program):
    found = device_slices(program)
    for stage in program.stages:
        for category in ("forward", "backward"):
            cycles = [
                piece.end - piece.begin
                for piece in found[stage.ipu]
                if piece.category == category and piece.details["stage"] == stage.index
            ]
            expected = getattr(stage, f"{category}_cycles")
            assert cycles == ([expected] * program.micro_batches if expected else cycles)


def test_the_busy_time_and_links_of_an_ipu_are_those_of_the_timeline(program):
    found = device_slices(program)
    for ipu, busy in zip(program.ipus, program.timeline.busy_cycles, strict=True):
        passes = [p for p in found[ipu.ipu] if p.category in ("forward", "backward")]
        assert sum(piece.end - piece.begin for piece in passes) == busy
        whole = program.timeline.cycles
        links = [p for p in found[ipu.ipu] if p.name == "links" and p.end <= whole]
        assert sum(piece.end - piece.begin for piece in links) == program.timeline.link_cycles


def test_steps_fill_the_first_micro_batch(program):
    """Parts fill supersteps, supersteps steps, and steps with transfers the passes."""
    found = device_slices(program)
    for stage in program.stages:
        slices = found[stage.ipu]
        steps = {step.name: step.cycles for step in stage.program.steps}
        seen = [p for p in slices if p.category == "step" and p.name in steps]
        assert sum(p.details["cycles"] for p in seen) == sum(steps.values())
    for slices in found.values():
        for outer, inner in (
            ("superstep", {"sync", "exchange", "compute", "host"}),
            ("step", {"superstep"}),
            ("layer", {"step"}),
        ):
            whole = sum(p.details["cycles"] for p in slices if p.category == outer)
            assert sum(p.details["cycles"] for p in slices if p.category in inner) == whole


def test_slots_of_older_files_share_their_link_time():
    program = deployed(micro_batches=4)
    assert sum(program.timeline.slot_link_cycles) == program.timeline.link_cycles > 0
    older = dataclasses.replace(
        program, timeline=dataclasses.replace(program.timeline, slot_link_cycles=())
    )
    ends = [slices[-1].end for slices in device_slices(older).values()]
    assert max(ends) == program.cycles


def test_programs_begin_where_the_host_executes_them_one_after_another():
    one = Program(name="net.train_step", device=programs.device_program())
    device, host = tracks((Program(name="no device"), one, one), host_timeline())
    clock = one.device.target.clock_hz
    run_ps = round(one.device.cycles * 1e12 / clock)
    roots = [piece for piece in device.slices if piece.category == "run"]
    assert [root.begin for root in roots] == [5_000_000, 5_000_000 + run_ps]
    assert (device.name, host.name) == ("IPU 0 (gc200)", "MainThread")
    check_nesting(device.slices)


def test_a_profile_has_a_plane_for_each_ipu_and_the_host(program, tmp_path):
    report = Report(
        programs=(Program(name="net.train_step", device=program),), host=host_timeline()
    )
    path = report.to_xplane(tmp_path, run="first")
    assert path.parent == tmp_path / "plugins" / "profile" / "first"
    assert path.name.endswith(".xplane.pb")
    space = xplane_pb2.XSpace.FromString(path.read_bytes())
    ipus = [f"/device:CUSTOM:IPU:{ipu.ipu}" for ipu in program.ipus]
    assert [plane.name for plane in space.planes] == [*ipus, "/host:CPU"]
    for plane in space.planes:
        for line in plane.lines:
            assert line.timestamp_ns == report.host.began_unix_ns
            check_nesting(line.events, lambda e: (e.offset_ps, e.offset_ps + e.duration_ps))
            for event in line.events:
                assert plane.event_metadata[event.metadata_id].name
                assert all(plane.stat_metadata[stat.metadata_id].name for stat in event.stats)
    run = space.planes[0].lines[0].events[0]
    assert space.planes[0].event_metadata[run.metadata_id].name == program.name
    assert run.duration_ps == round(program.cycles * 1e12 / program.target.clock_hz)
    assert "a <b> \u00fc" in {e.name for e in space.planes[-1].event_metadata.values()}


def test_tables_add_up_to_the_report(program, tmp_path):
    report = Report(programs=(Program(name="p", device=program),), host=host_timeline())
    report.to_csv(tmp_path / "tables")
    rows = {
        path.stem: list(csv.DictReader(path.read_text("utf-8").splitlines()))
        for path in (tmp_path / "tables").iterdir()
    }
    assert {*rows} == {"programs", "layers", "steps", "memory", "tensors", "host"}
    assert [int(row["cycles"]) for row in rows["programs"]] == [program.cycles]
    assert sum(int(row["cycles"]) for row in rows["steps"]) == sum(
        step.cycles for step in program.steps
    )
    for kind in ("compute", "exchange", "sync", "host"):
        of_steps = sum(
            int(row[f"{kind}_cycles"]) * program.times[row["phase"]] for row in rows["steps"]
        )
        assert of_steps == int(rows["programs"][0][f"{kind}_cycles"])
    assert len(rows["tensors"]) == len(program.tensors)
    assert rows["host"][1]["name"] == "a <b> \u00fc"


def test_a_table_without_rows_has_no_file(tmp_path):
    (tmp_path / "host.csv").write_text("old")
    Report().to_csv(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_report_has_an_empty_trace(tmp_path):
    Report().to_perfetto(tmp_path / "a.pftrace")
    assert (tmp_path / "a.pftrace").read_bytes() == b""
    assert Report().to_xplane(tmp_path).read_bytes() == b""
