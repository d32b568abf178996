"""`ipu-tf sweep`: files of sweeps, and what is wrong with them."""

import json

import pytest

from ipu_tf import cli
from ipu_tf.sweep import processes
from tests.profile.html.pages import data

SPEC = """
model = "tests.sweep.sweep_models:dense"
chip = "bow"
batch_size = [2, 4]
tile_kib = ["chip", 4]

[[streaming]]
gib = 96
gb_per_second = 3000
name = "HBM3"
"""


@pytest.fixture
def spec(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text(SPEC)
    return path


def test_a_sweep_of_a_file(spec, tmp_path, capsys):
    files = ["--csv", str(tmp_path / "a.csv"), "--html", str(tmp_path / "a.html")]
    assert cli.main(["sweep", str(spec), "--processes", "1", *files]) == 0
    captured = capsys.readouterr()
    assert "4 estimates of training steps of tests.sweep.sweep_models:dense" in captured.out
    assert "too large" in captured.out
    assert captured.err.splitlines()[0] == "4 points"
    assert "4 of 4, about 0 s left" in captured.err
    assert (tmp_path / "spec.results.jsonl").exists()
    assert (tmp_path / "a.csv").read_text().count("\n") == 5
    assert data((tmp_path / "a.html").read_text())["title"].startswith("Sweep of tests.sweep")
    # Again: nothing is left to estimate.
    assert cli.main(["sweep", str(spec), "--processes", "1", "--json"]) == 0
    captured = capsys.readouterr()
    found = json.loads(captured.out)
    assert [entry["point"]["batch_size"] for entry in found] == [2, 4, 2, 4]
    assert found[0]["point"]["streaming"] == "HBM3"
    assert captured.err == "4 points, 4 known from an earlier run\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("model = ", "spec.toml is not valid TOML"),
        ("chip = ['bow']", "needs a model: .* Received: None"),
        ("model = 'a:b'\nchips = ['bow']", "has keys that no sweep has. .*Received: chips"),
        ("model = 'a:b'\nbatch_size = 0", "`batch_size` of a sweep must be positive ints"),
        ("model = 'a:b'\ntraining = 1", "training must be true or false. Received: 1"),
        ("model = 'a:b'\nstreaming = [{gib = 1}]", "streaming: .*gb_per_second"),
        ("model = 'a:b'\nstreaming = [{gib = -1, gb_per_second = 1}]", "gib must be positive"),
    ],
)
def test_files_that_describe_no_sweep(spec, capsys, content, message):
    import re

    spec.write_text(content)
    assert cli.main(["sweep", str(spec)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert re.search(message, error)


def test_a_missing_file_and_json(tmp_path, capsys):
    assert cli.main(["sweep", str(tmp_path / "none.toml")]) == 2
    assert "none.toml: No such file" in capsys.readouterr().err
    path = tmp_path / "spec.json"
    path.write_text("[]")
    assert cli.main(["sweep", str(path)]) == 2
    assert "must hold an object with the parameters" in capsys.readouterr().err


def test_when_every_estimate_fails(spec, capsys):
    spec.write_text("model = 'tests.sweep.sweep_models:broken'")
    assert cli.main(["sweep", str(spec), "--processes", "1"]) == 2
    assert "every estimate failed, the first with: RuntimeError: no" in capsys.readouterr().err


def test_files_are_beside_the_spec_wherever_the_command_runs(tmp_path, capsys, monkeypatch):
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "net.py").write_text("from tests.sweep.sweep_models import broken as net")
    spec = tmp_path / "specs" / "spec.toml"
    spec.write_text("model = 'net.py:net'\ntraining = false")
    for folder, name in ((tmp_path, "specs/spec.toml"), (spec.parent, "spec.toml")):
        monkeypatch.chdir(folder)
        assert cli.main(["sweep", name, "--processes", "1"]) == 2
        assert "the first with: RuntimeError: no model today" in capsys.readouterr().err
    assert json.loads(spec.with_suffix(".results.jsonl").read_text().splitlines()[0])["model"] == (
        "net.py:net"
    )


@pytest.mark.parametrize("line", ["model = 'none.py:net'", "model = 'a:b'\nchip = 'none.py:net'"])
def test_a_file_that_is_not_there_starts_no_process(spec, capsys, monkeypatch, line):
    monkeypatch.setattr(processes, "_Worker", None)
    spec.write_text(line)
    assert cli.main(["sweep", str(spec), "--processes", "2"]) == 2
    wanted = f"error: there is no file '{spec.parent}/none.py'. Received: "
    assert capsys.readouterr().err.startswith(wanted)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("model = 'zoo:resnet51'", "the zoo has no network of that name. Did you mean 'resnet50'?"),
        ("model = 'net.py:mpl'", "net.py' has no function 'mpl'. Did you mean 'mlp'?"),
        ("model = 'no_such_module:net'", "there is no module 'no_such_module' here"),
        ("model = 'net.py:mlp'\nchip = 'net.py:chp'", "net.py' has no target or system 'chp'."),
    ],
)
def test_a_name_of_nothing_starts_no_process(spec, capsys, monkeypatch, lines, message):
    monkeypatch.setattr(processes, "_Worker", None)
    (spec.parent / "net.py").write_text("raise RuntimeError\nmlp = 1")
    spec.write_text(lines)
    assert cli.main(["sweep", str(spec), "--processes", "2"]) == 2
    assert message in capsys.readouterr().err
    assert not spec.with_suffix(".results.jsonl").exists()
