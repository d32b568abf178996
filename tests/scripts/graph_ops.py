"""The IPU's operations in graphs of TensorFlow 1, against NumPy; prints "equal NAME" for each.

Under `disable_v2_behavior`, `==` compares the identity of tensors, and the extents of shapes are
`Dimension` objects.
"""

import numpy as np
import tensorflow.compat.v1 as tf
from ipu_tensorflow_addons import layers
from tensorflow.python import ipu
from tensorflow.python.ipu import embedding_ops, ipu_compiler, nn_ops, scopes
from tensorflow.python.ipu.ops import (
    image_ops,
    internal_ops,
    math_ops,
    normalization_ops,
    rand_ops,
    slicing_ops,
    statistics_ops,
    within_replica_ops,
)

tf.disable_v2_behavior()
RANDOM = np.random.default_rng(5)


def uniform(*shape):
    return RANDOM.uniform(-1, 1, shape).astype("float32")


def program(computation, arrays, runs=1):
    """The results of a computation, after a number of runs, and of its variables."""
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.device("cpu"):
            inputs = [tf.placeholder(array.dtype, array.shape) for array in arrays]
        with scopes.ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(computation, inputs=inputs)
        ipu.utils.move_variable_initialization_to_cpu()
        session.run(tf.global_variables_initializer())
        for _ in range(runs):
            values = session.run(results, dict(zip(inputs, arrays, strict=True)))
    return values


def check(name, computation, arrays, expected, runs=1):
    found = program(computation, arrays, runs)
    expected = expected if isinstance(expected, list) else [expected]
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, wanted, rtol=1e-3, atol=1e-4, err_msg=name)
    print("equal", name)


def normalized(x, axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1.53e-5)


def norms(x):
    grouped = normalization_ops.group_norm(x, groups=2, strided_channel_grouping=False)
    return grouped, normalization_ops.layer_norm(x), normalization_ops.instance_norm(x)


def ctc(labels, logits, label_length, logit_length):
    loss = nn_ops.ctc_loss_v2(labels, logits, label_length, logit_length, 0)
    decoded = nn_ops.ctc_beam_search_decoder(logits, logit_length, 4, 1, 0)
    return loss, decoded[2]


def sampled(inputs, labels):
    weights, biases = tf.ones([6, 3]), tf.zeros([6])
    # Each other class is sampled; the true one has no sampled logit.
    return nn_ops.sampled_softmax_loss(weights, biases, labels, inputs, 6, 6)


def host_embedding():
    """A table of the host that gradient descent updates after every second lookup."""
    spec = embedding_ops.HostEmbeddingSGDGAOptimizerSpec(0.5, accumulation_factor=2)
    with tf.Graph().as_default(), tf.Session() as session:
        table = embedding_ops.create_host_embedding(
            "table", [5, 2], tf.float32, optimizer_spec=spec, initializer=tf.ones_initializer()
        )

        def computation(ids):
            rows = table.lookup(ids)
            return rows, tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_sum(rows))

        with tf.device("cpu"):
            ids = tf.placeholder(tf.int32, [3])
        with scopes.ipu_scope("/device:IPU:0"):
            results = ipu_compiler.compile(computation, inputs=[ids])
        session.run(tf.global_variables_initializer())
        with table.register(session):
            seen = [session.run(results, {ids: [4, 3, 4]})[0] for _ in range(3)]
        kept = session.run(table.get_embedding_tensor())
    np.testing.assert_array_equal(seen, [np.ones((3, 2))] * 2 + [[[-1, -1], [0, 0], [-1, -1]]])
    np.testing.assert_array_equal(kept[:, 0], [1, 1, 1, 0, -1])
    print("equal", "host embedding")


def lstm(x):
    layer = layers.PopnnLSTM(
        2, weights_initializer=tf.zeros_initializer(), bias_initializer=tf.ones_initializer()
    )
    return layer(x)[0]


def lstm_of_ones(steps, batch):
    sigmoid, cell, outputs = 1 / (1 + np.exp(-1)), 0, []
    for _ in range(steps):
        cell = sigmoid * cell + sigmoid * np.tanh(1)
        outputs.append(np.full((batch, 2), sigmoid * np.tanh(cell)))
    return np.stack(outputs)


def main():
    cfg = ipu.config.IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()

    x = uniform(2, 3, 3, 4)
    halves = normalized(x.reshape(2, 3, 3, 2, 2), (1, 2, 4)).reshape(x.shape)
    check("norms", norms, [x], [halves, normalized(x, (1, 2, 3)), normalized(x, (1, 2))])

    table, ids = uniform(8, 3), np.array([[1, 7], [0, 5]], "int32")
    lookup = embedding_ops.embedding_lookup
    check("lookup", lambda t, i: lookup(t, i, 4), [table, ids], table[ids])
    host_embedding()

    labels, logits = np.array([[1]], "int32"), np.log([[[0.5, 0.3, 0.2]], [[0.6, 0.3, 0.1]]])
    lengths = [np.array([1], "int32"), np.array([2], "int32")]
    likely = 0.3 * 0.3 + 0.3 * 0.6 + 0.5 * 0.3
    arrays = [labels, logits.astype("float32"), *lengths]
    check("ctc", ctc, arrays, [[-np.log(likely)], [[[1, 0]]]])

    found = program(sampled, [uniform(4, 3), np.array([[0], [1], [2], [3]], "int32")])
    assert np.isfinite(found[0]).all()
    print("equal", "sampled softmax")

    image = RANDOM.integers(0, 9, (2, 2, 2, 3)).astype("uint8")
    scaled = np.pad((image * 2.0 - [1, 2, 3]) * [4, 5, 6], [(0, 0)] * 3 + [(0, 1)])
    check("image", lambda i: image_ops.normalise_image(i, [1, 2, 3], [4, 5, 6], 2), [image], scaled)

    values = np.array([0.1, -0.2, 0.3, -0.4], "float32")
    check(
        "histogram",
        lambda v: statistics_ops.histogram(v, statistics_ops.fixed_width_bins(v, 2), True),
        [values],
        [[0, 2, 2]],
    )

    rows = np.repeat(np.arange(6, dtype="float32")[:, None], 2, 1)
    unpack = slicing_ops.sequence_slice_unpack
    check("slices", lambda r: unpack(r, [2, 2], [2, 1], 5), [rows], rows[[2, 3, 1, 2, 0]])

    a, b = uniform(4, 8), uniform(8, 2)
    product = math_ops.serialized_matmul
    check("product", lambda a, b: product(a, b, 4, "a_rows_b_columns"), [a, b], a @ b)
    check("segments", lambda d: math_ops.segment_sum(d, [0, 0, 1, 2], 3), [a], _segments(a))

    shards = [np.array([1, 2], "float32"), np.array([3, 4, 5], "float32")]
    reduced = np.array([4, 6, 5])
    check("reduction", _reduced, shards, [reduced, reduced])

    drop = rand_ops.dropout
    kept = program(lambda v: drop(v, 0.5, noise_shape=[]), [np.ones((20, 20), "float32")])[0]
    assert set(np.unique(kept)) == {0, 2}
    print("equal", "dropout")

    check("lstm", lstm, [uniform(3, 4, 5)], lstm_of_ones(3, 4))
    check("queue", lambda v: internal_ops.fifo(v, 2), [shards[0]], shards[0], runs=3)

    square = uniform(3, 3)
    check("determinant", tf.linalg.det, [square], np.linalg.det(square))
    box = np.array([[0, 0, 1, 1]], "float32")
    check("crop", lambda i: _cropped(i, box), [x[:1]], x[:1])


def _cropped(images, boxes):
    return tf.image.crop_and_resize(images, boxes, [0], [3, 3])


def _reduced(first, second):
    return within_replica_ops.all_reduce([first, second], "COLLECTIVE_OP_ADD")


def _segments(rows):
    return np.stack([rows[0] + rows[1], rows[2], rows[3]])


if __name__ == "__main__":
    main()
