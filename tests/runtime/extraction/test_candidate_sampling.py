"""TensorFlow's samplers of classes in programs: the distribution of their draws, and losses."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.runtime.extraction.compositions import concrete_composition
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram

CLASSES = 6
SAMPLERS = {
    "UniformCandidateSampler": np.full(CLASSES, 1 / CLASSES),
    "LogUniformCandidateSampler": np.log((np.arange(CLASSES) + 2) / (np.arange(CLASSES) + 1))
    / np.log(CLASSES + 1),
}
LABELS = np.array([[0, 5], [2, 2]])


def both(op, count, *, unique):
    """The op and its composition as functions of the labels."""

    def stock(labels):
        return getattr(tf.raw_ops, op)(
            true_classes=labels,
            num_true=2,
            num_sampled=count,
            unique=unique,
            range_max=CLASSES,
            seed=3,
        )

    graph = tf.function(stock).get_concrete_function(tf.TensorSpec((2, 2), tf.int64)).graph
    node = next(node for node in graph.as_graph_def().node if node.op == op)
    return stock, concrete_composition(node, [tf.int64.as_datatype_enum])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("op", SAMPLERS)
def test_draws_with_repetition_have_the_distribution_of_tensorflow(op):
    tf.random.set_seed(4)
    stock, composition = both(op, 3000, unique=False)
    found, expected = composition(tf.constant(LABELS)), stock(LABELS)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-5)
    np.testing.assert_allclose(found[2], 3000 * SAMPLERS[op][found[0]], rtol=1e-5)
    shares = np.bincount(found[0], minlength=CLASSES) / 3000
    np.testing.assert_allclose(shares, SAMPLERS[op], atol=0.04)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("op", SAMPLERS)
def test_draws_without_repetition_are_different_classes(op):
    stock, composition = both(op, CLASSES, unique=True)
    for sample in (stock, composition):
        classes, of_labels, of_classes = sample(tf.constant(LABELS))
        assert sorted(classes.numpy()) == list(range(CLASSES))
        assert (of_labels.shape, of_classes.shape) == ((2, 2), (CLASSES,))
        assert np.all((of_classes > 0) & (of_classes <= 1))


@pytest.mark.slow
def test_a_program_trains_with_sampled_classes():
    weights, biases = tf.Variable(tf.ones((CLASSES, 3))), tf.Variable(tf.zeros(CLASSES))

    @tf.function
    def step(x, labels, hits):
        with tf.GradientTape() as tape:
            losses = tf.nn.sampled_softmax_loss(
                weights, biases, labels, x, 4, CLASSES, remove_accidental_hits=hits
            )
        return losses, tf.convert_to_tensor(tape.gradient(losses, biases))

    strategy = IPUStrategy(enable_keras_extensions=False)
    arguments = tf.ones((2, 3)), tf.constant([[1], [3]])
    losses, gradient = strategy.run(step, args=(*arguments, False))
    assert losses.shape == (2,)
    assert np.all(gradient.numpy()[[1, 3]] != 0)
    with pytest.raises(UncompilableProgram, match="pass `remove_accidental_hits=False`, or use"):
        strategy.run(step, args=(*arguments, True))
