import json
import math

import pytest

from ipu_tf.calibration import compare
from ipu_tf.calibration.compare import rank_correlation
from ipu_tf.calibration.comparison_text import to_json, to_text
from ipu_tf.calibration.validate import main

HOST = {"kind": "host", "chip": "gc2", "params": {"tiles": 1}, "unit": "us"}


def entry(id_, **changes):
    return {"id": id_, "measured": 8.81, **HOST, **changes}


ENTRIES = [
    entry("right"),
    entry("wrong", measured=17.62),
    entry("odd", kind="weather"),
    entry("bare", kind="exchange_gather", params={}),
]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([1, 2, 3], [10, 20, 30], 1),
        ([1, 2, 3], [3, 2, 1], -1),
        ([1, 2, 2, 3], [1, 2, 2, 3], 1),
        ([1, 2, 3, 4], [1, 3, 2, 4], 0.8),
        ([1, 2], [1, 2], None),
        ([1, 1, 1], [1, 2, 3], None),
    ],
)
def test_rank_correlation(left, right, expected):
    found = rank_correlation(left, right)
    assert found == (None if expected is None else pytest.approx(expected))


def test_groups_have_their_errors(make):
    comparison = compare(
        [
            make("host", {"tiles": 1}, id="right", measured=8.81),
            make("host", {"tiles": 1}, id="wrong", measured=17.62),
        ]
    )
    (group,) = comparison.groups
    assert (group.kind, group.chip, group.number) == ("host", "gc2", 2)
    assert group.median_error == pytest.approx(0.25, abs=0.001)
    assert group.worst_error == pytest.approx(-0.5, abs=0.001)
    assert group.worst_id == "wrong"
    assert group.rank_correlation is None


def test_what_is_not_predicted_is_named(make):
    comparison = compare([make("weather", {}), make("exchange_gather", {}, id="bare")])
    assert comparison.groups == ()
    assert comparison.unknown_kinds == {"weather": 1}
    assert [one.record.id for one in comparison.unpredicted] == ["bare"]
    with pytest.raises(ValueError, match="Record 'made' has no prediction"):
        _ = comparison.compared[0].error
    text = to_text(comparison)
    assert "unknown kind weather: 1 not predicted" in text
    assert "bare: not predicted: needs the parameter 'source_tiles'" in text


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"chip": "gc3"}, "Unknown chip"),
        ({"unit": "furlongs"}, "unknown unit"),
        ({"kind": "conv_forward", "dtype": "f16"}, "needs the parameter 'input'"),
    ],
)
def test_one_bad_record_leaves_the_others(make, changes, reason):
    good = make("host", {"tiles": 1}, id="good")
    bad = make(**{"kind": "host", "params": {}, "id": "bad", **changes})
    comparison = compare([bad, good])
    assert [one.record.id for one in comparison.unpredicted] == ["bad"]
    assert reason in comparison.unpredicted[0].reason
    assert comparison.groups[0].number == 1


def test_json_has_every_record(make):
    entries = json.loads(to_json(compare([make("host", {"tiles": 1}), make("weather", {})])))
    assert entries[0] == {
        "id": "made",
        "predicted": pytest.approx(8.81, rel=1e-3),
        "measured": 1.0,
        "corrected_by": None,
    }
    assert entries[1]["predicted"] is None


def test_the_command_prints_a_table(write, capsys):
    assert main([str(write(ENTRIES))]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert lines[0].split() == ["kind", "chip", "n", "median", "worst", "rank", "worst", "record"]
    assert lines[1].split() == ["host", "gc2", "2", "25.0%", "-50.0%", "-", "wrong"]


def test_the_command_prints_json(write, capsys):
    assert main([str(write(ENTRIES)), "--json"]) == 0
    printed = capsys.readouterr()
    assert "unknown kind weather: 1 not predicted" in printed.err
    entries = json.loads(printed.out)
    assert [one["id"] for one in entries] == ["right", "wrong", "odd", "bare"]
    assert [one["predicted"] is None for one in entries] == [False, False, True, True]


@pytest.mark.parametrize(
    ("entries", "message"),
    [("[", "is not JSON"), ([entry("x", measured=-1)], "'measured' must be positive")],
)
def test_the_command_says_what_is_wrong(write, capsys, entries, message):
    assert main([str(write(entries))]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("ipu-tf validate: ")
    assert message in printed.err


def test_json_is_plain(write, capsys):
    main([str(write([entry("x")])), "--json"])
    assert not math.isnan(json.loads(capsys.readouterr().out)[0]["predicted"])
