"""Sweeps: every point is the estimate of it; results are kept, resumed, drawn and written."""

import csv
import dataclasses
import io
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

import ipu_tf
from ipu_tf import IPUConfig
from ipu_tf.machine import target
from ipu_tf.sweep import (
    Estimate,
    Outcome,
    Point,
    Streaming,
    SweepFileError,
    SweepResult,
    sweep_page,
)
from ipu_tf.sweep.progress import Lines, progress_on
from ipu_tf.sweep.space import Space
from ipu_tf.sweep.store import Store
from tests.profile.html.pages import data
from tests.sweep import sweep_models
from tests.sweep.sweep_models import dense

MODEL = "tests.sweep.sweep_models:dense"
SMALL, SLOWER = target("bow", tiles_per_ipu=16), target("gc200", tiles_per_ipu=16)


@pytest.fixture(scope="module")
def found():
    return ipu_tf.sweep(
        dense,
        chip=[SMALL, SLOWER],
        batch_size=[4, 8],
        precision=["float32", "mixed_float16"],
        processes=1,
    )


def at(found, **labels):
    (estimate,) = (
        each for each in found.estimates if labels.items() <= each.point.labels().items()
    )
    return estimate.outcome


def test_every_combination_is_a_point_once():
    space = Space(chip=["bow", "gc200", "bow"], batch_size=[1, 2], replicas=[1, 2, 4])
    points = list(space.points())
    assert len(points) == 2 * 2 * 3
    assert len({point.key for point in points}) == len(points)
    assert (points[0].chip, points[1].replicas) == ("bow", 2)


@pytest.mark.slow
def test_outcomes_are_those_of_estimates(found):
    config = IPUConfig()
    config.simulator.chip = SMALL
    device = ipu_tf.estimate(dense, batch_size=8, config=config).programs[0].device
    outcome = at(found, chip="bow", batch_size=8, precision="float32")
    assert outcome.cycles == device.cycles
    assert outcome.samples_per_second == device.samples_per_second
    assert outcome.memory_bytes == device.memory.peak_tile_bytes.sum()
    assert outcome.max_tile_bytes == device.memory.peak_tile_bytes.max()
    assert outcome.fits
    assert outcome.joules_per_sample > 0


@pytest.mark.slow
def test_precisions_change_the_estimate_and_nothing_else(found):
    import keras

    narrow = at(found, chip="bow", batch_size=8, precision="mixed_float16")
    wide = at(found, chip="bow", batch_size=8, precision="float32")
    assert narrow.joules_per_sample < wide.joules_per_sample
    assert keras.config.dtype_policy().name == "float32"


@pytest.mark.slow
def test_the_front_is_what_nothing_beats(found):
    front = found.front
    assert front
    for one in front:
        assert not any(
            other.outcome.fits
            and other.outcome.memory_bytes <= one.outcome.memory_bytes
            and other.outcome.samples_per_second > one.outcome.samples_per_second
            for other in found.estimates
        )
    rates = [each.outcome.samples_per_second for each in front]
    assert rates == sorted(rates)


def made(memory, rate, fits=True, error=""):
    outcome = Outcome(memory_bytes=memory, samples_per_second=rate, fits=fits, error=error)
    return Estimate(point=Point(batch_size=memory), outcome=outcome)


def test_the_front_by_hand():
    estimates = (
        made(1, 10),
        made(2, 9),
        made(3, 30),
        made(3, 20),
        made(4, 50, fits=False),
        made(5, None),
        made(6, 0, fits=False, error="no"),
        made(7, 31),
    )
    result = SweepResult(model="m:f", training=True, estimates=estimates)
    assert [each.outcome.memory_bytes for each in result.front] == [1, 3, 7]


@pytest.mark.slow
def test_memories_replicas_and_accumulation():
    found = ipu_tf.sweep(
        dense,
        chip=[SMALL],
        tile_kib=[None, 4],
        batch_size=[4],
        replicas=[1, 2],
        accumulation=[1, 4],
        processes=1,
    )
    assert not any(each.outcome.error for each in found.estimates)
    assert at(found, tile_kib=4, replicas=1, accumulation=1).tile_bytes == 4096
    assert not at(found, tile_kib=4, replicas=1, accumulation=1).fits
    one = at(found, tile_kib="", replicas=1, accumulation=1)
    two = at(found, tile_kib="", replicas=2, accumulation=1)
    assert two.memory_bytes > 1.5 * one.memory_bytes
    assert at(found, tile_kib="", replicas=1, accumulation=4).cycles > 2 * one.cycles


@pytest.mark.slow
def test_stages_and_streaming_memory():
    found = ipu_tf.sweep(
        dense,
        chip=["bow"],
        streaming=[None, Streaming(gib=96, gb_per_second=3000, name="HBM3")],
        batch_size=[4],
        stages=[1, 2],
        accumulation=[8],
        offload=[True, False],
        processes=1,
    )
    assert [each.outcome.error for each in found.estimates] == [""] * 8
    slow = at(found, streaming="", stages=2, offload=True)
    fast = at(found, streaming="HBM3", stages=2, offload=True)
    assert fast.cycles <= slow.cycles
    assert at(found, streaming="", stages=2, offload=False).cycles <= slow.cycles


def test_a_point_that_fails_has_its_reason():
    found = ipu_tf.sweep(sweep_models.broken, processes=1)
    (estimate,) = found.estimates
    assert estimate.outcome.error == "RuntimeError: no model today"
    assert estimate.outcome.verdict == "failed"
    assert "1 failed: RuntimeError: no model today" in str(found)
    chip = ipu_tf.sweep(dense, chip=["tests.sweep.sweep_models:nothing"], processes=1)
    assert "has no target or system 'nothing'" in chip.estimates[0].outcome.error


@pytest.mark.slow
def test_the_table_and_files(found, tmp_path):
    text = str(found)
    assert text.startswith("8 estimates of training steps of tests.sweep.sweep_models:dense")
    assert all(word in text for word in ("chip", "batch", "precision", "samples/s", "energy"))
    assert "device" in text.splitlines()[4]  # The rate is that of the device alone.
    assert "replicas" not in text
    assert text.count("on the front") == len(found.front)
    found.to_csv(tmp_path / "sweep.csv")
    rows = list(csv.DictReader((tmp_path / "sweep.csv").read_text().splitlines()))
    assert len(rows) == 8
    assert sum(row["on_front"] == "True" for row in rows) == len(found.front)
    outcome = at(found, chip="gc200", batch_size=4, precision="float32")
    (row,) = (
        row
        for row in rows
        if (row["chip"], row["batch_size"], row["precision"]) == ("gc200", "4", "float32")
    )
    assert int(row["cycles"]) == outcome.cycles
    found.to_html(tmp_path / "sweep.html")
    (section,) = data((tmp_path / "sweep.html").read_text())["sections"]
    *chips, front = section["charts"][0]["option"]["series"]
    assert sum(len(series["data"]) for series in chips) == 8
    assert len({series["symbol"] for series in chips}) == len(chips)
    assert [dot["value"] for dot in front["data"]] == [
        [
            pytest.approx(each.outcome.memory_bytes / 2**20, rel=1e-3),
            pytest.approx(each.outcome.samples_per_second, rel=1e-6),
        ]
        for each in found.front
    ]
    assert len(section["tables"][0]["rows"]) == 8


def test_the_page_shows_every_estimate_and_writes_memory_in_binary_units():
    outcome = Outcome(memory_bytes=3 << 20, samples_per_second=10.0, tile_bytes=624 << 10)
    at_one_place = [
        Estimate(point=Point(batch_size=samples), outcome=dataclasses.replace(outcome, fits=fits))
        for fits in (True, False)
        for samples in range(1, 7)
    ]
    result = SweepResult(model="m:f", training=True, estimates=tuple(at_one_place))
    chart, table = sweep_page._chart(result.estimates), sweep_page._table(result.estimates)
    dots, rings, front = chart.option["series"]
    names = "; ".join(f"batch size {samples}" for samples in (1, 2, 3, 4))
    assert dots["data"] == rings["data"] == [{"name": f"{names}; and 2 more", "value": [3.0, 10.0]}]
    assert dots["symbolSize"] < rings["symbolSize"] < front["symbolSize"]
    assert dots["z"] > rings["z"] > 2  # Lines are at 2.
    assert chart.units == {"x": "MiB"}
    units = dict(table.units)
    assert {units[name] for name in ("tiles in all", "fullest tile", "memory of a tile")} == {
        "memory"
    }
    assert "3.0 MiB" in str(result)


def test_results_are_kept_and_not_estimated_again(tmp_path, capsys):
    path = tmp_path / "results.jsonl"
    first = ipu_tf.sweep(dense, chip=[SMALL], batch_size=[2, 4], results=path, processes=1)
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == 3
    # Killed while it wrote the last line.
    path.write_bytes(b"".join(lines[:2]) + lines[2][:40])
    told = Lines(sys.stdout)
    again = ipu_tf.sweep(
        dense, chip=[SMALL], batch_size=[2, 4], results=path, processes=1, progress=told
    )
    assert again == first
    out = capsys.readouterr().out.splitlines()
    assert out[0] == "2 points, 1 known from an earlier run"
    assert len(out) == 2
    assert out[1].startswith("2 of 2, about 0 s left: fits, chip bow, batch_size 4")
    assert path.read_bytes() == b"".join(lines)


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self):
        return True


@pytest.mark.slow
def test_a_terminal_shows_a_bar_with_the_time_left():
    terminal = Terminal()
    ipu_tf.sweep(
        dense, chip=[SMALL], batch_size=[2, 4], processes=1, progress=progress_on(terminal)
    )
    drawn = terminal.getvalue()
    assert "estimates" in drawn
    assert "2/2" in drawn
    assert "time left" in drawn
    assert isinstance(progress_on(io.StringIO()), Lines)


def test_failed_points_are_tried_again(tmp_path):
    path = tmp_path / "results.jsonl"
    point = Point(chip=SMALL, batch_size=2)
    head = {"model": MODEL, "training": True, "release": ipu_tf.__version__}
    with Store(path, head) as store:
        store.add(point, Outcome(error="out of memory"))
    found = ipu_tf.sweep(dense, chip=[SMALL], batch_size=[2], results=path, processes=1)
    assert found.estimates[0].outcome.fits


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"hello\n", "holds no sweep. Give another file"),
        (b'{"mine": 1}', "holds no sweep"),
        (b"{", "holds no sweep"),
        (b"\x89HDF\r\n\x1a\n" + bytes(900), "holds no sweep"),
        (b"[" * 100_000, "holds no sweep"),
        (b"x" * 100_000 + b"\nlines\nthat", "holds no sweep"),
        (b'{"format": "ipu_tf sweep"}', "holds another sweep"),
        (b'{"format": "ipu_tf sweep"}\n', "holds another sweep: version None instead of 1, model"),
    ],
)
def test_files_of_something_else(tmp_path, content, message):
    path = tmp_path / "results.jsonl"
    path.write_bytes(content)
    with pytest.raises(SweepFileError, match=message):
        ipu_tf.sweep(dense, chip=[SMALL], results=path, processes=1)
    assert path.read_bytes() == content


@pytest.mark.parametrize("kept", [0, 30, -1])
def test_a_head_that_was_being_written_is_written_again(tmp_path, kept):
    path = tmp_path / "results.jsonl"
    head = {"model": "m:f"}
    with Store(path, head):
        whole = path.read_bytes()
    path.write_bytes(whole[:kept])
    with Store(path, head) as store:
        assert path.read_bytes() == whole
        store.add(Point(), Outcome(fits=True))
    with Store(path, head) as store:
        assert len(store.outcomes) == 1


def test_a_full_disk_is_an_error_that_names_the_file(tmp_path):
    store = Store(tmp_path / "results.jsonl", {"model": "m:f"})
    with store:
        store._file.close()
        store._file = Path("/dev/full").open("wb")  # noqa: SIM115 # It closes it.
        with pytest.raises(OSError, match=r"No space left on device: '.*/results.jsonl'"):
            store.add(Point(), Outcome())


def test_a_damaged_line_and_a_file_in_use(tmp_path):
    path = tmp_path / "results.jsonl"
    head = {"model": "m:f"}
    with Store(path, head) as store:
        store.add(Point(), Outcome(fits=True))
        with pytest.raises(SweepFileError, match="is in use by another sweep"):
            Store(path, head).__enter__()
    damaged = path.read_bytes() + b'{"point": {}}\n{"poi'
    path.write_bytes(damaged)
    with pytest.raises(SweepFileError, match=r"line 3 is damaged: .*'outcome'.* Delete the line"):
        Store(path, head).__enter__()
    assert path.read_bytes() == damaged


def test_points_survive_files_with_chips_and_systems_of_ones_own(tmp_path):
    chip = dataclasses.replace(target("bow"), chip="mine", tiles=100)
    system = dataclasses.replace(ipu_tf.machine.system_of("bow", 4), name="ours")
    points = [
        Point(chip=chip),
        Point(chip=system, streaming=Streaming(gib=1, gb_per_second=2.5)),
        Point(chip="a:b", tile_kib=1.5),
    ]
    with Store(tmp_path / "results.jsonl", {}) as store:
        for point in points:
            store.add(point, Outcome())
    with Store(tmp_path / "results.jsonl", {}) as store:
        assert list(store.outcomes) == [point.key for point in points]
    assert [point.chip_name for point in points] == ["mine", "ours", "b"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": []}, "`batch_size` of a sweep must be a list of at least one value"),
        ({"precision": "float32"}, "`precision` of a sweep must be a list of at least one"),
        ({"batch_size": [0]}, "`batch_size` of a sweep must be positive ints. Received: 0"),
        ({"replicas": [3]}, "`replicas` of a sweep must be powers of two, as IPUs"),
        ({"stages": [True]}, "`stages` of a sweep must be powers of two"),
        ({"chip": ["big"]}, "`chip` of a sweep must be of gc2, gc200, bow, c600, 'module:name'"),
        ({"precision": ["half"]}, "`precision` of a sweep must be of 'float32', 'mixed_float16'"),
        ({"tile_kib": [0]}, "`tile_kib` of a sweep must be positive numbers of KiB, or None"),
        ({"streaming": ["ddr"]}, "`streaming` of a sweep must be of `Streaming`, or None"),
        ({"offload": [1]}, "`offload` of a sweep must be True or False. Received: 1"),
        ({"batch_size": range(1, 100_002)}, "at most 100,000 points.* Received: 100,001 points"),
        ({"processes": 0}, "`processes` must be a positive int. Received: 0"),
    ],
)
def test_invalid_values(changes, message):
    with pytest.raises(ValueError, match=message):
        ipu_tf.sweep(dense, **changes)


def test_streaming_memory_is_of_a_size():
    with pytest.raises(ValueError, match="Streaming.gib must be positive. Received: 0"):
        Streaming(gib=0, gb_per_second=1)


def test_what_no_process_can_import():
    with pytest.raises(TypeError, match="define it at the top of a module, or estimate in this"):
        ipu_tf.sweep(lambda: dense(), processes=2)
    with pytest.raises(TypeError, match="takes a function that makes a model.*Received: Sequent"):
        ipu_tf.sweep(dense(), processes=2)
    with pytest.raises(ValueError, match="Name the model as 'module:function'.*Received: 'dense'"):
        ipu_tf.sweep("dense")


def test_a_script_that_a_process_imports_starts_no_sweep(monkeypatch):
    monkeypatch.setenv("IPU_TF_SWEEP_WORKER", "1")
    with pytest.raises(RuntimeError, match='Put the call of `sweep` under `if __name__ == "__mai'):
        ipu_tf.sweep(dense)


@pytest.mark.slow
class TestProcesses:
    """Estimates in processes of their own."""

    def test_outcomes_are_those_of_this_process(self, found):
        there = ipu_tf.sweep(
            MODEL,
            chip=[SMALL, SLOWER],
            batch_size=[4, 8],
            precision=["float32", "mixed_float16"],
            processes=2,
        )
        assert there == found

    def test_a_process_that_ends_fails_its_point_alone(self):
        found = ipu_tf.sweep(sweep_models.dies, batch_size=[1, 2, 3], processes=2)
        for each in found.estimates:
            assert each.outcome.error.startswith("its process ended with 7, for lack of memory per")
            assert each.outcome.error.endswith("out of luck")

    def test_a_killed_sweep_goes_on_where_it_was(self, tmp_path):
        spec, results = tmp_path / "spec.json", tmp_path / "spec.results.jsonl"
        values = {"model": MODEL, "chip": ["bow"], "batch_size": list(range(1, 31))}
        spec.write_text(json.dumps(values))
        command = [sys.executable, "-m", "ipu_tf", "sweep", str(spec), "--processes", "2"]
        running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and running.poll() is None:
            if results.exists() and results.read_bytes().count(b"\n") > 2:
                break
            time.sleep(0.02)
        running.kill()
        running.communicate()
        kept = results.read_bytes().count(b"\n") - 1
        assert 0 < kept < 30
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert f"30 points, {kept} known from an earlier run" in done.stderr
        assert done.stdout.startswith("30 estimates of training steps")
        assert results.read_bytes().count(b"\n") == 31
