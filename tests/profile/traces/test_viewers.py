"""Traces as the viewers read them, in an environment of their own.

The environment is `build/viewers`. It is made once, from the package index; without network the
tests skip.
"""

import collections
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from ipu_tf.profile.report import Report
from ipu_tf.profile.traces.trace_slices import device_slices
from ipu_tf.programs.program import Program
from tests.profile import programs
from tests.profile.traces.test_trace_slices import check_nesting, deployed, host_timeline

ROOT = Path(__file__).resolve().parents[3]
ENVIRONMENT = ROOT / "build" / "viewers"
PACKAGES = ("perfetto", "xprof")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def viewers():
    """The Python of an environment with the viewers' packages."""
    python = ENVIRONMENT / "bin" / "python"
    if not python.exists():
        venv.create(ENVIRONMENT, with_pip=True)
    imports = "; ".join(f"import {name}" for name in PACKAGES)
    if subprocess.run([python, "-c", imports], capture_output=True, check=False).returncode:
        install = [python, "-m", "pip", "install", "--quiet", *PACKAGES]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"{' and '.join(PACKAGES)} cannot be installed: {done.stderr[-300:]}")
    return python


@pytest.fixture(scope="module", params=["one IPU", "pipeline"])
def report(request):
    made = programs.device_program() if request.param == "one IPU" else deployed(micro_batches=4)
    return Report(programs=(Program(name="net.train_step", device=made),), host=host_timeline())


@pytest.fixture(scope="module")
def read(report, viewers, tmp_path_factory):
    """The content that the viewers read from a report."""
    folder = tmp_path_factory.mktemp("traces")
    report.to_perfetto(folder / "a.pftrace")
    profile = report.to_xplane(folder, run="a")
    script = Path(__file__).with_name("read_traces.py")
    done = subprocess.run(
        [viewers, script, folder / "a.pftrace", profile],
        capture_output=True,
        text=True,
        check=False,
        env={key: value for key, value in os.environ.items() if key != "PYTHONPATH"},
        cwd=folder,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_perfetto_has_every_slice_of_the_report(report, read):
    *device, host = read["perfetto"]
    (program,) = report.programs
    of_ipus = device_slices(program.device)
    assert [track["process"] for track in device] == ["IPU (modelled)"] * len(of_ipus)
    assert (host["process"], host["name"]) == ("host (measured)", "MainThread")
    for track, slices in zip(device, of_ipus.values(), strict=True):
        shown = [piece for piece in slices if piece.end > piece.begin]
        assert [(s["name"], s["category"]) for s in track["slices"]] == [
            (piece.name, [piece.category]) for piece in shown
        ]
        assert [s["details"]["cycles"] for s in track["slices"]] == [
            piece.end - piece.begin for piece in shown
        ]
        assert [s["depth"] for s in track["slices"]] == check_nesting(shown)
        root = track["slices"][0]
        assert root["details"]["cycles"] == program.device.cycles
        seconds = program.device.target.seconds(program.device.cycles)
        assert (root["end"] - root["begin"]) / 1e9 == pytest.approx(seconds, abs=1.5e-9)
    assert [s["name"] for s in host["slices"]] == ["execute", "a <b> \u00fc"]


def test_perfettos_times_run_on(read):
    for track in read["perfetto"]:
        assert track["times"] == sorted(track["times"])
        check_nesting(track["slices"], lambda piece: (piece["begin"], piece["end"]))


def test_the_trace_viewer_shows_every_slice(report, read):
    events = read["xplane"]
    processes = {
        event["pid"]: event["args"]["name"]
        for event in events
        if event.get("name") == "process_name"
    }
    (program,) = report.programs
    of_ipus = device_slices(program.device)
    planes = {f"/device:CUSTOM:IPU:{ipu}": slices for ipu, slices in of_ipus.items()}
    assert {*planes} <= {*processes.values()}
    shown = collections.defaultdict(list)
    for event in events:
        if event.get("ph") == "X":
            shown[processes[event["pid"]]].append(event)
    for plane, slices in planes.items():
        wanted = [piece for piece in slices if piece.end > piece.begin]
        assert collections.Counter(event["name"] for event in shown[plane]) == collections.Counter(
            piece.name for piece in wanted
        )
        (root,) = (event for event in shown[plane] if event["args"]["category"] == "run")
        seconds = program.device.target.seconds(program.device.cycles)
        assert root["dur"] / 1e6 == pytest.approx(seconds, rel=1e-6)
        assert int(root["args"]["cycles"]) == program.device.cycles


def test_the_environment_is_not_that_of_the_tests():
    assert Path(sys.prefix) != ENVIRONMENT
