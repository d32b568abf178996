"""Tables of embeddings on the host against a table of NumPy."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import loops
from ipu_tf.ops import embedding_ops

ROWS, COLUMNS = 5, 3
TABLE = np.random.default_rng(6).normal(size=(ROWS, COLUMNS)).astype("float32")
IDS = np.array([[4, 0], [4, 2]], "int32")


def embedding(optimizer_spec=None, dtype=tf.float32):
    return embedding_ops.create_host_embedding(
        "words",
        [ROWS, COLUMNS],
        dtype,
        optimizer_spec=optimizer_spec,
        initializer=lambda shape, dtype: tf.cast(TABLE, dtype),
    )


def trainer(table, weights):
    """A function that trains the table, and weights beside it."""

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            rows = table.lookup(ids)
            loss = tf.reduce_sum(tf.cast(tf.square(rows), tf.float32) * weights)
        weights.assign_sub(0.1 * tape.gradient(loss, weights))
        return loss

    return step


def updates(table, ids, weights, rate):
    """The table after the update of `trainer`, in NumPy."""
    for number in ids.ravel():
        table = table.copy()
        table[number] -= rate * 2 * TABLE[number] * weights
    return table


@pytest.mark.parametrize("dtype", [tf.float32, tf.float16])
def test_a_lookup_returns_rows_of_the_host(strategy, dtype):
    table = embedding(dtype=dtype)
    with table.register():
        rows = strategy.run(tf.function(table.lookup), args=(tf.constant(IDS),))
    assert rows.dtype == dtype
    np.testing.assert_array_equal(rows, TABLE.astype(dtype.name)[IDS])
    np.testing.assert_array_equal(table.lookup(IDS), rows)


def test_the_table_takes_no_memory_of_the_device(strategy):
    table = embedding_ops.create_host_embedding("large", [1_000_000, 8], tf.float32)
    # 32 MB; the tiles have 10 MB, and a program that does not fit raises.
    rows = strategy.run(tf.function(table.lookup), args=(tf.constant([[1, 2]]),))
    assert rows.shape == (1, 2, 8)


def test_gradients_update_the_table(strategy):
    spec = embedding_ops.HostEmbeddingOptimizerSpec(0.5)
    table, weights = embedding(spec), tf.Variable([1.0, 2.0, 3.0])
    step = trainer(table, weights)
    with table.register(session=None):
        loss = strategy.run(step, args=(tf.constant(IDS),))
    np.testing.assert_allclose(loss, np.sum(TABLE[IDS] ** 2 * [1, 2, 3]), rtol=1e-5)
    expected = updates(TABLE, IDS, np.array([1.0, 2.0, 3.0]), 0.5)
    np.testing.assert_allclose(table.get_embedding_tensor(), expected, rtol=1e-5)
    assert spec.get_learning_rate() == 0.5
    np.testing.assert_allclose(
        weights, [1, 2, 3] - 0.1 * np.sum(TABLE[IDS] ** 2, axis=(0, 1)), rtol=1e-5
    )


def test_loops_look_up_and_update_rows(strategy):
    table, ones = embedding(embedding_ops.HostEmbeddingOptimizerSpec(0.5)), np.ones(3)

    @tf.function
    def train(ids):
        def step(total):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(table.lookup(ids))
            tape.gradient(loss, [])
            return total + loss

        return loops.repeat(2, step, [0.0])

    total = strategy.run(train, args=(tf.constant(IDS),))
    once = TABLE - 0.5 * np.bincount(IDS.ravel(), minlength=ROWS)[:, None] * ones
    np.testing.assert_allclose(total, TABLE[IDS].sum() + once[IDS].sum(), rtol=1e-5)
    np.testing.assert_allclose(table.get_embedding_tensor(), 2 * once - TABLE, rtol=1e-5)


def test_a_table_without_an_optimizer_keeps_its_values():
    table, weights = embedding(), tf.Variable([1.0, 2.0, 3.0])
    trainer(table, weights)(tf.constant(IDS))
    np.testing.assert_array_equal(table.get_embedding_tensor(), TABLE)


def test_gradients_may_be_accumulated(strategy):
    spec = embedding_ops.HostEmbeddingSGDGAOptimizerSpec(0.5, accumulation_factor=2)
    assert spec.get_accumulation_factor() == 2
    table, ones = embedding(spec), np.ones(3)

    @tf.function
    def step(ids):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(table.lookup(ids)))
        tape.gradient(loss, [])
        return loss

    strategy.run(step, args=(tf.constant(IDS),))
    np.testing.assert_array_equal(table.get_embedding_tensor(), TABLE)
    strategy.run(step, args=(tf.constant(IDS[:, ::-1]),))
    expected = updates(updates(TABLE, IDS, ones, 0.5), IDS, ones, 0.5)
    np.testing.assert_allclose(table.get_embedding_tensor(), expected, rtol=1e-5)
    strategy.run(step, args=(tf.constant(IDS),))
    np.testing.assert_allclose(table.get_embedding_tensor(), expected, rtol=1e-5)


def test_numbers_out_of_range_are_clipped_or_raise():
    table = embedding()
    np.testing.assert_array_equal(table.lookup([-3, 9]), TABLE[[0, 4]])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="'words' has 5 rows. Received: .* 0 to 9"
    ):
        table.lookup([9, 0], clip_indices=False)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: embedding_ops.create_host_embedding("t", [4, 2], tf.int32),
            "Host embedding 't': dtype must be float16 or float32. Received: int32",
        ),
        (
            lambda: embedding_ops.create_host_embedding("t", [4], tf.float32),
            r"the table must have shape \[rows, columns\]. Received: shape \(4,\)",
        ),
        (
            lambda: embedding_ops.create_host_embedding("t", [4, 2], tf.float32, "ROWS"),
            "partition_strategy must be one of TOKEN, ENCODING. Received: 'ROWS'",
        ),
        (lambda: embedding().lookup([1.5]), "indices must be integers; tf.cast them"),
        (
            lambda: embedding_ops.HostEmbeddingSGDGAOptimizerSpec(0.1, 0),
            "accumulation_factor must be a positive integer. Received: accumulation_factor=0",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()
