"""A batched matmul whose factors share a matrix is one product, and so are its gradients."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import IPUStrategy, ops
from ipu_tf.ops.kernels import op_shapes

FLAGS = list(itertools.product([False, True], repeat=2))
LEADING = [((8,), ()), ((2, 3), (1,)), ((), (4,)), ((2, 1), (3,)), ((3,), (3,))]


def random(*shape, seed):
    return tf.random.stateless_normal(shape, seed=[seed, 7])


def operands(leading, adj_x, adj_y):
    x = random(*leading[0], *((4, 5) if adj_x else (5, 4)), seed=1)
    return x, random(*leading[1], *((6, 4) if adj_y else (4, 6)), seed=2)


def gradients(function, x, y):
    with tf.GradientTape() as tape:
        tape.watch([x, y])
        loss = tf.reduce_sum(tf.sin(function(x, y)))
    return tape.gradient(loss, [x, y])


def shape(left, right, adj_x=False, adj_y=False):
    """Batch, rows, columns and reduction of a batched matmul."""
    attributes = {"adj_x": adj_x, "adj_y": adj_y}
    inputs = op_shapes.OpInputs(
        op="product", attributes=attributes, shapes=[left, right], sizes=None, dtype="float32"
    )
    return tuple(op_shapes.batch_matmul_shape(inputs).extents.values())


def test_rows_of_factors_that_share_a_matrix_are_rows_of_one_product():
    assert shape([2, 3, 5, 4], [4, 6]) == (1, 30, 6, 4)
    assert shape([8, 5, 4], [1, 6, 4], adj_y=True) == (1, 40, 6, 4)
    assert shape([8, 5, 4], [8, 4, 6]) == (8, 5, 6, 4)
    assert shape([8, 4, 5], [4, 6], adj_x=True) == (8, 5, 6, 4)


@pytest.mark.fast_cells(8)
@pytest.mark.parametrize("leading", LEADING, ids=str)
@pytest.mark.parametrize(("adj_x", "adj_y"), FLAGS)
def test_gradients_equal_stock(leading, adj_x, adj_y):
    def product(x, y):
        return ops.batch_matmul(x, y, adj_x=adj_x, adj_y=adj_y)

    def stock(x, y):
        return tf.matmul(x, y, transpose_a=adj_x, transpose_b=adj_y)

    x, y = operands(leading, adj_x, adj_y)
    for ours, wanted in zip(gradients(product, x, y), gradients(stock, x, y), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)


def test_gradients_in_a_run_equal_stock_and_have_only_true_batches():
    strategy = IPUStrategy(enable_keras_extensions=False)
    found = []
    for leading in (((8,), ()), ((2, 1), (3,)), ((3,), (3,))):
        x, y = operands(leading, False, False)
        run = tf.function(lambda x, y: strategy.run(gradients, args=(tf.matmul, x, y)))
        for ours, wanted in zip(run(x, y), gradients(tf.matmul, x, y), strict=True):
            np.testing.assert_allclose(ours, wanted, rtol=1e-5, atol=1e-5)
        found.append([op.shape.batch for op in strategy.report().programs[-1].tile_ops])
    assert [batches[1:] for batches in found] == [[1, 1], [1, 1], [3, 3]]


@pytest.mark.slow
def test_projections_of_an_attention_are_one_product_forward_and_backward():
    def model():
        tokens = keras.Input((7, 8))
        attended = keras.layers.MultiHeadAttention(2, 4)(tokens, tokens)
        return keras.Model(tokens, attended)

    (program,) = ipu_tf.estimate(model, batch_size=3).programs
    batches = [op.shape.batch for op in program.tile_ops]
    # Two products of attention and their four gradients are of three samples and two heads.
    assert sorted(batches) == [1] * (len(batches) - 6) + [6] * 6
    (stage,) = program.device.stages
    plans = [step.plan for step in stage.program.steps if step.plan is not None]
    assert sorted(plans, key=repr) == sorted((op.plan for op in program.tile_ops), key=repr)
