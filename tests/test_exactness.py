"""Training under the strategy is stock Keras training, up to float32 rounding.

Rounding can flip a tie of a ReLU or of a max-pooling window. A flip moves a whole gradient element,
in whichever implementation it happens, and training amplifies it. Batches are small, so that a
flip is rare, and what is compared after training is the median over several data sets.
"""

import statistics

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, ops
from tests.grids import mostly_slow
from tests.networks import NETWORKS

STEPS = 20
SEEDS = range(5)
SEED = 11


def initial_weights(network):
    keras.utils.set_random_seed(SEED)
    return network.build().get_weights()


def build(network, weights):
    model = network.build()
    model.set_weights(weights)
    return model


def gradients_of(model, x, y):
    """Returns a function that gives the gradients of one step of `model`."""
    loss = keras.losses.CategoricalCrossentropy()

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            value = loss(y, model(x, training=True))
        return tape.gradient(value, model.trainable_variables)

    return step


class Training:
    """A compiled model that is trained again and again from the same weights.

    Args:
        network: The network to train.
        weights: Where every training starts.
    """

    def __init__(self, network, weights):
        self.network = network
        self.weights = weights
        self.model = build(network, weights)
        self.model.compile(
            loss="categorical_crossentropy", optimizer=keras.optimizers.SGD(network.learning_rate)
        )

    def after(self, x, y):
        """Returns the weights as one float64 vector after one pass over the data."""
        self.model.set_weights(self.weights)
        self.model.fit(x, y, batch_size=self.network.batch_size, shuffle=False, verbose=0)
        return np.concatenate([w.astype("float64").ravel() for w in self.model.get_weights()])


@pytest.fixture
def float64_policy():
    policy, floatx = keras.config.dtype_policy(), keras.config.floatx()
    keras.config.set_floatx("float64")
    keras.config.set_dtype_policy("float64")
    yield
    keras.config.set_dtype_policy(policy)
    keras.config.set_floatx(floatx)


@pytest.mark.parametrize(
    "name", mostly_slow(list(NETWORKS), fast=["mlp", "cifar10", "transformer", "lstm"])
)
@pytest.mark.fast_cells(1)
def test_gradients_of_one_step(name):
    network = NETWORKS[name]
    weights = initial_weights(network)
    x, y = (tf.constant(part) for part in network.data(1, seed=7))
    strategy = IPUStrategy()
    with strategy.scope():
        ours_model = build(network, weights)
    ours = strategy.run(gradients_of(ours_model, x, y), args=(x, y))
    stock = gradients_of(build(network, weights), x, y)(x, y)
    norm = float(tf.linalg.global_norm(stock))
    for mine, reference in zip(ours, stock, strict=True):
        assert float(tf.norm(mine - reference)) <= 1e-5 * norm
    assert strategy.report().tile_ops
    assert not strategy.report().native_ops


@pytest.mark.parametrize("name", mostly_slow(list(NETWORKS), fast=["mlp"]))
@pytest.mark.slow
def test_twenty_steps_are_as_close_to_float64_as_stock(name, float64_policy):
    network = NETWORKS[name]
    start = [w.astype("float32") for w in initial_weights(network)]
    exact = Training(network, start)
    keras.config.set_floatx("float32")
    keras.config.set_dtype_policy("float32")
    stock = Training(network, start)
    with IPUStrategy().scope():
        ours = Training(network, start)

    distances = {"ours": [], "stock": []}
    for seed in SEEDS:
        x, y = network.data(STEPS, seed)
        truth = exact.after(x.astype("float64"), y.astype("float64"))
        weights = {"ours": ours.after(x, y), "stock": stock.after(x, y)}
        for side, vector in weights.items():
            distances[side].append(np.linalg.norm(vector - truth))
        if name == "mlp":
            difference = np.linalg.norm(weights["ours"] - weights["stock"])
            assert difference <= 1e-4 * np.linalg.norm(weights["stock"])
    assert statistics.median(distances["ours"]) <= 2 * statistics.median(distances["stock"])


@pytest.mark.parametrize("terms", [64, 1152])
def test_rounding_decides_ties_on_both_sides_alike(terms):
    """Half of the sums that stand next to a bound fall on the other side of it than in float64."""
    random = np.random.default_rng(0)
    x = random.standard_normal((4, terms)).astype("float32")
    kernel = (random.standard_normal((terms, 256)) / np.sqrt(terms)).astype("float32")
    exact = x.astype("float64") @ kernel.astype("float64")
    bound = exact.astype("float32")
    errors = []
    for sums in (tf.matmul(x, kernel), ops.matmul(tf.constant(x), tf.constant(kernel))):
        flipped = (sums.numpy() > bound) != (exact > bound)
        assert 0.3 < flipped.mean() < 0.7
        errors.append(np.sqrt(np.mean((sums.numpy() - exact) ** 2)))
    assert max(errors) < 1e-6
    assert errors[1] < 2 * errors[0]
