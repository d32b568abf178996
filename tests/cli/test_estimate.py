"""`ipu-tf estimate`: what it prints, and one line and exit code 2 for bad input."""

import re
import sys
from pathlib import Path

import keras
import pytest

from ipu_tf import cli, zoo
from ipu_tf.base.model_names import networks_of_zoo
from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli import files
from ipu_tf.cli.step_options import OPTIMIZERS
from ipu_tf.profile.report import Report

MODELS = "tests.sample_models"
MACHINES = "tests.sample_machines"


def test_estimate_prints_the_report(capsys):
    assert cli.main(["estimate", f"{MODELS}:mlp", "--batch-size", "8"]) == 0
    printed = capsys.readouterr()
    assert "Program 'mlp.train_step'" in printed.out
    assert "SGD and sparse_categorical_crossentropy are assumed" in printed.out
    assert printed.err.startswith("mlp.train_step: trace\nmlp.train_step: extract HLO\n")


def test_estimate_of_a_prediction_on_another_chip(capsys, tmp_path):
    path = tmp_path / "report.json"
    arguments = ["estimate", f"{MODELS}:mlp", "--chip", "gc2", "--inference", "--json", str(path)]
    assert cli.main([*arguments, "--plans"]) == 0
    assert "float32 partials" in capsys.readouterr().out
    report = Report.from_json(path)
    assert report.programs[0].name == "mlp.predict_step"


@pytest.mark.slow
def test_estimate_with_insights(capsys, tmp_path):
    path = tmp_path / "report.json"
    arguments = ["estimate", f"{MODELS}:mlp", "--batch-size", "8", "--json", str(path)]
    assert cli.main([*arguments, "--insights"]) == 0
    (program,) = Report.from_json(path).programs
    assert program.insights[0].change == "micro_batch"
    assert f"to gain: {program.insights[0].speedup:.2f} x" in capsys.readouterr().out


@pytest.mark.slow
def test_estimate_on_a_machine_of_ones_own(capsys):
    arguments = ["estimate", f"{MODELS}:mlp", "--chip", f"{MACHINES}:PAIR", "--ipus", "2"]
    assert cli.main(arguments) == 0
    assert "on own pair, 2 replicas of one own IPU, 37 tiles" in capsys.readouterr().out


def test_estimate_on_a_whole_system(capsys):
    assert cli.main(["estimate", f"{MODELS}:mlp", "--system", "bow-pod16"]) == 0
    assert "on bow-pod16, 16 replicas of one bow IPU" in capsys.readouterr().out


@pytest.mark.slow
def test_estimate_of_a_network_of_the_zoo(capsys):
    assert cli.main(["estimate", "zoo:resnet50", "--system", "bow-pod16"]) == 0
    printed = capsys.readouterr().out
    assert "Program 'resnet50.train_step' on bow-pod16, 16 replicas" in printed
    assert "assumed" not in printed


@pytest.mark.slow
def test_estimate_of_packed_graphs_of_the_zoo(capsys):
    assert cli.main(["estimate", "zoo:mpnn", "--batch-size", "32"]) == 0
    printed = capsys.readouterr().out
    assert "32 samples" in printed
    (balance,) = re.findall(r"tile balance +([0-9.]+)% of the tiles", printed)
    assert float(balance) > 50  # Messages are summed on all tiles.


@pytest.mark.slow
# TensorFlow, of the gradient of the embedding; its numbers are never computed.
@pytest.mark.filterwarnings("ignore:Converting sparse IndexedSlices:UserWarning")
def test_estimate_of_175_billion_weights(capsys, tmp_path):
    path = tmp_path / "report.json"
    arguments = ["zoo:gpt3_175b", "--system", "bow-pod256", "--json", str(path)]
    assert cli.main(["estimate", *arguments]) == 0
    assert "lacks the figures of single tiles" in path.read_text()
    printed = capsys.readouterr().out
    assert "4 replicas of 64 bow IPUs" in printed
    assert "OUT OF MEMORY" in printed


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["zoo:alexnet"], "the zoo has no network of that name. .*Received: 'alexnet'"),
        ([f"{MODELS}:mlp", "--system", "pod7"], "Unknown system. .*Received: 'pod7'"),
        (
            [f"{MODELS}:mlp", "--system", "pod16", "--ipus", "4"],
            "leave out --chip and --ipus. Received: --system pod16, --chip None, --ipus 4",
        ),
    ],
)
def test_networks_and_systems_that_are_not_there(words, message, capsys):
    assert cli.main(["estimate", *words]) == 2
    assert re.search(message, capsys.readouterr().err)


def test_networks_and_optimizers_are_known_without_keras():
    assert networks_of_zoo() == tuple(zoo.NETWORKS)
    classes = {name for name, one in vars(keras.optimizers).items() if isinstance(one, type)}
    assert set(OPTIMIZERS) == {name.lower() for name in classes}


def test_the_closest_name_is_suggested(capsys):
    for words in (["zoo:resnet51"], ["tests/sample_models.py:mpl"]):
        assert cli.main(["estimate", *words]) == 2
    error = capsys.readouterr().err
    assert "error: the zoo has no network of that name. Did you mean 'resnet50'? Choose" in error
    assert "has no function 'mpl'. Did you mean 'mlp'?" in error


@pytest.mark.parametrize(
    ("path", "message"),
    [(".", "it is a folder"), ("no/x.json", "there is no folder no"), ("locked", "permission den")],
)
def test_a_file_that_cannot_be_written_is_refused_first(path, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match=f"cannot write {path}: {message}"):
        files.check_writable(Path(path))


def test_a_folder_that_cannot_be_written_or_made_is_refused_first(tmp_path, monkeypatch):
    files.check_writable_folder(tmp_path / "new" / "tables")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"file/tables: .*file is not a folder\."):
        files.check_writable_folder(tmp_path / "file" / "tables")
    monkeypatch.setattr(files.os, "access", lambda path, mode: False)
    with pytest.raises(UsageError, match="tables: permission denied"):
        files.check_writable_folder(tmp_path / "tables")


@pytest.mark.parametrize(
    "words",
    [
        ["compare", "none.json", "none.json", "--html"],
        ["report", "none.json", "--perfetto"],
        ["sweep", "none.toml", "--csv"],
        ["sweep", "none.toml", "--html"],
    ],
)
def test_commands_check_their_files_before_they_read_anything(words, capsys):
    assert cli.main([*words, "/no/such/file"]) == 2
    assert "cannot write /no/such/file: there is no folder /no/such." in capsys.readouterr().err


def test_operations_without_a_cost_stop_it_unless_told_otherwise(capsys):
    assert cli.main(["estimate", f"{MODELS}:spectrum"]) == 2
    assert "fft in 'spectrum'" in capsys.readouterr().err
    assert cli.main(["estimate", f"{MODELS}:spectrum", "--unsupported", "warn"]) == 0
    assert "incomplete: 'fft' has no cost, in spectrum" in capsys.readouterr().out


def test_functions_may_be_attributes_of_classes(capsys):
    assert cli.main(["estimate", "keras:applications.nothing"]) == 2
    assert "module 'keras' has no function 'applications.nothing'" in capsys.readouterr().err


MODEL_FILE = """\
from __future__ import annotations

import dataclasses

import keras
from neighbour import WIDTH


@dataclasses.dataclass  # It looks its module up.
class Sizes:
    out: int = 2


def net():
    return keras.Sequential([keras.Input((WIDTH,)), keras.layers.Dense(Sizes().out)], name="filed")
"""


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("path", ["./models.py", "models.py", "{folder}/models.py"])
def test_a_file_may_stand_for_its_module(path, tmp_path, monkeypatch, capsys):
    (tmp_path / "models.py").write_text(MODEL_FILE)
    (tmp_path / "neighbour.py").write_text("WIDTH = 12")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.delitem(sys.modules, "neighbour", raising=False)
    if not path.startswith("{"):
        monkeypatch.chdir(tmp_path)
    assert cli.main(["estimate", f"{path.format(folder=tmp_path)}:net"]) == 0
    assert "Program 'filed.train_step'" in capsys.readouterr().out


def test_a_model_or_a_class_may_stand_for_a_function(capsys):
    assert cli.main(["estimate", f"{MODELS}:MODEL"]) == 0
    assert "Program 'mlp.train_step'" in capsys.readouterr().out
    assert cli.main(["estimate", f"{MODELS}:OfFixedWidth"]) == 0
    assert "Program 'fixed.train_step'" in capsys.readouterr().out


@pytest.mark.parametrize("named", ["broken:net", "broken.py:net"])
def test_a_syntax_error_is_one_line(named, tmp_path, monkeypatch, capsys):
    (tmp_path / "broken.py").write_text("import keras\n\ndef net(:\n")
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    assert cli.main(["estimate", named]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "broken.py, line 3 is not valid Python: invalid syntax. Correct it." in error


def test_a_file_of_a_package_is_named_as_its_module(tmp_path, capsys):
    (tmp_path / "inner.py").write_text("from . import net\n")
    assert cli.main(["estimate", f"{tmp_path}/inner.py:net"]) == 2
    assert "imports from the package around it. Name it as a module" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["no_such_module:f"], "there is no module 'no_such_module' here"),
        (["tests.nothing:f"], "there is no module 'tests.nothing' here"),
        (["tests.needs_missing:f"], "imports 'module_that_is_missing', which is not installed"),
        ([f"{MODELS}:nothing"], f"module '{MODELS}' has no function 'nothing'"),
        ([f"{MODELS}:NOT_A_FUNCTION"], "has no function 'NOT_A_FUNCTION'. Name a function that m"),
        ([f"{MODELS}:NOT_A_FUNCTION"], "makes a model, or a model. Received: int."),
        (
            ["no_colon"],
            "the model as MODULE:FUNCTION, FILE.py:FUNCTION or zoo:NETWORK. Received: 'no_colon'",
        ),
        ([".models:net"], "Write 'models:net'. Received: '.models:net'"),
        (["tests/sample_models:mlp"], "Write 'tests/sample_models.py:mlp'. Received: 'tests/"),
        (["no/such/models:mlp"], "or a file with its '.py'. Write 'no.such.models:mlp'. Received"),
        (["no_such_file.py:mlp"], "there is no file 'no_such_file.py'. Received: 'no_such_file"),
        (["tests/needs_missing.py:f"], "imports 'module_that_is_missing', which is not installed"),
        (["tests/sample_models.py:none"], "file 'tests/sample_models.py' has no function 'none'"),
        ([f"{MODELS}:OfWidth"], "class 'OfWidth' of 'tests.sample_models' needs arguments, and n"),
        ([f"{MODELS}:OfWidth"], "Received: a class of width."),
        ([f"{MODELS}:NotAModel"], "Received: NotAModel, made by <function NotAModel"),
        ([f"{MODELS}:not_a_model"], "Received: int, made by <function not_a_model"),
        ([f"{MODELS}:of_width"], "needs arguments, and none are passed. Name a function that"),
        ([f"{MODELS}:of_width"], "Received: a function of width."),
        ([f"{MODELS}:without_static_shape"], "has no static shape"),
        (
            [f"{MODELS}:LAYER"],
            "has no function 'LAYER'. Name a function that makes a model",
        ),
        ([f"{MODELS}:LAYER"], "Received: Dense."),
        (
            [f"{MODELS}:Subclass"],
            "Call it on one (`x = keras.Input(...)`, `keras.Model(x, mo",
        ),
        ([f"{MODELS}:subclass"], "does not declare its inputs"),
        ([f"{MODELS}:mlp", "--batch-size", "0"], "`batch_size` must be a positive int"),
        (
            [f"{MODELS}:mlp", "--batch-size", "1099511627776"],
            "`batch_size` must be at most 2,147",
        ),
        ([f"{MODELS}:mlp", "--ipus", "3"], "IPUs are used in powers of two"),
        ([f"{MODELS}:mlp", "--ipus", "4096"], "No system has 4096 bow IPUs"),
        ([f"{MODELS}:mlp", "--json", "/no/such/folder/x.json"], "cannot write"),
        ([f"{MODELS}:mlp", "--chip", "gc9"], "bow, c600, or MODULE:NAME of a target or system. R"),
        ([f"{MODELS}:mlp", "--chip", f"{MODELS}:none"], "has no target or system 'none'"),
        ([f"{MODELS}:mlp", "--chip", f"{MODELS}:mlp"], "Trying to set simulator.chip to <function"),
        ([f"{MODELS}:mlp", "--chip", f"{MACHINES}:ALONE"], "No known system has 'own' IPUs"),
        ([f"{MODELS}:mlp", "--chip", f"{MACHINES}:PAIR", "--ipus", "4"], "No system has 4 own IPU"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, message, capsys):
    assert cli.main(["estimate", *arguments]) == 2
    error = capsys.readouterr().err
    *progress, last = error.splitlines()
    assert last.startswith("error: ")
    assert message in last
    assert not [line for line in progress if not line.startswith("mlp.train_step: ")]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["estimate", f"{MODELS}:mlp", "--batch-size", "many"], "invalid int value"),
        (["estimate"], "MODULE:FUNCTION"),
    ],
)
def test_the_parser_refuses_with_exit_code_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as exit_:
        cli.main(arguments)
    assert exit_.value.code == 2
    assert message in capsys.readouterr().err


def test_errors_of_the_users_function_are_the_users():
    with pytest.raises(ValueError, match="the user's own mistake"):
        cli.main(["estimate", f"{MODELS}:failing"])


def test_figures_come_before_the_insights(tmp_path, monkeypatch, capsys):
    (tmp_path / "net.py").write_text(
        "import keras\n\n\ndef net():\n"
        "    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])\n"
    )
    monkeypatch.delenv("IPU_TF_INSIGHTS", raising=False)
    assert cli.main(["estimate", f"{tmp_path / 'net.py'}:net", "--batch-size", "8"]) == 0
    text = capsys.readouterr().out
    figures, _, gains = text.partition("  to gain: ")
    assert "on the device" in figures
    assert "1 tile ops" in figures or "2 tile ops" in figures
    assert "tile ops" not in gains
    last = [line for line in gains.splitlines() if line]
    assert "-bound, " in last[-2]
    assert last[-1].startswith("note: ")
