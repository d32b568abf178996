"""`ipu-tf run`: a script runs as under `python`, and its report is written."""

import gc
import json
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import keras
import pytest

from ipu_tf import IPUStrategy, cli, config
from ipu_tf.profile.report import Report

SCRIPT = Path(__file__).with_name("sample_script.py")


@pytest.fixture
def script(tmp_path, monkeypatch):
    """The script's path from a folder that is not its own; a neighbour lies beside it."""
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "train.py").write_text(SCRIPT.read_text())
    (tmp_path / "scripts" / "neighbour_of_script.py").write_text("NAME = 'beside'\n")
    (tmp_path / "data.txt").write_text("data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "neighbour_of_script", raising=False)
    return "scripts/train.py"


def test_a_script_runs_as_under_python_and_its_report_is_written(script, capsys):
    before = sys.argv, sys.path, sys.modules["__main__"]
    assert cli.main(["run", "--report", "out", script, "--epochs", "2"]) == 0
    assert (sys.argv, sys.path, sys.modules["__main__"]) == before
    printed = capsys.readouterr()
    assert printed.out.splitlines() == [
        "words ['--epochs', '2']",
        "here data",
        "main True",
        "neighbour beside",
    ]
    for name in ("json", "txt", "html"):
        assert f"report: out/report.{name}\n" in printed.err
    assert "scripted.train_step: extract HLO\n" in printed.err
    report = Report.from_json("out/report.json")
    assert [program.name for program in report.programs] == ["scripted.train_step"]
    assert "execution" in {span.category for span in report.host.spans}
    assert "scripted.train_step" in Path("out/report.txt").read_text()


def collecting_garbage(method):
    """A method before which all garbage is collected."""

    def collected(*arguments, **options):
        gc.collect()
        return method(*arguments, **options)

    return collected


@pytest.mark.slow
def test_insights_are_in_the_report(script, monkeypatch):
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    # The models of a script that ends by `sys.exit` live until its report is made.
    monkeypatch.setattr(IPUStrategy, "report", collecting_garbage(IPUStrategy.report))
    assert cli.main(["run", "--report", "out", script]) == 0
    (program,) = Report.from_json("out/report.json").programs
    assert program.insights
    assert f"to gain: {program.insights[0].speedup:.2f} x" in Path("out/report.txt").read_text()


@pytest.mark.slow
def test_insights_may_be_left_out(script, monkeypatch):
    monkeypatch.delenv("IPU_TF_INSIGHTS")
    words = ["run", "--report", "out", "--format", "json", "--no-insights", script]
    assert cli.main(words) == 0
    assert Report.from_json("out/report.json").programs[0].insights == ()


def test_few_steps_try_a_script_out(script, capsys):
    words = ["run", "--report", "out", "--format", "json", "--max-steps", "1", script]
    assert cli.main(words) == 0
    spans = Report.from_json("out/report.json").host.spans
    assert sum(span.steps for span in spans if span.category == "execution") == 1
    told = capsys.readouterr().err.partition("--max-steps 1 cut loops of this script short. ")[2]
    assert told.splitlines()[1].startswith("  `fit` of model 'scripted' runs 1 of ")
    with pytest.raises(SystemExit):
        cli.main(["run", "--help"])
    assert "loops over tf.range" in " ".join(capsys.readouterr().out.split())
    assert cli.main(["run", "--max-steps", "0", script]) == 2
    assert "--max-steps must be at least 1. Received: 0." in capsys.readouterr().err


OF_TENSORFLOW_1 = """
import tensorflow as tf
import tensorflow.contrib.compiler.xla as xla
from tensorflow.python import ipu

x = tf.placeholder(tf.float32, [6 / 3])
assert tf.estimator.ModeKeys.TRAIN == "train"
config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.configure_ipu_system()
with ipu.scopes.ipu_scope("/device:IPU:0"):
    (doubled,) = xla.compile(lambda x: 2 * x, [x])
with tf.Session() as session:
    print("doubled", session.run(doubled, {x: [1.0, 2.0]}))
"""


@pytest.mark.slow
def test_a_script_of_tensorflow_1_has_graphs_and_sessions(tmp_path):
    (tmp_path / "v1.py").write_text(OF_TENSORFLOW_1)
    run = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True)
    command = [sys.executable, "-m", "ipu_tf", "run"]
    failed = run([*command, "v1.py"])
    assert failed.returncode == 1
    assert "Give `ipu-tf run` the option --tf1" in failed.stderr
    done = run([*command, "--tf1", "v1.py"])
    assert (done.returncode, done.stdout) == (0, "doubled [2. 4.]\n")


CONFIGURES = """
import os
import keras
import ipu_tf
from tensorflow.python import ipu

os.environ["TF_POPLAR_FLAGS"] = "--use_ipu_model"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "0"
os.environ["POPLAR_ENGINE_OPTIONS"] = '{"autoReport.all": "true", "autoReport.directory": "auto"}'
os.chdir("scripts")
config = ipu.config.IPUConfig()
config.ipu_model.tiles_per_ipu = 7
config.configure_ipu_system()
with ipu.ipu_strategy.IPUStrategy().scope():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="automatic")
    model.predict(keras.ops.ones((4, 4)), batch_size=4, verbose=0)
raise SystemExit(5)
"""


def test_the_process_is_as_before_and_the_reports_of_the_environment_are_written(
    script, monkeypatch, capsys
):
    Path(script).write_text(CONFIGURES)
    monkeypatch.delenv("POPLAR_ENGINE_OPTIONS", raising=False)
    before, device = dict(os.environ), config.device_configuration()
    modules = {name for name in sys.modules if "ipu" in name.split(".")}
    assert cli.main(["run", script]) == 5
    assert dict(os.environ) == before
    assert Path("data.txt").exists()
    assert config.device_configuration() == device
    assert {name for name in sys.modules if "ipu" in name.split(".")} == modules
    assert not hasattr(keras, "ipu")
    assert "report.html" in capsys.readouterr().err
    (program,) = Report.from_json("scripts/auto/report.json").programs
    assert program.name == "automatic.predict_step"
    assert program.device.target.tiles == 7


def test_a_script_that_cannot_be_parsed_shows_its_line_alone(tmp_path, capsys):
    (tmp_path / "a.py").write_text("x = 1\nif x\n")
    assert cli.main(["run", str(tmp_path / "a.py")]) == 1
    error = capsys.readouterr().err
    assert error.endswith("SyntaxError: expected ':'\n")
    assert 'a.py", line 2' in error
    assert "run.py" not in error


@pytest.mark.slow
def test_without_a_report_nothing_is_written_or_recorded(script, capsys):
    assert cli.main(["run", script, "three"]) == 3
    printed = capsys.readouterr()
    assert printed.err == ""
    assert sorted(path.name for path in Path().iterdir()) == ["data.txt", "scripts"]


def test_a_failing_script_has_its_own_traceback_and_still_a_report(script, capsys):
    words = ["run", "--report", "out", "--format", "json", "--format", "csv", script, "fail"]
    assert cli.main(words) == 1
    error = capsys.readouterr().err
    assert 'File "scripts/train.py"' in error
    assert "RuntimeError: the script's own error" in error
    assert "runpy" not in error
    assert sorted(path.name for path in Path("out").iterdir()) == ["report.json", "tables"]


def test_a_traceback_through_imports_is_the_scripts_alone(script, capsys):
    Path("scripts/failing.py").write_text("import keras\nimport broken_neighbour\n")
    Path("scripts/broken_neighbour.py").write_text("raise RuntimeError('of the neighbour')\n")
    assert cli.main(["run", "scripts/failing.py"]) == 1
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line.split('"')[1].rpartition("/")[2] for line in lines if "File" in line] == [
        "failing.py",
        "broken_neighbour.py",
    ]
    assert lines[-1] == "RuntimeError: of the neighbour"


@pytest.mark.slow
def test_it_prints_figures_as_json_after_the_script(script, capsys):
    assert cli.main(["run", "--json", script]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed[printed.index("{") :])
    assert [figures["program"] for figures in found["figures"]] == ["scripted.train_step"]


def test_a_message_of_exit_is_printed_and_the_code_is_1(tmp_path, capsys):
    (tmp_path / "a.py").write_text("import sys; sys.exit('no data')")
    assert cli.main(["run", str(tmp_path / "a.py")]) == 1
    assert capsys.readouterr().err == "no data\n"


def test_a_script_without_a_strategy_has_an_empty_report(tmp_path, capsys):
    (tmp_path / "a.py").write_text("print('nothing')")
    words = ["run", "--report", str(tmp_path / "out"), str(tmp_path / "a.py")]
    assert cli.main(words) == 0
    assert Report.from_json(tmp_path / "out" / "report.json").programs == ()
    assert "No program has been traced" in (tmp_path / "out" / "report.txt").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no_such.py"], "error: there is no script 'no_such.py'.\n"),
        (["--format", "pdf", __file__], "error: `--format` takes a list of 'json', 'text', "),
        (["--report", "/proc/no/such", __file__], "error: cannot write /proc/no: "),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(words, message, capsys):
    assert cli.main(["run", *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_a_script_that_needs_no_tensorflow_loads_none(tmp_path):
    (tmp_path / "a.py").write_text(
        "import sys; print([n for n in ('tensorflow', 'keras') if n in sys.modules])"
    )
    words = [sys.executable, "-m", "ipu_tf", "run", "--report", tmp_path / "o", tmp_path / "a.py"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [
        "import keras",
        "from keras.src import tree",
        "import tf_keras",
        "import tensorflow_probability",
    ],
)
def test_packages_that_import_tensorflow_may_come_before_it(first, tmp_path):
    # Keras 3 is half imported when it imports TensorFlow, which is then adapted.
    (tmp_path / "a.py").write_text(
        f"{first}\nimport ipu_tf, keras, numpy\nprint(keras.__version__[0], numpy.int is int)\n"
    )
    words = [sys.executable, "-m", "ipu_tf", "run", tmp_path / "a.py"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "3 True\n"


def test_the_first_nan_of_a_script_is_named(tmp_path, caplog, capsys):
    (tmp_path / "nan.py").write_text(
        "import tensorflow as tf\n"
        "import ipu_tf\n"
        "cfg = ipu_tf.config.IPUConfig()\n"
        "cfg.ipu_model.tiles_per_ipu = 16\n"
        "cfg.configure_ipu_system()\n"
        "strategy = ipu_tf.IPUStrategy(enable_keras_extensions=False)\n"
        "strategy.run(tf.function(tf.sqrt), args=(tf.constant([-1.0]),))\n"
    )
    assert cli.main(["run", str(tmp_path / "nan.py")]) == 0
    assert "not finite" not in caplog.text + capsys.readouterr().err
    assert cli.main(["run", "--trace-numerics", str(tmp_path / "nan.py")]) == 0
    assert "the first result that is not finite is of op 'Sqrt' (Sqrt)" in caplog.text
    assert not config.device_configuration().trace_numerics
    lines = [line.strip() for line in capsys.readouterr().err.splitlines()]
    shown = lines[lines.index("Program 'sqrt':") :]
    assert shown[1:3] == [
        "first value that is not finite: invalid operation",
        "operation     Sqrt (Sqrt)",
    ]
    assert any(line.startswith("to do         keep its operand at or above 0") for line in shown)
    (tmp_path / "none.py").write_text("")
    assert cli.main(["run", "--trace-numerics", str(tmp_path / "none.py")]) == 0
    assert "No NaN and no overflow was found in 0 traced programs;" in capsys.readouterr().err
