"""TensorFlow's linear algebra, traced and compiled: no part of it is without a cost."""

import pytest
import tensorflow as tf

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from tests.compiler import modules

FUNCTIONS = {
    "cholesky": tf.linalg.cholesky,
    "eigenvalues": tf.linalg.eigh,
    "exponential": tf.linalg.expm,
    "inverse": tf.linalg.inv,
    "qr": tf.linalg.qr,
    "solution": lambda matrix: tf.linalg.solve(matrix, matrix),
}


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize("shape", [(6, 6), (3, 8, 8)], ids=["matrix", "batch"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_of_matrices_has_a_cost(name, shape):
    matrices = tf.eye(shape[-1], batch_shape=shape[:-2])
    module = modules.traced(FUNCTIONS[name], matrices).module
    program = compile_program(module, CompilerOptions())
    assert program.complete
    assert program.memory.fits
    assert program.cycles > 0
