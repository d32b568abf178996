"""Reports survive a file; files that are no reports are refused with a reason."""

import dataclasses
import gzip
import json
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from ipu_tf.base import codec
from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.machine.target import target
from ipu_tf.machine.tile_figures import TileFigures
from ipu_tf.profile.data import json_format
from ipu_tf.profile.data.json_format import VERSION, ReportFileError
from ipu_tf.profile.report import Report
from ipu_tf.tile_program import tile_details
from tests.compiler import modules
from tests.profile.programs import device_program, fault, overflowing, program


@pytest.fixture
def path(tmp_path):
    return tmp_path / "report.json"


@pytest.fixture
def report():
    incomplete = device_program(unsupported={"fft": ("net/dense",)}, notes=("a loop",))
    programs = (program(incomplete), program(overflowing()), program())
    return Report(programs=programs, notes=("assumed SGD",))


def changed(path, report, change):
    """Writes a report with something changed in its plain data."""
    report.to_json(path)
    envelope = json.loads(path.read_text())
    change(envelope)
    path.write_text(json.dumps(envelope))


def test_round_trip(path, report):
    report.to_json(path)
    again = Report.from_json(path)
    assert again.summary(plans=True) == report.summary(plans=True)
    assert again.tile_ops == report.tile_ops
    first, wanted = again.programs[0].device, report.programs[0].device
    assert first.steps == wanted.steps
    assert first.tensors == wanted.tensors
    assert first.target == wanted.target
    for name in ("always_live", "not_always_live_peak"):
        ours, theirs = getattr(first.memory, name), getattr(wanted.memory, name)
        assert ours.keys() == theirs.keys()
        for category in ours:
            np.testing.assert_array_equal(ours[category], theirs[category])
            assert ours[category].dtype == np.int64


def test_a_file_says_where_it_lacks_the_figures_of_tiles(path, monkeypatch):
    compiled = compile_program(modules.module("mlp"), CompilerOptions(target=target("bow")))
    report = Report(programs=(program(compiled),), notes=("assumed SGD",))
    monkeypatch.setattr(tile_details, "MOST_NUMBERS", 0)
    report.to_json(path)
    again = Report.from_json(path)
    first, note = again.notes
    assert first == "assumed SGD"
    assert f"lacks the figures of single tiles of '{report.programs[0].name}'" in note
    assert again.programs[0].device.steps == report.programs[0].device.steps
    again.to_json(path)
    assert Report.from_json(path).notes == again.notes


def test_a_second_round_changes_nothing(path, report, tmp_path):
    report.to_json(path)
    Report.from_json(path).to_json(tmp_path / "again.json")
    assert (tmp_path / "again.json").read_text() == path.read_text()


def test_what_is_not_finite_survives_a_file(path):
    traced = program(device_program())
    traced.nonfinite.append(fault())
    Report(programs=(traced,)).to_json(path)
    (found,) = Report.from_json(path).programs[0].nonfinite
    assert repr(found) == repr(fault())  # A NaN equals no other.
    plain = json.loads(path.read_text())["report"]["programs"][0]["nonfinite"][0]
    assert plain["around"] == [1.0, -2.5, "inf", "-inf", "nan"]


@pytest.mark.parametrize("value", ["infinity", True, None, [1], 10**400])
def test_values_of_a_fault_are_numbers_or_their_names(path, value):
    traced = program(device_program())
    traced.nonfinite.append(fault())

    def change(envelope):
        envelope["report"]["programs"][0]["nonfinite"][0]["around"] = [value]

    changed(path, Report(programs=(traced,)), change)
    message = r"nonfinite\[0\].around\[0\]: expected a number, \"nan\", \"inf\" or \"-inf\""
    with pytest.raises(ReportFileError, match=message):
        Report.from_json(path)


def test_a_compressed_file_is_the_same_report(path, report, tmp_path):
    report.to_json(path)
    packed = tmp_path / "report.json.gz"
    report.to_json(packed)
    assert gzip.decompress(packed.read_bytes()) == path.read_bytes()
    renamed = packed.rename(tmp_path / "renamed.json")
    assert Report.from_json(renamed).summary() == report.summary()
    first = renamed.read_bytes()
    report.to_json(packed)
    assert packed.read_bytes() == first


def test_a_truncated_compressed_file(path, report, tmp_path):
    packed = tmp_path / "report.json.gz"
    report.to_json(packed)
    for damaged in (packed.read_bytes()[:-40], packed.read_bytes()[:5], b"\x1f\x8bno gzip file"):
        packed.write_bytes(damaged)
        with pytest.raises(ReportFileError, match=r"gz is damaged: it cannot be decompressed"):
            Report.from_json(packed)


def with_tiles():
    """The report of a program whose first superstep has the figures of its four tiles."""
    tiles = TileFigures.of(
        compute=np.zeros(4, np.int64),
        received_bytes=np.array([8, 8, 8, 0]),
        sent_bytes=np.zeros(4, np.int64),
        compute_cycles=0,
        exchange_cycles=0,
    )
    first, *rest = device_program().steps
    step = dataclasses.replace(
        first, supersteps=(dataclasses.replace(first.supersteps[0], tiles=tiles),)
    )
    return Report(programs=(program(device_program(steps=(step, *rest))),))


def test_figures_of_tiles_survive_a_file(path):
    with_tiles().to_json(path)
    assert json.loads(path.read_text())["report"]["programs"][0]["device"]["stages"][0]["program"][
        "steps"
    ][0]["supersteps"][0]["tiles"]["received_bytes"] == {"values": [8, 0], "tiles": [3, 1]}
    superstep = Report.from_json(path).programs[0].device.steps[0].supersteps[0]
    assert superstep.tile_figures == with_tiles().programs[0].device.steps[0].supersteps[0].tiles


@pytest.mark.parametrize(
    ("runs", "message"),
    [
        ({"values": [8], "tiles": [3]}, "received_bytes: expected runs of 4 tiles. Received: 3"),
        ({"values": [8, 1], "tiles": [4]}, "received_bytes: TileRuns needs runs of at least one"),
        ({"values": [], "tiles": []}, "received_bytes: TileRuns needs runs of at least one tile"),
        ({"values": [-8], "tiles": [4]}, "received_bytes: expected a count, at least 0. Rec.* -8"),
        (
            {"values": [1 << 70], "tiles": [4]},
            r"received_bytes.values\[0\]: expected int of less than 2\*\*63",
        ),
        (
            {"values": [True], "tiles": [4]},
            r"received_bytes.values\[0\]: expected int. Received: True",
        ),
    ],
)
def test_damaged_figures_of_tiles(path, runs, message):
    def change(envelope):
        tiles = tiles_of(envelope)["steps"][0]["supersteps"][0]["tiles"]
        tiles["received_bytes"] = runs

    changed(path, with_tiles(), change)
    with pytest.raises(ReportFileError, match=rf"supersteps\[0\].tiles.{message}"):
        Report.from_json(path)


def test_figures_are_in_the_file_for_other_readers(path, report):
    report.to_json(path)
    figures = json.loads(path.read_text())["figures"]
    assert figures[0]["cycles"] == 1000
    layer = figures[0]["layers"][0]
    assert layer["backward_cycles"] == 200
    assert (layer["always_live_bytes"], layer["peak_bytes"]) == (160, 80)
    assert [entry["ipus"][0]["fits"] for entry in figures[:2]] == [True, False]
    assert figures[2] == {"program": "net.train_step"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not valid JSON"),
        (b"\xff\xfe", "is not valid JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"format": "ipu_tf report", "version": NaN}', "NaN is not a number of JSON"),
        (b"[" + b"9" * 5000 + b"]", "is not valid JSON: Exceeds the limit"),
        (b"[]", "is not a report: it needs an object"),
        (b'{"format": "other"}', "is not a report"),
        (b'{"format": "ipu_tf report"}', "must be a positive integer. Received: None"),
        (b'{"format": "ipu_tf report", "version": true}', "must be a positive integer"),
        (b'{"format": "ipu_tf report", "version": 1}', "report: expected an object"),
    ],
)
def test_what_is_no_report(path, content, message):
    path.write_bytes(content)
    with pytest.raises(ReportFileError, match=message):
        Report.from_json(path)


def test_later_versions_are_refused(path, report):
    changed(path, report, lambda envelope: envelope.update(version=VERSION + 1))
    with pytest.raises(ReportFileError, match=f"in version {VERSION + 1} of the format; this one"):
        Report.from_json(path)


def device_of(envelope):
    return envelope["report"]["programs"][0]["device"]


def tiles_of(envelope):
    """The tile program of the first stage of the first program."""
    return device_of(envelope)["stages"][0]["program"]


def remove(data, key):
    del data[key]


CORRUPTIONS = {
    "missing field": (
        lambda e: remove(tiles_of(e), "steps"),
        r"device.stages\[0\].program: TileProgram lacks steps",
    ),
    "unknown field": (
        lambda e: device_of(e).update(colour=1),
        r"DeviceProgram has no field colour",
    ),
    "wrong type": (
        lambda e: tiles_of(e)["steps"][0].update(repeats="2"),
        r"program.steps\[0\].repeats: expected int. Received: '2'",
    ),
    "a bool is no number": (
        lambda e: tiles_of(e)["steps"][0].update(repeats=True),
        r"repeats: expected int. Received: True",
    ),
    "wrong word": (
        lambda e: tiles_of(e)["steps"][0].update(phase="sideways"),
        r"phase: expected one of 'forward', 'backward', 'update'. Received: 'sideways'",
    ),
    "wrong category": (
        lambda e: tiles_of(e)["memory"]["always_live"].update(code=[]),
        r"always_live: key: expected one of 'weights'",
    ),
    "unknown class": (
        lambda e: tiles_of(e)["steps"][1]["plan"].update(type="os.system"),
        r"plan: expected an object with .type. 'MatMulPlan' or 'ConvPlan'. Received: 'os.system'",
    ),
    "class in a list": (
        lambda e: tiles_of(e)["steps"][1]["plan"].update(type=["MatMulPlan"]),
        r"plan: expected an object with .type. 'MatMulPlan' or 'ConvPlan'. Received: \[",
    ),
    "no stage": (
        lambda e: device_of(e).update(stages=[]),
        r"programs\[0\].device: DeviceProgram.stages must not be empty",
    ),
    "an IPU with a stage that is not there": (
        lambda e: device_of(e)["ipus"][0].update(stages=[1]),
        r"device: DeviceProgram.ipus must have stages from 0 to 0. Received: 1",
    ),
    "no micro-batch": (
        lambda e: device_of(e).update(micro_batches=0),
        r"device: DeviceProgram.micro_batches must be positive. Received: 0",
    ),
    "invalid value": (
        lambda e: device_of(e)["target"].update(tiles=-1),
        r"target: Target.tiles must be positive. Received: -1",
    ),
    "not a list": (
        lambda e: tiles_of(e).update(tensors={}),
        r"tensors: expected a list. Received: \{\}",
    ),
    "not a list of integers": (
        lambda e: tiles_of(e)["memory"].update(live_bytes=[1.5]),
        r"live_bytes: expected a list of integers. Received: \[1.5\]",
    ),
    "a count too large": (
        lambda e: tiles_of(e)["steps"][0].update(repeats=10**400),
        r"steps\[0\].repeats: expected int of less than 2\*\*63. Received: 1000.*\.\.\.",
    ),
    "a size too large": (
        lambda e: e["report"]["programs"][0]["tile_ops"][0]["shape"].update(m=10**400),
        r"tile_ops\[0\].shape.m: expected int of less than 2\*\*63. Received: 1000.*\.\.\.",
    ),
    "a rate too large": (
        lambda e: device_of(e)["target"].update(clock_hz=1e308),
        r"target.clock_hz: expected float or int of less than 2\*\*63. Received: 1e\+308",
    ),
    "too large": (
        lambda e: tiles_of(e)["memory"].update(live_bytes=[1 << 70] * 4),
        r"expected integers of at most 64 bits. Received: .*\.\.\.",
    ),
    "a tile missing": (
        lambda e: tiles_of(e)["memory"]["always_live"]["weights"].pop(),
        r"always_live.weights: expected 4 entries. Received: 3",
    ),
    "a step missing": (
        lambda e: tiles_of(e)["memory"]["live_bytes"].pop(),
        r"memory.live_bytes: expected 4 entries. Received: 3",
    ),
    "a pair of three": (
        lambda e: e["report"]["programs"][0]["tile_ops"][1]["shape"].update(strides=[1, 1, 1]),
        r"shape.strides: expected a list of 2. Received: \[1, 1, 1\]",
    ),
}


SENSELESS = {
    "tiles": (
        lambda e: device_of(e)["target"].update(tiles=10**12),
        r"target.tiles: expected 1 to",
    ),
    "the peak": (
        lambda e: tiles_of(e)["memory"].update(peak_step=10**6),
        r"program.memory.peak_step: expected 0 to 3. Received: 1000000",
    ),
    "the limit": (
        lambda e: device_of(e)["ipus"][0]["memory"].update(limit_bytes=0),
        r"ipus\[0\].memory.limit_bytes: expected a positive int. Received: 0",
    ),
    "memory": (
        lambda e: tiles_of(e)["memory"].update(always_live={}, not_always_live_peak={}),
        r"memory.always_live: expected a category. Received: none",
    ),
    "micro-batches": (
        lambda e: device_of(e).update(micro_batches=10**6),
        r"device.micro_batches: expected 1 to 100,000. Received: 1000000",
    ),
    "replicas": (
        lambda e: device_of(e).update(replicas=10**9),
        r"replicas: IPUs: expected 1 to 1,048,576. Received: 1000000000",
    ),
    "the IPU of a stage": (
        lambda e: device_of(e)["stages"][0].update(ipu=7),
        r"stages\[0\].ipu: expected one of the IPUs \[0\]. Received: 7",
    ),
    "the work of IPUs": (
        lambda e: device_of(e)["timeline"].update(busy_cycles=[]),
        r"timeline.busy_cycles: expected 1 entries, one for each IPU. Received: 0",
    ),
    "the life of a tensor": (
        lambda e: tiles_of(e)["tensors"][0].update(last_step=4),
        r"tensors\[0\].last_step: expected 0 to 3. Received: 4",
    ),
    "the tiles of a tensor": (
        lambda e: tiles_of(e)["tensors"][0]["footprint"].update(tiles=10**9),
        r"tensors\[0\].footprint.tiles: expected 0 to 4. Received: 1000000000",
    ),
}
"""Files that describe no machine and no program that there could be."""


@pytest.mark.parametrize("name", SENSELESS)
def test_senseless_sizes_are_refused(path, report, name):
    change, message = SENSELESS[name]
    changed(path, report, change)
    with pytest.raises(ReportFileError, match=f"is damaged: .*{message}"):
        Report.from_json(path)


@pytest.mark.parametrize("packed", [True, False])
def test_a_bomb_is_not_read_whole(path, packed, monkeypatch):
    monkeypatch.setattr(json_format, "_LARGEST_BYTES", 1 << 20)
    content = b" " * (1 << 25 if packed else 1 << 21)
    path.write_bytes(gzip.compress(content, 1) if packed else content)
    tracemalloc.start()
    try:
        with pytest.raises(ReportFileError, match=r"holds more than 1.0 MiB of JSON, the most"):
            Report.from_json(path)
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def test_names_of_files_do_not_act_on_terminals(path, report):
    def change(envelope):
        tiles_of(envelope)["steps"][1]["layer"] = "net/\x1b]0;title\x07\x9b2J\u202e"
        tiles_of(envelope)["unsupported"] = {"\x1b[31m": ["a"]}
        envelope["report"]["notes"] = ["two\nlines\ud800"]

    changed(path, report, change)
    found = Report.from_json(path)
    text = found.summary() + str(found.programs)
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\ud800]", text)
    assert r"net/\x1b]0;title\x07\x9b2J\u202e" in found.summary()
    assert found.notes == ("two\nlines\\ud800",)


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_damage_is_named_with_its_place(path, report, name):
    change, message = CORRUPTIONS[name]
    changed(path, report, change)
    with pytest.raises(ReportFileError, match=f"is damaged: .*{message}"):
        Report.from_json(path)


def test_missing_file(path):
    with pytest.raises(FileNotFoundError):
        Report.from_json(path)


def test_fields_with_defaults_may_be_missing(path, report):
    changed(path, report, lambda envelope: remove(device_of(envelope), "notes"))
    assert Report.from_json(path).programs[0].device.notes == ()


def test_only_plain_data_is_written():
    with pytest.raises(TypeError, match="hold plain data only. Received: object"):
        codec.encode(object())


def test_only_known_types_are_read():
    with pytest.raises(codec.CodecError, match="cannot be read from a file"):
        codec.decode(complex, 1, "field")


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (lambda device: device["steps"][0].update(repeats=-1), r"program\.steps\[0\]\.repeats"),
        (
            lambda device: device["steps"][0]["supersteps"][0].update(compute_cycles=-5),
            r"program\.steps\[0\]\.supersteps\[0\]\.compute_cycles",
        ),
        (lambda device: device["tensors"][0].update(bytes=-1), r"program\.tensors\[0\]\.bytes"),
        (
            lambda device: device["memory"]["live_bytes"].__setitem__(0, -8),
            r"program\.memory\.live_bytes",
        ),
    ],
)
def test_negative_counts_are_refused(path, report, change, place):
    changed(path, report, lambda envelope: change(tiles_of(envelope)))
    with pytest.raises(ReportFileError, match=rf"{place}: expected a count.*Received: -\d+\."):
        Report.from_json(path)


class TestEarlierVersions:
    """`version2.json` was written in version 2: one IPU, a pipeline, and what was not compiled."""

    FILE = Path(__file__).with_name("version2.json")

    def test_a_program_of_one_ipu_has_one_stage(self):
        one = Report.from_json(self.FILE).programs[0].device
        wanted = device_program(unsupported={"fft": ("net/dense",)}, notes=("a loop",))
        assert one.steps == wanted.steps
        assert one.cycles == wanted.cycles == 1000
        assert one.samples_per_update == 6
        assert one.unsupported == wanted.unsupported
        assert one.notes == wanted.notes

    def test_supersteps_of_version_3_have_no_figures_of_tiles(self):
        first, second = Report.from_json(self.FILE.with_name("version3.json")).programs
        wanted = device_program(unsupported={"fft": ("net/dense",)}, notes=("a loop",))
        assert first.device.steps == wanted.steps
        assert first.device.cycles == 1000
        assert second.device is None
        assert all(s.tile_figures is None for step in wanted.steps for s in step.supersteps)

    def test_a_pipeline_is_a_program_of_several_stages(self):
        text = Report.from_json(self.FILE).summary()
        assert "on m2000, 2 replicas of 2 gc200 IPUs, 4 tiles at 1.33 GHz each" in text
        assert "7,260 cycles a weight update, 5.5 us; 48 samples an update (6 x 4 x 2)" in text
        assert "bubble 2.9% of the IPUs' time, links 4.3%" in text
        assert "limited by    stage 0 on IPU 0: 1,600 cycles a micro-batch" in text

    def test_what_was_not_compiled_is_not(self):
        report = Report.from_json(self.FILE)
        assert [program.device is None for program in report.programs] == [False, False, True]
        assert report.notes == ("assumed SGD",)

    def test_it_is_written_in_the_version_of_today(self, path):
        report = Report.from_json(self.FILE)
        report.to_json(path)
        assert json.loads(path.read_text())["version"] == VERSION
        assert Report.from_json(path).summary() == report.summary()

    @pytest.mark.parametrize(
        ("damage", "message"),
        [
            (lambda p: p[0]["device"].update(steps=3), r"device.steps: expected a list"),
            (lambda p: p[0].update(device=3), r"device: expected an object. Received: 3"),
            (lambda p: p[1].update(pipeline=3), r"device: expected an object. Received: 3"),
            (lambda p: p[1]["pipeline"].update(stages=3), r"stages: expected a list"),
            (lambda p: p[1]["pipeline"]["stages"][0].update(program=3), r"program: expected an"),
            (lambda p: p.insert(0, 3), r"programs\[0\]: expected an object. Received: 3"),
        ],
    )
    def test_damage_is_found(self, path, damage, message):
        envelope = json.loads(self.FILE.read_text())
        damage(envelope["report"]["programs"])
        path.write_text(json.dumps(envelope))
        with pytest.raises(ReportFileError, match=message):
            Report.from_json(path)
