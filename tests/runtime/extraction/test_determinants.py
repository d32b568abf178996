"""Determinants, which XLA has no kernel for, run and cost an elimination."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.runtime.extraction.compositions import COMPOSITIONS
from tests.grids import covering

SHAPES = [(1, 1), (3, 3), (5, 4, 4), (2, 3, 6, 6)]
SPECIAL = [
    [[0.0, 1.0], [1.0, 0.0]],  # Its first pivot is in the second row.
    [[0.0, 0.0, 2.0], [3.0, 0.0, 0.0], [0.0, 5.0, 0.0]],
    [[1.0, 2.0], [2.0, 4.0]],  # Singular.
    [[0.0, 0.0], [0.0, 0.0]],
    [[1e-4, 1.0], [1.0, 1.0]],  # Needs pivoting to keep its digits.
]


def matrices(*shape):
    return np.random.default_rng(len(shape)).normal(size=shape).astype("float32")


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


VALUES = {str(shape): matrices(*shape) for shape in SHAPES}
VALUES |= {f"special {number}": values for number, values in enumerate(SPECIAL)}


@pytest.mark.slow
@pytest.mark.parametrize(*covering(1, jit_compile=[False, True], values=VALUES))
def test_eliminations_give_the_determinants_of_tensorflow(values, jit_compile):
    @tf.function(jit_compile=jit_compile)
    def eliminated(x):
        return (
            COMPOSITIONS["MatrixDeterminant"]({}, x),
            *COMPOSITIONS["LogMatrixDeterminant"]({}, x),
        )

    x = tf.constant(values, tf.float32)
    for ours, stock in zip(eliminated(x), (tf.linalg.det(x), *tf.linalg.slogdet(x)), strict=True):
        assert ours.shape == stock.shape
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6)


def with_gradient(fn):
    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            result = fn(x)
        return tf.nest.flatten(result)[-1], tape.gradient(result, x)

    return gradient


FUNCTIONS = {
    "det": tf.linalg.det,
    "slogdet": tf.linalg.slogdet,
    "keras det": keras.ops.det,
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_programs_run_and_are_costed(strategy, name):
    gradient = with_gradient(FUNCTIONS[name])
    x = tf.constant(matrices(3, 4, 4))
    for ours, stock in zip(strategy.run(tf.function(gradient), (x,)), gradient(x), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-5)
    (program,) = strategy.report().programs
    assert program.device.cycles > 0
    assert not [note for note in program.device.notes if "unknown" in note]
