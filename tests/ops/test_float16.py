"""Operations in float16: values and gradients are those of float32, rounded."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.eager import backprop
from ipu_tf.ops import (
    all_to_all_op,
    control_flow_ops,
    cross_replica_ops,
    embedding_ops,
    functional_ops,
    grad_util_ops,
    image_ops,
    internal_ops,
    math_ops,
    nn_ops,
    normalization_ops,
    rand_ops,
    reduce_scatter_op,
    rnn_ops,
    slicing_ops,
    statistics_ops,
    within_replica_ops,
)
from ipu_tf.ops.functions import ctc_ops

pytestmark = pytest.mark.slow

RANDOM = np.random.default_rng(8)
TABLE = RANDOM.normal(size=(6, 4)).astype("float16")
IDS = np.array([[5, 0], [2, 5]])
OTHER = RANDOM.normal(size=(4, 3)).astype("float16")
SEQUENCES = RANDOM.normal(size=(3, 2, 4)).astype("float16")
ROWS = np.array([2, 1], "int32")
STEPS = np.array([3, 2], "int32")
ATTENTION = RANDOM.random(size=(3, 2)).astype("float16")


def ctc(x):
    labels, lengths = np.array([[1, 2], [3, 0]]), np.array([2, 1])
    return ctc_ops.ctc_loss_v2(labels, x, lengths, np.array([3, 3]), 0)


def ctc_of_log_probabilities(x):
    labels, lengths = np.array([[1, 2], [3, 0]]), np.array([2, 1])
    data = tf.nn.log_softmax(x)
    return ctc_ops.ctc_loss_with_log_probs(labels, data, lengths, np.array([3, 3]), 0)


def sampled_softmax(x):
    drawn = np.array([1, 3], "int32"), np.ones((6, 1), "float32"), np.ones(2, "float32")
    weights = tf.cast(TABLE, x.dtype)
    labels = np.arange(6)[:, None]
    return nn_ops.sampled_softmax_loss(
        weights, weights[:, 0], labels, x, 2, 6, sampled_values=drawn
    )


@nn_ops.multi_conv
def two_convolutions(images):
    kernel = tf.cast(tf.reshape(TABLE[:4], (2, 2, 1, 4)), images.dtype)
    return [tf.nn.conv2d(one, kernel, 1, "VALID") for one in (images, 2 * images)]


@functional_ops.outlined_function
def outlined(x):
    return tf.tanh(x) * x


def normalized(op, **options):
    def run(x):
        gamma, beta = (tf.keras.initializers.Constant(value) for value in (2.0, 0.5))
        return op(
            x,
            param_initializers={"gamma": gamma, "beta": beta},
            scope=f"{op.__name__}_{x.dtype.name}",
            **options,
        )

    return run


def nce(x):
    drawn = np.array([1, 3], "int32"), np.ones((6, 1), "float32"), np.ones(2, "float32")
    weights = tf.cast(TABLE, x.dtype)
    labels = np.arange(6)[:, None]
    return nn_ops.nce_loss(weights, weights[:, 0], labels, x, 2, 6, sampled_values=drawn)


def recurrent(layer, *further):
    def run(x):
        made = layer(
            2,
            dtype=x.dtype,
            weights_initializer=tf.keras.initializers.Constant(0.25),
            return_state=False,
        )
        return made(
            x, *(tf.cast(one, x.dtype if one.dtype.kind == "f" else one.dtype) for one in further)
        )

    return run


CASES = {
    "embedding_lookup": (lambda x: embedding_ops.embedding_lookup(x, IDS, 2), TABLE),
    "serialized_matmul": (
        lambda x: math_ops.serialized_matmul(x, tf.cast(OTHER, x.dtype), 2, "a_rows_b_columns"),
        TABLE,
    ),
    "segment_sum": (lambda x: math_ops.segment_sum(x, [0, 0, 1, 1, 1, 3], 4), TABLE),
    "sequence_slice_unpack": (
        lambda x: slicing_ops.sequence_slice_unpack(x, ROWS, ROWS, 5),
        TABLE,
    ),
    "normalise_image": (
        lambda x: image_ops.normalise_image(x, [0.5, 1, 2], [2, 0.5, 1], 0.5),
        TABLE[:, :3],
    ),
    "ctc_loss": (ctc, SEQUENCES),
    "ctc_loss_with_log_probs": (ctc_of_log_probabilities, SEQUENCES),
    "nce_loss": (nce, TABLE),
    "sampled_softmax_loss": (sampled_softmax, TABLE),
    "multi_conv": (lambda x: tf.stack(two_convolutions(x[None, ..., None])), TABLE),
    "outlined_function": (outlined, TABLE),
    "group_norm": (normalized(normalization_ops.group_norm), TABLE),
    "layer_norm": (normalized(normalization_ops.layer_norm), TABLE),
    "instance_norm": (normalized(normalization_ops.instance_norm), SEQUENCES),
    "lstm": (recurrent(rnn_ops.PopnnLSTM), SEQUENCES),
    "gru": (recurrent(rnn_ops.PopnnGRU), SEQUENCES),
    "dynamic lstm": (recurrent(rnn_ops.PopnnDynamicLSTM, STEPS), SEQUENCES),
    "dynamic gru": (recurrent(rnn_ops.PopnnDynamicGRU, STEPS), SEQUENCES),
    "augru": (recurrent(rnn_ops.PopnnAUGRU, STEPS, ATTENTION), SEQUENCES),
    "sequence_slice": (
        lambda x: slicing_ops.sequence_slice(x, 2 * x, ROWS, ROWS, ROWS - 1, True),
        TABLE,
    ),
    "sequence_slice_pack": (
        lambda x: slicing_ops.sequence_slice_pack(x, 2 * x[:3], ROWS, ROWS, False),
        TABLE,
    ),
    "capture_upstream_gradients": (
        lambda x: tf.tanh(grad_util_ops.capture_upstream_gradients(x, tag="x")),
        TABLE,
    ),
    "barrier": (lambda x: control_flow_ops.barrier([x, 2 * x], True)[1], TABLE),
    "assume_equal": (cross_replica_ops.assume_equal_across_replicas, TABLE),
    "cross_replica_sum": (cross_replica_ops.cross_replica_sum, TABLE),
    "all_gather": (lambda x: all_to_all_op.all_gather(x, 1), TABLE),
    "all_to_all": (lambda x: all_to_all_op.all_to_all(x, 0, 1, 1), TABLE),
    "reduce_scatter over replicas": (
        lambda x: reduce_scatter_op.reduce_scatter(tf.reshape(x, [-1]), 1),
        TABLE,
    ),
    "reduce_scatter": (
        lambda x: within_replica_ops.reduce_scatter([x[0], x[1]], "COLLECTIVE_OP_ADD")[0],
        TABLE,
    ),
    "gather of shards": (lambda x: within_replica_ops.all_gather([x[0], x[1]])[0], TABLE),
    "all_reduce": (
        lambda x: within_replica_ops.all_reduce([x[0], x[1]], "COLLECTIVE_OP_MAX")[0],
        TABLE,
    ),
    "cross_replica_mean": (cross_replica_ops.cross_replica_mean, TABLE),
    "remap": (internal_ops.remap, TABLE),
}


@pytest.fixture(scope="module")
def results(strategy):
    """Values and gradients of all cases, by dtype: a program for each."""

    @tf.function
    def program(inputs):
        found = {}
        for name, (function, _) in CASES.items():
            with backprop.GradientCaptureTape() as tape:
                tape.watch(inputs[name])
                value = function(inputs[name])
                # Not a sum of squares: that of normalized values does not change.
                weights = tf.cos(tf.range(tf.cast(tf.size(value), tf.float32)))
                loss = tf.reduce_sum(tf.reshape(weights, value.shape) * tf.cast(value, tf.float32))
            gradient = tape.gradient(loss, inputs[name])
            found[name] = value, tf.convert_to_tensor(gradient)
        return found

    return {
        dtype: strategy.run(
            program, args=({name: tf.constant(x, dtype) for name, (_, x) in CASES.items()},)
        )
        for dtype in ("float16", "float32")
    }


@pytest.mark.parametrize("name", CASES)
def test_float16_gives_the_numbers_of_float32(name, results):
    for half, single in zip(results["float16"][name], results["float32"][name], strict=True):
        assert (half.dtype, single.dtype) == (tf.float16, tf.float32)
        assert half.shape == single.shape
        largest = np.abs(single).max()
        assert largest > 0
        np.testing.assert_allclose(half, single, rtol=4e-3, atol=4e-3 * largest)


@pytest.mark.parametrize("decode", ["ctc_beam_search_decoder", "..._with_log_probs"])
def test_decoders_find_the_same_sequences(strategy, decode):
    decoder = getattr(ctc_ops, decode.replace("...", "ctc_beam_search_decoder"))

    def found(dtype):
        data = tf.nn.log_softmax(tf.constant(SEQUENCES, dtype))
        return strategy.run(tf.function(lambda: decoder(data, [3, 2], 4, 2, 0)))

    (half, *others), (single, *of_single) = found("float16"), found("float32")
    np.testing.assert_allclose(half, single, rtol=4e-3)
    for one, other in zip(others, of_single, strict=True):
        np.testing.assert_array_equal(one, other)


def test_statistics_are_those_of_float32(strategy):
    def found(dtype):
        x = tf.constant(TABLE.ravel(), dtype)

        @tf.function
        def program():
            bins = statistics_ops.fixed_width_bins(x, 5)
            counts = statistics_ops.histogram(x, bins)
            counts = statistics_ops.histogram_update(counts, x, bins)
            return bins, counts, statistics_ops.histogram_normalize(counts)

        return strategy.run(program)

    for half, single in zip(found("float16"), found("float32"), strict=True):
        np.testing.assert_allclose(half, single, rtol=2e-3, atol=2e-3)


def test_dropout_scales_what_it_keeps_in_both_directions(strategy):
    @tf.function
    def program(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = rand_ops.dropout(x, 0.25, seed=[1, 2])
        return value, tape.gradient(value, x)

    value, gradient = strategy.run(program, args=(tf.constant(TABLE),))
    kept = np.asarray(value) != 0
    assert value.dtype == gradient.dtype == tf.float16
    assert 0 < kept.sum() < TABLE.size
    np.testing.assert_allclose(value, TABLE / 0.75 * kept, rtol=2e-3)
    np.testing.assert_allclose(gradient, kept / 0.75, rtol=1e-3)
