"""Scripts and the packages that they import find tf_keras; ipu_tf and Keras 3 find Keras 3."""

import contextlib
import importlib
import os
import sys

import keras
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import cli, compat
from ipu_tf.compat import environment
from ipu_tf.compat.missing import REASONS, Missing
from ipu_tf.compat.states import looked_up
from ipu_tf.compat.tf_keras import context
from ipu_tf.compat.tf_keras.places import TREE, place_of, source_of
from ipu_tf.compat.vendor_api import vendor_api

tf_keras = pytest.importorskip("tf_keras")

SCRIPT = """
import importlib
import keras
import keras.layers as named
import tensorflow as tf
import tensorflow.keras.layers
from keras import backend, layers
from keras.engine import data_adapter
from keras.ipu.layers.capture_upstream_gradients import CaptureUpstreamGradients
from keras.layers.recurrent import LSTM
from keras.optimizer_v2.adam import Adam
from keras.utils import np_utils
from tensorflow import keras as of_tensorflow
from tensorflow.keras.layers import Dense
from tensorflow.python.keras import backend as old_backend
from tensorflow.python.keras.engine.keras_tensor import KerasTensor
from tensorflow.python import ipu
from tensorflow.python import keras as of_python, training
from tensorflow.python.training import training_ops
import beside
import numpy as np
import tf_keras

assert keras.layers is named is layers is importlib.import_module("keras.layers")
assert Dense is tf.keras.layers.Dense is of_tensorflow.layers.Dense is tf_keras.layers.Dense
assert tensorflow.keras.Model is beside.keras.Model is tf.compat.v2.keras.Model is tf_keras.Model
assert of_python is keras and training.training_ops is training_ops
assert LSTM is tf_keras.layers.LSTM
assert Adam is tf_keras.optimizers.legacy.Adam is tf.optimizers.Adam
assert isinstance(keras.Input((2,)), KerasTensor)
assert old_backend.epsilon() == backend.epsilon() == 1e-7
assert backend.track_variable and np_utils.to_categorical and keras.engine.base_layer.Layer
assert data_adapter.unpack_x_y_sample_weight((1, 2)) == (1, 2, None)
assert np.int is int and training_ops.resource_apply_adam
assert keras.__version__ == tf_keras.__version__
assert keras.ipu.layers.LSTM is ipu.keras.layers.LSTM
assert issubclass(ipu.keras.layers.LSTM, tf_keras.layers.LSTM)
assert issubclass(CaptureUpstreamGradients, tf_keras.layers.Layer)
try:
    import keras.nowhere
except ModuleNotFoundError:
    print("ends")
"""


def is_stock():
    """Whether `tf.keras` is Keras 3, and nothing of Keras 2 for scripts is left."""
    tree = vars(sys.modules["tf_keras.api._v2.keras"])
    assert "TF_USE_LEGACY_KERAS" not in os.environ
    assert "__getattr__" not in tree
    assert tree["optimizers"].Adam is tf_keras.optimizers.Adam
    assert importlib.import_module("tensorflow.keras.layers").Dense is keras.layers.Dense
    return tf.keras.Model is keras.Model is tf.compat.v2.keras.Model


def test_a_script_and_the_modules_beside_it_find_keras_2(tmp_path, capsys):
    (tmp_path / "beside.py").write_text("import keras\n")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    finders = list(sys.meta_path)
    assert cli.main(["run", str(script)]) == 0, capsys.readouterr().err
    assert capsys.readouterr().out == "ends\n"
    assert is_stock()
    assert sys.meta_path == finders


def test_keras_is_stock_after_a_script_that_fails(tmp_path, capsys):
    script = tmp_path / "script.py"
    script.write_text("import keras\nraise RuntimeError(keras.Model.__module__)\n")
    assert cli.main(["run", str(script)]) == 1
    assert "RuntimeError: tf_keras.src.engine.training" in capsys.readouterr().err
    assert is_stock()


def test_installing_binds_the_keras_of_a_tensorflow_that_is_loaded():
    compat.install()
    try:
        import keras as of_scripts

        assert of_scripts.Model is tf.keras.Model is tf_keras.Model
        assert ipu_tf.keras.layers.LSTM.__mro__.index(keras.layers.LSTM)
        compat.install()
        compat.install(keras=3)
        assert tf.keras.Model is tf_keras.Model
    finally:
        compat.uninstall()
    assert is_stock()
    assert not compat.installed()


@pytest.mark.parametrize(
    ("options", "first", "found"),
    [
        ([], "", "tf_keras"),
        ([], "from ipu_tf import compat", "tf_keras"),
        ([], "import ipu_tf.config", "keras"),
        (["--keras", "2"], "import ipu_tf", "tf_keras"),
        (["--keras", "3"], "", "keras"),
    ],
)
@pytest.mark.parametrize("is_enabled", [False, True])
def test_a_script_gets_the_keras_that_it_is_written_for(
    tmp_path, capsys, options, first, found, is_enabled
):
    script = tmp_path / "script.py"
    script.write_text(f"{first}\nimport keras\nprint(keras.Model.__module__.partition('.')[0])\n")
    with context.keras_2_for_scripts() if is_enabled else contextlib.nullcontext():
        assert cli.main(["run", *options, str(script)]) == 0
        assert context.is_in_force() is is_enabled
    assert capsys.readouterr().out == f"{found}\n"
    assert is_stock()


def test_a_module_is_read_before_its_packages_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job_of_scripts").mkdir()
    (tmp_path / "job_of_scripts/__init__.py").write_text("import keras\n")
    (tmp_path / "job_of_scripts/__main__.py").write_text(
        "from job_of_scripts import keras\nprint(keras.Model.__module__.partition('.')[0])\n"
    )
    assert cli.main(["run", "-m", "job_of_scripts"]) == 0
    assert capsys.readouterr().out == "tf_keras\n"


@pytest.fixture(autouse=True)
def no_names():
    yield
    compat.uninstall()


def test_there_are_two_keras():
    with pytest.raises(ValueError, match=r"There are Keras 2 and Keras 3\. Received: keras=4\."):
        compat.install(keras=4)


WITHOUT_KERAS = """
import tensorflow as tf
from tensorflow.python import ipu

config = ipu.config.IPUConfig()
config.auto_select_ipus = 1
config.ipu_model.tiles_per_ipu = 4
config.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    print(strategy.run(tf.function(lambda x: x + 1.0), [tf.constant([2.0])]).numpy().tolist())
"""


def without_tf_keras(monkeypatch):
    """Hides tf_keras from what looks for it."""
    for name in [one for one in sys.modules if one.startswith("tf_keras.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "tf_keras", None)


@pytest.mark.parametrize(
    "line",
    [
        "import keras",
        "from tensorflow.python.keras import backend",
        "from tensorflow.python import keras",
        "import tensorflow as tf; tf.keras.Model",
    ],
)
def test_without_tf_keras_a_script_of_keras_is_told_the_command_that_installs_it(
    tmp_path, monkeypatch, capsys, line
):
    without_tf_keras(monkeypatch)
    script = tmp_path / "script.py"
    script.write_text(f"print('begins')\n{line}\n")
    assert cli.main(["run", str(script)]) == 1
    printed = capsys.readouterr()
    assert printed.out == "begins\n"
    assert "Install it: pip install ipu_tf[keras2]\n" in printed.err


def test_without_tf_keras_a_script_without_keras_runs(tmp_path, monkeypatch, capsys):
    without_tf_keras(monkeypatch)
    script = tmp_path / "script.py"
    script.write_text(WITHOUT_KERAS)
    assert cli.main(["run", "--offline", "--max-steps", "2", str(script)]) == 0
    assert capsys.readouterr().out == "[3.0]\n"


def test_the_file_of_an_environment_says_which_keras(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.sysconfig, "get_path", lambda name: str(tmp_path))
    for version, line in (("2", "install()"), ("3", "install(keras=3)")):
        assert cli.main(["compat", "--enable", "--keras", version]) == 0
        assert line in environment.path().read_text()
    assert cli.main(["compat", "--disable"]) == 0


def test_modules_of_keras_have_places_in_tf_keras():
    assert place_of("keras") == place_of("tensorflow.keras") == "tf_keras.api._v2.keras"
    assert place_of("keras.src.losses") == "tf_keras.src.losses"
    assert place_of("kerastuner") is place_of("tensorflow") is None
    legacy = "tf_keras.src.optimizers.legacy"
    assert source_of("optimizer_v2") == source_of("optimizers.optimizer_v2") == legacy
    assert source_of("optimizer_v2.adam") == f"{legacy}.adam"
    initializers = "tf_keras.src.initializers.initializers"
    assert source_of("initializers.initializers_v2") == initializers
    assert source_of("testing_utils") == "tf_keras.src.testing_infra.test_utils"
    assert source_of("layers.core") == TREE + ".layers"
    assert source_of("layers.core.dense") == "tf_keras.src.layers.core.dense"
    assert source_of("saving.hdf5_format") == "tf_keras.src.saving.legacy.hdf5_format"
    assert source_of("engine.nowhere") is source_of("losses.nowhere") is None


def test_the_vendor_s_names_of_keras_are_those_of_keras_3():
    # `keras.ipu` is what it says of a Keras, `ipu.keras` what was chosen.
    places = [name.replace("keras.ipu", "ipu.keras") for name in vendor_api()]
    of_keras = [name for name in places if "keras" in name.split(".")[:2]]
    names = [name for name in of_keras if name.replace("ipu.keras", "keras.ipu") not in REASONS]
    missing = []
    for version in (2, 3):
        compat.install(keras=version)
        missing.append([name for name in names if isinstance(looked_up(name), Missing)])
        compat.uninstall()
    assert missing[0] == missing[1] != []


@pytest.mark.filterwarnings("ignore:.*is deprecated and:UserWarning")
def test_layers_and_cells_of_graphs_are_there():
    with context.keras_2_for_scripts(), tf.Graph().as_default():
        import tensorflow.compat.v1 as imported

        hidden = imported.layers.dense(tf.ones((2, 3)), 4, name="first")
        cell = tf.compat.v1.nn.rnn_cell.BasicLSTMCell(5)
        output, state = cell(hidden, cell.zero_state(2, tf.float32))
        assert (output.shape, state.h.shape) == ((2, 5), (2, 5))
        names = [variable.name for variable in tf.compat.v1.trainable_variables()]
        assert names[:2] == ["first/kernel:0", "first/bias:0"]
    with pytest.raises(AttributeError, match="not available with Keras 3"):
        tf.compat.v1.layers.dense  # noqa: B018
