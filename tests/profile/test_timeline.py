"""When the stages of a pipeline work, as text."""

import dataclasses

import pytest

from ipu_tf.compiler.pipeline import schedule
from ipu_tf.profile.report import Report
from ipu_tf.programs.program import Program
from ipu_tf.tile_program.device_program import Timeline
from tests.profile import programs


def pipeline(stages=2, micro_batches=4, *, training=True, **changes):
    """A pipeline of equal stages that take 100 cycles a pass."""
    one = programs.device_program()
    backward = 100 if training else 0
    parts = tuple(
        dataclasses.replace(
            one.stages[0], index=n, ipu=n, forward_cycles=100, backward_cycles=backward
        )
        for n in range(stages)
    )
    ipus = tuple(dataclasses.replace(one.ipus[0], ipu=n, stages=(n,)) for n in range(stages))
    played = {"schedule": "grouped", **changes}["schedule"]
    count = len(
        list(schedule.slots(played, stages=stages, micro_batches=micro_batches, training=training))
    )
    busy = micro_batches * (100 + backward)
    return dataclasses.replace(
        one,
        name="net.train_step",
        stages=parts,
        ipus=ipus,
        micro_batches=micro_batches,
        replica_ipus=stages,
        timeline=Timeline(slots=count, steady_cycles=100 * count, busy_cycles=(busy,) * stages),
        **{"schedule": "grouped", **changes},
    )


def timeline(*args, **kwargs):
    device = pipeline(*args, **kwargs)
    return Report(programs=(Program(name=device.name, device=device),)).timeline().splitlines()


def rows(lines):
    """The cells of each stage."""
    begin = lines.index("stage  IPU") + 1
    return [line.split()[2:] for line in lines[begin : lines.index("", begin)]]


def test_a_row_says_what_a_stage_does_in_every_slot():
    lines = timeline()
    assert " ".join(lines[:2]).startswith(
        "Timeline of 'net.train_step': 2 stages, grouped schedule, 4 micro-batches in 10 slots."
    )
    begin = lines.index("stage  IPU") + 1
    assert lines[begin : begin + 2] == [
        "0        0  F0 F1  . F2 B0 F3 B1  . B2 B3",
        "1        1   . F0 B0 F1 B1 F2 B2 F3 B3  .",
    ]


@pytest.mark.parametrize("name", ["grouped", "interleaved", "sequential"])
@pytest.mark.parametrize("stages", [2, 4])
def test_every_pass_has_a_cell(name, stages):
    cells = rows(timeline(stages, 2, schedule=name))
    for row in cells:
        assert sorted(cell for cell in row if cell != ".") == ["B0", "B1", "F0", "F1"]
    slots = list(schedule.slots(name, stages=stages, micro_batches=2))
    assert {len(row) for row in cells} == {len(slots)}


def test_prediction_has_forward_passes_alone():
    lines = timeline(training=False)
    assert rows(lines) == [["F0", "F1", "F2", "F3", "."], [".", "F0", "F1", "F2", "F3"]]
    assert "F is its forward pass;" in " ".join(lines)


@pytest.mark.parametrize("micro_batches", [8, 64, 1000])
def test_lines_are_of_a_hundred_characters(micro_batches):
    lines = timeline(4, micro_batches)
    assert max(map(len, lines)) <= 100
    first = rows(lines)[0]
    assert (first[0], rows(lines)[-1][-1]) == ("F0", ".")
    assert ("..." in first) == (micro_batches > 8)
    assert f"B{micro_batches - 1}" in first


def test_shares_are_of_the_cycles():
    text = " ".join(timeline())
    device = pipeline()
    share = 100 * device.timeline.bubble_share
    assert "Of 1,000 cycles IPU 0 works 80.0%, IPU 1 works 80.0%; links take 0.0%" in text
    assert f"in which IPUs wait for other stages, is {share:.1f}% of their time" in text
    assert share == pytest.approx(20)


def test_a_report_without_stages_says_so():
    whole = Report(programs=(Program(name="step", device=programs.device_program()),))
    expected = "No program has several stages: give the layers of a model pipeline stages."
    assert whole.timeline() == Report().timeline() == expected
