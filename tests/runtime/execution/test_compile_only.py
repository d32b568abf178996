"""Connection types without a device: programs are compiled, and do not run."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, ipu_compiler
from ipu_tf.config import DeviceConnectionType, reset_ipu_configuration
from ipu_tf.scopes import ipu_scope

REFUSED = r"configured for compilation only, because `device_connection.type` is NEVER"


@pytest.fixture(autouse=True)
def configuration():
    yield
    reset_ipu_configuration()


def configured(kind, ipus=1):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.device_connection.type = DeviceConnectionType[kind]
    config.device_connection.version = "ipu2"
    config.configure_ipu_system()


def strategy_of(kind, ipus=1):
    configured(kind, ipus)
    return IPUStrategy()


def counting():
    """A variable, and a program that counts in it."""
    variable = tf.Variable(1.0)

    @tf.function
    def count(x):
        variable.assign_add(1.0)
        return {"sum": x + variable, "nothing": None, "list": [x > 0, 2 * x]}

    return variable, count


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("ipus", [1, 2])
def test_results_without_a_device_are_zeros(ipus):
    strategy = strategy_of("PRE_COMPILE", ipus)
    variable, count = counting()
    for _ in range(2):
        found = strategy.run(count, args=(tf.ones(3),))
        np.testing.assert_array_equal(found["sum"], np.zeros(3))
        assert found["nothing"] is None
        assert [part.dtype for part in found["list"]] == [tf.bool, tf.float32]
    assert float(variable) == 1.0
    (program,) = strategy.report().programs
    assert program.device.cycles > 0


def test_variables_of_a_first_call_are_made():
    made = []

    @tf.function
    def scale(x):
        if not made:
            made.append(tf.Variable(tf.fill([3], 2.0)))
        return x * made[0]

    np.testing.assert_array_equal(strategy_of("PRE_COMPILE").run(scale, (tf.ones(3),)), np.zeros(3))
    np.testing.assert_array_equal(made[0], [2.0, 2.0, 2.0])


def test_a_connection_that_never_comes_refuses_to_run():
    strategy = strategy_of("NEVER")
    variable, count = counting()
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=REFUSED):
            strategy.run(count, args=(tf.ones(3),))
    assert float(variable) == 1.0
    assert [program.name for program in strategy.report().programs] == ["count"]


def test_a_jitted_function_cannot_hold_such_a_program():
    strategy = strategy_of("NEVER")
    _, count = counting()

    @tf.function(jit_compile=True)
    def outer(x):
        return strategy.run(count, args=(x,))

    with pytest.raises(tf.errors.InvalidArgumentError, match=REFUSED):
        outer(tf.ones(3))


@pytest.mark.slow
def test_models_keep_their_weights():
    x, y = np.ones((8, 3), "float32"), np.ones((8, 2), "float32")
    strategy = strategy_of("PRE_COMPILE")
    with strategy.scope():
        model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
        model.compile("sgd", "mse", steps_per_execution=2)
        weights = model.get_weights()
        history = model.fit(x, y, batch_size=2, verbose=0).history
        assert history == {"loss": [0.0]}
        np.testing.assert_array_equal(model.predict(x, batch_size=2, verbose=0), np.zeros((8, 2)))
    for found, expected in zip(model.get_weights(), weights, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert len(strategy.report().programs) == 2


@pytest.mark.parametrize("kind", ["PRE_COMPILE", "NEVER"])
def test_sessions_compile_only(kind):
    with tf.Graph().as_default(), tf.device("cpu"):
        x = tf.compat.v1.placeholder(tf.float32, [2])
        with ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(lambda x: 2 * x + 1, [x])
        configured(kind)
        with tf.compat.v1.Session() as session:
            if kind == "PRE_COMPILE":
                np.testing.assert_array_equal(session.run(result, {x: [1, 2]}), [0, 0])
            else:
                with pytest.raises(tf.errors.InvalidArgumentError, match=REFUSED):
                    session.run(result, {x: [1, 2]})
