"""The bound of a program's energy, worked out by hand."""

import dataclasses
import json

import pytest

from ipu_tf.machine.target import target
from ipu_tf.profile.figures import energy
from ipu_tf.profile.report import Report
from tests.profile.programs import device_program, program

# Of the 2,880 operations of the step, 1,920 are of a float16 product with float32 partials.
JOULES = (1920 * 1.3 + 960 * 2.5) * 1e-12


def test_operations_times_their_energy():
    traced = program(device_program())
    assert energy.joules(traced.device, traced.tile_ops) == pytest.approx(JOULES)
    assert energy.joules_per_sample(traced.device, traced.tile_ops) == pytest.approx(JOULES / 6)
    assert energy.joules(traced.device, ()) == pytest.approx(2880 * 2.5e-12)


def test_all_replicas_count():
    device = dataclasses.replace(device_program(), replicas=2)
    ops = program().tile_ops
    assert energy.joules(device, ops) == pytest.approx(2 * JOULES)
    assert energy.joules_per_sample(device, ops) == pytest.approx(JOULES / 6)


def test_the_report_says_that_it_is_a_bound(tmp_path):
    report = Report(programs=(program(device_program()),))
    line = "energy        at most 0.8 nJ a sample for arithmetic; exchange, links, idle chips"
    assert line in report.summary()
    unknown = Report(programs=(program(device_program(samples_per_run=0)),))
    assert "energy        at most 4.9 nJ a run" in unknown.summary()
    report.to_json(tmp_path / "report.json")
    figures = json.loads((tmp_path / "report.json").read_text())["figures"][0]
    assert figures["joules_per_sample"] == pytest.approx(JOULES / 6)


def test_a_chip_without_energies_has_a_note_in_place_of_the_line(tmp_path):
    chip = target("gc2", tiles_per_ipu=4)
    report = Report(programs=(program(dataclasses.replace(device_program(), target=chip)),))
    text = report.summary()
    assert "energy   " not in text
    assert "note: the energy is unknown: nothing is published for the gc2" in text
    report.to_json(tmp_path / "report.json")
    assert json.loads((tmp_path / "report.json").read_text())["figures"][0]["joules"] is None
