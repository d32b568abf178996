"""Comparisons of reports: figures worked out by hand, verdicts, regressions, text."""

import dataclasses
import json
import math

import pytest

from ipu_tf.profile import compare
from ipu_tf.profile.comparison import comparison_page, comparison_text
from ipu_tf.profile.comparison.differences import TABLES, Difference
from ipu_tf.profile.report import Report
from tests.profile.programs import bytes_of, device_program, overflowing, program


def report(device=None, **changes):
    one = program(device or device_program())
    return Report(programs=(dataclasses.replace(one, **changes),))


def faster():
    """The program with a forward product of 100 cycles less, and 8 bytes more on each tile."""
    device = device_program()
    multiply = dataclasses.replace(device.steps[1].supersteps[0], compute_cycles=150)
    step = dataclasses.replace(device.steps[1], supersteps=(multiply,))
    memory = dataclasses.replace(
        device.memory,
        always_live={"weights": bytes_of(48, 48, 48, 48), "stack": bytes_of(5, 5, 5, 5)},
    )
    steps = (device.steps[0], step, *device.steps[2:])
    return device_program(steps=steps, memory=memory)


def by_name(entries):
    return {entry.name: entry for entry in entries}


@pytest.fixture(scope="module")
def found():
    return compare(report(), report(faster()))


def test_totals(found):
    (program,) = found.programs
    totals = by_name(program.totals)
    assert (totals["cycles a run"].before, totals["cycles a run"].after) == (1000, 900)
    assert totals["cycles a run"].growth == pytest.approx(-0.1)
    assert totals["cycles a run"].verdict == "better"
    assert totals["samples a second"].verdict == "better"
    assert totals["samples a second"].growth == pytest.approx(1 / 0.9 - 1)
    assert totals["seconds a sample"].after == pytest.approx(900 / 1.33e9 / 6)
    assert totals["fullest tile, bytes"].verdict == "worse"
    assert (totals["fullest tile, bytes"].before, totals["fullest tile, bytes"].after) == (85, 93)
    assert totals["streaming memory, bytes"].verdict == "same"
    assert program.fits == (True, True)


def test_by_layer_phase_activity_category_and_ipu(found):
    (program,) = found.programs
    assert (by_name(program.layers)["net/dense"].after) == 800
    assert program.layers[0].name == "net/dense"
    assert by_name(program.phases)["forward"].before == 700
    assert by_name(program.phases)["forward"].after == 600
    assert by_name(program.phases)["update"].verdict == "same"
    assert by_name(program.activities)["compute"].growth == pytest.approx(-100 / 700)
    assert by_name(program.categories)["weights"].after == 192
    assert by_name(program.ipus)["IPU 0"].after == 93
    work = by_name(program.work)["IPU 0"]
    assert (work.before, work.after) == (900, 800)


def test_a_report_is_the_same_as_itself():
    (program,) = compare(report(), report()).programs
    assert {entry.verdict for name in TABLES for entry in getattr(program, name)} == {"same"}
    text = str(compare(report(), report()))
    assert text == "Program 'net.train_step': as fast as before"
    assert compare(report(), report()).regressions() == ()


def test_growth_from_nothing():
    assert Difference(name="all-reduce", before=0, after=5).growth == math.inf
    assert Difference(name="all-reduce", before=0, after=5).verdict == "worse"
    assert Difference(name="x", before=0, after=5).to_dict()["growth"] is None
    assert Difference(name="x", before=None, after=5).verdict == "new"
    assert Difference(name="x", before=5, after=None).verdict == "gone"
    assert Difference(name="x", before=5, after=None).growth == 0


def test_regressions_beyond_a_share(found):
    (line,) = found.regressions(0.02)
    assert line == (
        "'net.train_step': fullest tile, bytes grew 9.41%, from 85 to 93; at most 2% are allowed"
    )
    assert found.regressions(0.1) == ()
    (slower,) = compare(report(faster()), report()).regressions(0.05)
    assert "seconds a sample grew 11.11%" in slower


def test_a_program_that_fits_no_longer_is_a_regression():
    found = compare(report(), report(overflowing()))
    assert found.regressions(10.0) == ("'net.train_step' fits no longer",)
    assert "fits no longer" in str(found)
    assert "fits now" in str(compare(report(overflowing()), report()))


def test_programs_are_matched_by_name_and_order():
    one, other = program(device_program()), program(faster())
    two = Report(programs=(one, dataclasses.replace(other, name="evaluate"), other))
    found = compare(two, Report(programs=(one, other, dataclasses.replace(one, name="new"))))
    assert [entry.name for entry in found.programs] == ["net.train_step", "net.train_step"]
    assert all(by_name(each.totals)["cycles a run"].verdict == "same" for each in found.programs)
    assert (found.only_before, found.only_after) == (("evaluate",), ("new",))
    assert found.regressions(1.0) == ("'evaluate' is not in the second report",)
    assert "Program 'new' is in the second report alone" in str(found)


def test_single_programs_are_compared_whatever_their_names():
    found = compare(report(name="resnet.train_step"), report(faster(), name="other.train_step"))
    assert found.programs[0].name == "other.train_step"
    assert found.regressions(1.0) == ()


def test_files_and_what_is_no_report(tmp_path):
    path = tmp_path / "a.json.gz"
    report().to_json(path)
    assert compare(path, report(faster())).programs[0].totals
    with pytest.raises(TypeError, match="`after` must be a Report or the path .* Received: 3"):
        compare(path, 3)
    with pytest.raises(FileNotFoundError):
        compare(tmp_path / "none.json", path)
    assert str(compare(Report(), Report())) == "Neither report has a compiled program."


def test_the_text_leaves_out_what_did_not_change(found):
    text = str(found)
    assert text.startswith("Program 'net.train_step': faster, -10.00% seconds a sample")
    assert "cycles by layer" in text
    assert "net/dense" in text
    assert "worse" in text
    assert "(host)" not in text
    assert "stack" not in text


def test_plain_data(found):
    data = json.loads(json.dumps(found.to_dict()))
    assert data["programs"][0]["layers"][0] == {
        "name": "net/dense",
        "before": 900,
        "after": 800,
        "growth": -100 / 900,
        "verdict": "better",
    }


def test_the_page_gives_new_and_gone_layers_no_change():
    table = comparison_page._table(
        "layers",
        (
            Difference(name="gone", before=5, after=None),
            Difference(name="new", before=None, after=5),
            Difference(name="same", before=5, after=5),
            Difference(name="half", before=10, after=5),
        ),
    )
    assert [row[3] for row in table.rows] == [None, None, 0.0, -0.5]


def test_models_of_one_process_are_compared_layer_by_layer():
    def made(number):
        suffix = f"_{number}" if number else ""
        layers = ("", f"m{suffix}/dense{suffix}", f"sgd{suffix}", "loss")
        steps = zip(device_program().steps, layers, strict=True)
        named = tuple(dataclasses.replace(step, layer=layer) for step, layer in steps)
        one = program(device_program(steps=named))
        names = (f"m{suffix}.train_step", f"m{suffix}.test_step")
        return Report(programs=tuple(dataclasses.replace(one, name=name) for name in names))

    found = compare(made(0), made(1))
    assert [entry.name for entry in found.programs] == ["m_1.train_step", "m_1.test_step"]
    assert (found.only_before, found.only_after) == ((), ())
    for each in found.programs:
        assert {entry.verdict for entry in each.layers} == {"same"}
        assert {"m_1/dense_1", "sgd_1"} <= by_name(each.layers).keys()


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("joules a sample", 0.0000000066990625, "6.699 nJ"),
        ("joules a sample", 2.5e-12, "2.5 pJ"),
        ("joules a sample", 0.0, "0 J"),
        ("seconds a run", 0.0123456, "12.35 ms"),
        ("seconds a sample", 12.0, "12 s"),
        ("utilisation", 0.123456, "12.35%"),
        ("cycles a run", 1_234_567, "1,234,567"),
        ("samples a second", 435_912.34, "435,912.3"),
        ("samples a second", 1.23456, "1.235"),
        ("samples a second", None, "-"),
    ],
)
def test_figures_have_units(name, value, text):
    assert comparison_text.figure(name, value) == text


def test_the_page_has_the_units_of_the_text():
    (entry,) = compare(report(), report(faster())).programs
    rows = {row[0]: row for row in comparison_page._table("totals", entry.totals).rows}
    assert rows["joules a sample"][1].endswith("J")
    assert rows["seconds a sample"][1:3] == ("125.3 ns", "112.8 ns")
