"""`tf.contrib` has what scripts for IPUs use of it; its other names say that they are gone."""

import sys

import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import compat
from ipu_tf.compat.tensorflow1.contrib import contrib_modules
from ipu_tf.compat.tf_keras.context import keras_2_for_scripts


@pytest.fixture
def contrib():
    compat.install(keras=3)
    with contrib_modules():
        yield tf.contrib
    compat.uninstall()


def test_programs_are_compiled_by_its_xla(contrib):
    import tensorflow.contrib.compiler.xla as xla
    from tensorflow.contrib import framework
    from tensorflow.contrib.compiler.xla import compile as compile_computation

    assert xla.compile is compile_computation is ipu_tf.ipu_compiler.compile
    assert contrib.compiler.xla is xla
    assert framework.nest is tf.nest
    assert framework.get_or_create_global_step is tf.compat.v1.train.get_or_create_global_step
    assert contrib.data.AUTOTUNE is tf.data.experimental.AUTOTUNE


def test_the_vendors_modules_of_early_releases_are_there(contrib):
    from tensorflow.contrib import ipu
    from tensorflow.contrib.ipu.python import ipu_infeed_queue, loops

    assert loops.repeat is ipu_tf.loops.repeat
    assert ipu.utils.move_variable_initialization_to_cpu
    assert ipu_infeed_queue.IPUInfeedQueue is ipu_tf.ipu_infeed_queue.IPUInfeedQueue


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*is deprecated and:UserWarning")
def test_cells_and_layers_are_those_of_tensorflow_1(contrib):
    with keras_2_for_scripts():
        assert contrib.rnn.GRUCell is tf.compat.v1.nn.rnn_cell.GRUCell
        assert contrib.rnn.static_rnn is tf.compat.v1.nn.static_rnn
        assert contrib.layers.flatten is tf.compat.v1.layers.flatten


@pytest.mark.parametrize(
    ("name", "arguments", "variance"),
    [
        ("xavier_initializer", {}, 1 / 30),
        ("xavier_initializer", {"uniform": False}, 1 / 30),
        ("variance_scaling_initializer", {}, 2 / 20),
        ("variance_scaling_initializer", {"mode": "FAN_OUT", "uniform": True}, 2 / 40),
    ],
)
def test_initializers_scale_by_the_fans(contrib, name, arguments, variance):
    initializer = getattr(contrib.layers, name)(seed=1, **arguments)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        values = session.run(initializer((20, 40), tf.float32))
    # Normal numbers have 1.3 times the variance before they are truncated at two deviations.
    is_uniform = arguments.get("uniform", name.startswith("xavier"))
    most = np.sqrt(3 * variance) if is_uniform else 2 * np.sqrt(1.3 * variance)
    assert 0.97 * most < np.abs(values).max() <= 1.0001 * most
    np.testing.assert_allclose(values.var(), variance, rtol=0.15)


def test_regularizers_are_losses_of_weights(contrib):
    weights = tf.constant([3.0, -4.0])
    assert contrib.layers.l1_regularizer(0.5)(weights) == 3.5
    assert contrib.layers.l2_regularizer(0.5)(weights) == 6.25


def test_other_names_raise_when_they_are_used(contrib):
    from tensorflow.contrib.seq2seq import BasicDecoder

    with pytest.raises(NotImplementedError, match="`tensorflow.contrib.seq2seq.BasicDecoder` does"):
        BasicDecoder()
    with pytest.raises(NotImplementedError, match="--tf1` has only parts of it: compiler, "):
        contrib.layers.fully_connected([1])
    with pytest.raises(NotImplementedError, match="`tensorflow.contrib.slim` does not exist"):
        contrib.slim.conv2d  # noqa: B018


def test_it_goes_with_the_context():
    with contrib_modules():
        assert "tensorflow.contrib" in sys.modules
    assert not hasattr(tf, "contrib")
    with pytest.raises(ModuleNotFoundError, match="tensorflow.contrib"):
        import tensorflow.contrib.layers  # noqa: F401
