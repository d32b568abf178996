"""`ipu-tf run` and scripts of the vendor's TensorFlow: their imports, modules and data."""

import sys

import pytest

from ipu_tf import cli, compat


def test_the_vendor_s_names_are_there_while_the_script_runs(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(
        "from tensorflow.python import ipu\n"
        "import keras\n"
        "config = ipu.config.IPUConfig()\n"
        "print(type(config).__module__, keras.ipu.PipelineStage.__name__)\n"
    )
    assert cli.main(["run", str(script)]) == 0
    assert capsys.readouterr().out == "ipu_tf.config.ipu_config PipelineStage\n"
    assert not compat.installed()
    assert "tensorflow.python.ipu" not in sys.modules


def test_names_that_were_installed_before_stay(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import popdist\n")
    compat.install()
    try:
        assert cli.main(["run", str(script)]) == 0
        assert compat.installed()
    finally:
        compat.uninstall()


def test_a_module_runs_from_the_current_folder(tmp_path, monkeypatch, capsys):
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "train.py").write_text(
        "import pickle, sys\n"
        "class Sample: pass\n"
        "assert type(pickle.loads(pickle.dumps(Sample()))) is Sample\n"
        "print(__name__, __spec__.name, sys.argv[1:])\n"
    )
    monkeypatch.chdir(tmp_path)
    assert cli.main(["run", "-m", "job.train", "--epochs", "2"]) == 0
    assert capsys.readouterr().out == "__main__ job.train ['--epochs', '2']\n"


@pytest.mark.parametrize("name", ["nowhere", "nowhere.to_be_found"])
def test_a_module_that_does_not_exist_is_named(name, capsys):
    assert cli.main(["run", "-m", name]) == 2
    assert capsys.readouterr().err == f"error: there is no module '{name}'.\n"


def test_a_failed_download_names_the_option(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    script = tmp_path / "script.py"
    script.write_text(
        "address = 'https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz'\n"
        "raise Exception(f'URL fetch failure on {address}: None -- unreachable')\n"
    )
    assert cli.main(["run", str(script)]) == 1
    error = capsys.readouterr().err
    assert "URL fetch failure" in error
    assert "`ipu-tf run --offline` gives the script generated data" in error


def test_offline_data_is_there_while_the_script_runs(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text(
        "from tensorflow.keras.datasets import boston_housing\n"
        "(x, _), _ = boston_housing.load_data()\n"
        "print('shape', x.shape)\n"
    )
    assert cli.main(["run", "--offline", str(script)]) == 0
    assert "shape (404, 13)\n" in capsys.readouterr().out
