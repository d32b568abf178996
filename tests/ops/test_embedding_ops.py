"""Lookups in parts against whole ones."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops import embedding_ops

ROWS = 6


def table(*shape):
    values = np.random.default_rng(4).normal(size=(ROWS, *shape)).astype("float32")
    values[0] = -0.0
    return tf.constant(values)


@pytest.mark.fast_cells(8)
@pytest.mark.parametrize("factor", [1, 2, 3, 6])
@pytest.mark.parametrize("row_shape", [(), (3,), (2, 3)])
@pytest.mark.parametrize("ids", [[0, 5, 3, 3], [[1, 2], [4, 0]]])
def test_rows_and_gradients(factor, row_shape, ids):
    params, ids = table(*row_shape), tf.constant(ids)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(params)
        rows = embedding_ops.embedding_lookup(params, ids, serialization_factor=factor)
        reference = tf.gather(params, ids)
        losses = tf.reduce_sum(rows**3), tf.reduce_sum(reference**3)
    assert rows.shape == reference.shape
    np.testing.assert_array_equal(rows, reference)
    np.testing.assert_array_equal(np.signbit(rows), np.signbit(reference))
    ours, expected = (tf.convert_to_tensor(tape.gradient(loss, params)) for loss in losses)
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


@pytest.mark.parametrize("factor", [1, 3])
@pytest.mark.parametrize("wrong", [-1, ROWS])
def test_ids_outside_of_the_table(factor, wrong):
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"= {wrong} is not in"):
        embedding_ops.embedding_lookup(table(2), [0, wrong], serialization_factor=factor)


def test_ids_of_64_bits_work_in_functions():
    lookup = tf.function(lambda params, ids: embedding_ops.embedding_lookup(params, ids, 3))
    ids = np.array([[5, 0], [2, 3]])
    np.testing.assert_array_equal(lookup(table(2), ids), table(2).numpy()[ids])


def test_each_part_is_a_lookup():
    fn = tf.function(lambda ids: embedding_ops.embedding_lookup(table(2), ids, 3, name="parts"))
    operations = fn.get_concrete_function(tf.constant([1, 2])).graph.get_operations()
    lookups = [op for op in operations if op.type == "GatherV2"]
    assert [op.inputs[0].shape.as_list() for op in lookups] == [[2, 2]] * 3
    assert all(op.name.startswith("parts/") for op in lookups)


@pytest.mark.parametrize("factor", [0, 4, 1.0, True])
def test_the_factor_is_checked(factor):
    message = f"must be a whole number .* divides the number of rows.*factor={factor}, 6 rows"
    with pytest.raises(ValueError, match=message):
        embedding_ops.embedding_lookup(table(2), [0], serialization_factor=factor)


def test_ids_are_integers():
    with pytest.raises(ValueError, match="ids must be integers.*Received: ids of dtype float32"):
        embedding_ops.embedding_lookup(table(2), [0.0])


def test_optimizers_of_tensorflow_1_get_a_dense_gradient():
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        params = v1.get_variable("table", initializer=table(3), use_resource=True)
        rows = embedding_ops.embedding_lookup(params, [1, 4, 1])
        optimizer = v1.train.MomentumOptimizer(0.5, 0.9)
        ((gradient, _),) = optimizer.compute_gradients(tf.reduce_sum(rows), [params])
        update = optimizer.apply_gradients([(gradient, params)])
        assert isinstance(gradient, tf.Tensor)
        session.run(v1.global_variables_initializer())
        found = [session.run([update, params])[0], session.run(update), session.run(params)][-1]
    expected = table(3).numpy()
    # Momentum moves rows on in the second step.
    expected[[1, 4]] -= 0.5 * np.float32([[2], [1]]) * (1 + 1.9)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
