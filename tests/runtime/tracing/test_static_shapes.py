"""Messages about shapes that are not static."""

import pytest
import tensorflow as tf

from ipu_tf.runtime.tracing import static_shapes

NUMBERS = tf.data.Dataset.range(12)
WHOLE = NUMBERS.batch(4, drop_remainder=True)
PARTIAL = NUMBERS.batch(5)
DROP = "If using tf.Dataset.batch, set `drop_remainder=True`."
FIX = "with `tf.ensure_shape`"


@pytest.mark.parametrize(
    ("dataset", "drops"),
    [
        (NUMBERS, None),
        (WHOLE, True),
        (PARTIAL, False),
        (WHOLE.map(tf.identity).prefetch(1).repeat(), True),
        (PARTIAL.unbatch().batch(4, drop_remainder=True), True),
        (WHOLE.unbatch().batch(5), False),
        (tf.data.Dataset.zip(WHOLE, PARTIAL), False),
        (tf.data.Dataset.zip(WHOLE, NUMBERS), True),
        (NUMBERS.map(tf.range).padded_batch(4, drop_remainder=True), True),
    ],
    ids=str,
)
def test_the_last_batching_counts(dataset, drops):
    assert static_shapes.drops_remainder(dataset) is drops


@pytest.mark.parametrize(
    ("shape", "dataset", "drop", "fix"),
    [
        ((None, 4), PARTIAL, True, False),
        ((None, 4), WHOLE, False, True),
        ((None, 4), NUMBERS, True, True),
        ((None, 4), None, True, True),
        ((None, None), PARTIAL, True, True),
        ((4, None), None, False, True),
        (None, WHOLE, False, True),
    ],
)
def test_the_advice_fits_the_shape_and_the_dataset(shape, dataset, drop, fix):
    advice = static_shapes.advice(tf.TensorShape(shape), dataset)
    assert advice.endswith("Shapes are static on the IPU.")
    assert (DROP in advice, FIX in advice) == (drop, fix)


def test_what_is_not_dense():
    ragged, sparse = tf.ragged.constant([[1], [2, 3]]), tf.sparse.eye(3)
    for value in (ragged, tf.RaggedTensorSpec([2, None])):
        assert "a RaggedTensor. " in static_shapes.not_dense(value)
        assert "`to_tensor(shape=...)`" in static_shapes.not_dense(value)
    for value in (sparse, tf.SparseTensorSpec([3, 3])):
        assert "a SparseTensor. " in static_shapes.not_dense(value)
        assert "`tf.sparse.to_dense`" in static_shapes.not_dense(value)
    for value in (tf.zeros(2), tf.TensorSpec([2]), 3, None):
        assert static_shapes.not_dense(value) is None
