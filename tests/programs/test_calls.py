"""Calls from the host: their time, their rate, and how a report shows them."""

import dataclasses
import json

import pytest

from ipu_tf.compiler.host_call import call_cycles
from ipu_tf.profile.report import Report
from ipu_tf.programs.calls import call_of
from tests.profile.programs import device_program, program

CALLED = dataclasses.replace(device_program(), round_trip_cycles=9000)
"""1,000 cycles a run of 6 samples, and 9,000 of a call."""


def test_a_call_has_the_round_trip_and_all_runs():
    call = call_of(CALLED, 1)
    assert call.seconds == pytest.approx(10_000 / 1.33e9)
    assert call.samples_per_second == pytest.approx(6 * 1.33e5)
    several = call_of(dataclasses.replace(CALLED, micro_batches=2), 8)
    assert (several.runs, several.micro_batches, several.samples) == (4, 8, 48)
    assert several.run_seconds == 2 * several.micro_batch_seconds == several.seconds / 4
    assert call_of(dataclasses.replace(CALLED, micro_batches=2), 1).runs == 1


def test_a_loop_on_the_device_takes_cycles_of_its_own():
    assert call_cycles(CALLED, 100) > 9000 + 100 * 1000
    assert call_cycles(CALLED, 1) == 10_000


@pytest.mark.parametrize(("device", "steps"), [(CALLED, 0), (device_program(), 1)])
def test_without_a_known_call_the_rate_is_that_of_the_device(device, steps):
    call = call_of(device, steps)
    assert not call.is_known
    assert call.samples_per_second == pytest.approx(device.samples_per_second)
    text = Report(programs=(dataclasses.replace(program(device), steps_per_execution=steps),))
    assert "time          1,000 cycles a step, 751.9 ns; 6 samples a step" in text.summary()


def test_one_sample_is_counted_in_the_singular():
    one = dataclasses.replace(CALLED, samples_per_run=1, micro_batches=1, replicas=1)
    assert "; 1 sample a step, " in Report(programs=(program(one),)).summary()


def test_the_report_shows_the_rate_as_called_and_that_of_the_device(tmp_path):
    report = Report(programs=(program(CALLED),))
    text = report.summary()
    assert (
        "time          7.5 us a step, 798,000.0 samples/s; a call from the host runs one step"
        in text
    )
    assert "on the device 1,000 cycles a step, 751.9 ns; 6 samples a step, 7,980,000.0" in text
    report.to_json(tmp_path / "report.json")
    (found,) = json.loads((tmp_path / "report.json").read_text())["figures"]
    assert found["runs_per_call"] == 1
    assert found["call_seconds"] == pytest.approx(10_000 / 1.33e9)
    assert found["called_samples_per_second"] == pytest.approx(798_000)
    assert found["samples_per_second"] == pytest.approx(7_980_000)


def test_without_samples_it_shows_the_time_of_a_step():
    device = dataclasses.replace(CALLED, samples_per_run=0)
    text = Report(programs=(program(device),)).summary()
    assert "time          7.5 us a step; a call from the host runs one" in text
