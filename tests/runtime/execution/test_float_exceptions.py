"""Floating-point exceptions name the layer, superstep, tile and values of the operation."""

import gc

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.runtime.execution import float_exceptions


@pytest.fixture(autouse=True)
def exceptions():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    for name in ("inv", "div0", "oflo"):
        setattr(cfg.floating_point_behaviour, name, True)
    cfg.configure_ipu_system()
    yield
    config.reset_ipu_configuration()


@tf.function
def function(x):
    with tf.name_scope("block"):
        y = tf.exp(x)
    return y * 2.0


def test_the_message_and_the_report_have_the_place():
    strategy = IPUStrategy(enable_keras_extensions=False)
    x = tf.constant(np.linspace(0, 100, 64), tf.float32)
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            strategy.run(function, args=(x,))
    message = str(error.value)
    (program,) = strategy.report(insights=False).programs
    (found,) = program.nonfinite
    assert f"Floating-point exception (overflow) in op 'block/Exp' (Exp). {found}" in message
    assert (found.layer, found.fault, found.position, found.run) == ("block", "overflow", (56,), 0)
    (operand,) = found.operands
    assert (operand.low, operand.high, operand.shape) == (0.0, 100.0, (64,))
    assert found.tiles == 1 + found.tile_ranges[0][1]
    assert found.tile == 56 // -(-64 // found.tiles)
    assert "Program 'function': the first result" in message
    assert "To do: subtract the largest value first" in message


def test_what_is_known_of_a_program_ends_with_it():
    gc.collect()
    before = len(float_exceptions._traces)
    strategy = IPUStrategy(enable_keras_extensions=False)
    strategy.run(tf.function(lambda x: x + 1.0), args=(tf.constant(1.0),))
    assert len(float_exceptions._traces) == before + 1
    del strategy
    gc.collect()
    assert len(float_exceptions._traces) == before
    assert float_exceptions._description(-1, "op", "Exp", "overflow", [], []) == ""
