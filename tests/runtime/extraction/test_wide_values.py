"""float64 that arises in a program is 32-bit on the machine; what comes from outside is refused."""

import logging
import re

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, UnsupportedOpcodeError, config

X = np.array([0.5, -1.5], "float32")
CAPTURED = tf.constant(np.full(1000, 0.5))


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def narrow(value):
    return tf.cast(value, tf.float32)


def wide(value):
    return tf.cast(value, tf.float64)


def counted(x):
    def body(i, total):
        return i + 1, total + wide(tf.reduce_sum(x))

    start = (tf.constant(0), tf.constant(0.25, tf.float64))
    return narrow(tf.while_loop(lambda i, total: i < 5, body, start)[1])


PROGRAMS = {
    "constant": lambda x: narrow(tf.constant([0.25, 2.0], tf.float64) * wide(x)),
    "captured tensor": lambda x: x * narrow(tf.reduce_sum(CAPTURED * wide(x[0]))),
    "select": lambda x: narrow(tf.where(x > 0, tf.constant(0.25, tf.float64), wide(x))),
    "branch": lambda x: narrow(tf.cond(x[0] > 0, lambda: wide(x), lambda: wide(2 * x))),
    "loop": counted,
    "matrix product": lambda x: narrow(tf.matmul(wide(x[None]), wide(x[:, None]))),
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", PROGRAMS)
def test_float64_inside_takes_32_bits_and_one_notice(strategy, name, caplog):
    with caplog.at_level(logging.WARNING, logger="ipu_tf"):
        result = strategy.run(tf.function(PROGRAMS[name]), (tf.constant(X),))
    np.testing.assert_allclose(result, PROGRAMS[name](tf.constant(X)), rtol=1e-6)
    message = "float64 values arise in '.*': the IPU has no 64-bit types.*count them as float32"
    assert len([text for text in caplog.messages if re.search(message, text)]) == 1
    (program,) = strategy.report().programs
    assert len([note for note in program.device.notes if "float64" in note]) == 1
    assert re.search(message, strategy.report().summary())


def test_it_costs_as_much_as_float32(strategy):
    def scaled(dtype):
        def fn(x):
            return narrow(tf.constant([0.25, 2.0], dtype) * tf.cast(x, dtype))

        return fn

    for dtype in (tf.float64, tf.float32):
        strategy.run(tf.function(scaled(dtype)), (tf.constant(X),))
    cycles = [sum(step.cycles for step in p.device.steps) for p in strategy.report().programs]
    assert cycles[0] == cycles[1]


def test_a_program_without_float64_has_no_notice(strategy, caplog):
    with caplog.at_level(logging.WARNING, logger="ipu_tf"):
        strategy.run(tf.function(lambda x: x + 1), (tf.constant(X),))
    assert strategy.report().programs[0].device.notes == ()
    assert not [text for text in caplog.messages if "float64" in text]


def test_variables_are_refused(strategy):
    variable = tf.Variable(1.0, dtype=tf.float64, name="scale")
    message = "Unsupported data type for variable: float64 .*'scale'.*make it tf.float32"
    with pytest.raises(TypeError, match=message):
        strategy.run(tf.function(lambda x: x * narrow(variable)), (tf.constant(X),))


def test_iterators_are_refused(strategy):
    with strategy.scope():
        batches = iter(tf.data.Dataset.from_tensor_slices(np.ones((8, 2))).batch(2, True))

    @tf.function
    def once(iterator):
        return narrow(next(iterator))

    @tf.function
    def repeated(iterator):
        total = tf.zeros((2, 2))
        for _ in tf.range(2):
            total += narrow(next(iterator))
        return total

    for step in (once, repeated):
        with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
            strategy.run(step, (batches,))


def test_arguments_and_results_are_refused_as_before(strategy):
    with pytest.raises(TypeError, match="Unsupported data type for input: float64"):
        strategy.run(tf.function(narrow), (tf.constant(X, tf.float64),))
    with pytest.raises(TypeError, match="Unsupported data type for output: float64"):
        strategy.run(tf.function(wide), (tf.constant(X),))


def test_complex_numbers_are_refused_with_their_layer(strategy):
    def fn(x):
        with tf.name_scope("spectrum"):
            return narrow(tf.abs(tf.signal.fft(tf.cast(x, tf.complex128))))

    message = "fft in 'spectrum': its result is c128, an IPU has no such type"
    with pytest.raises(UnsupportedOpcodeError, match=message):
        strategy.run(tf.function(fn), (tf.constant(X),))
