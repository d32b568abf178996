"""`ipu-tf report`: report files as JSON, and in the formats of other programs."""

import gzip
import json

import pytest

from ipu_tf import cli
from ipu_tf.profile.report import Report
from ipu_tf.programs.program import Program
from tests.profile import programs


@pytest.fixture
def path(tmp_path):
    report = Report(programs=(Program(name="net", device=programs.device_program()),), notes=("n",))
    report.to_json(tmp_path / "a.json")
    return tmp_path / "a.json"


def test_it_prints_the_timeline(path, capsys):
    assert cli.main(["report", str(path), "--timeline"]) == 0
    assert capsys.readouterr().out == Report.from_json(path).timeline() + "\n"


def test_it_prints_the_figures_of_the_file(path, capsys):
    assert cli.main(["report", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"figures": json.loads(path.read_text())["figures"], "notes": ["n"]}


def test_it_writes_traces_and_tables(path, tmp_path, capsys):
    trace, logs, tables = tmp_path / "a.pftrace", tmp_path / "logs", tmp_path / "tables"
    words = ["--perfetto", str(trace), "--xplane", str(logs), "--csv", str(tables)]
    assert cli.main(["report", str(path), *words]) == 0
    assert capsys.readouterr().out == (
        f"Wrote {trace}: open it in https://ui.perfetto.dev.\n"
        f"Wrote {logs}: run `tensorboard --logdir` on it.\n"
        f"Wrote {tables}: open the tables in it.\n"
    )
    assert trace.stat().st_size > 0
    assert len(list(logs.glob("plugins/profile/*/*.xplane.pb"))) == 1
    assert (tables / "steps.csv").exists()


def test_it_reads_compressed_files(path, tmp_path, capsys):
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert cli.main(["report", str(packed)]) == 0
    assert "Program 'net'" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--perfetto", "/no/such/a"], "cannot write /no/such/a: there is no folder /no/such."),
        (["--csv", "/dev/null/a"], "cannot write /dev/null/a: /dev/null is not a folder."),
        (["--xplane", "/dev/null/a"], "cannot write /dev/null/a: /dev/null is not a folder."),
    ],
)
def test_what_cannot_be_written_is_one_line_and_exit_code_2(path, words, message, capsys):
    assert cli.main(["report", str(path), *words]) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")
