"""`keras.RematScope` in a strategy's scope: all modes, with the weights of training without it."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy, config
from tests.grids import mostly_slow

MODES = {
    "full": {},
    "activations": {},
    "larger_than": {"output_size_threshold": 20 * 8},
    "list_of_layers": {"layer_names": ["first", "norm"]},
}
AGAIN = {
    "full": {"first", "norm", "dropout", "second"},
    "activations": {"first", "second"},
    "larger_than": {"first", "norm", "dropout"},
    "list_of_layers": {"first", "norm"},
}
"""The layers with values of their own that the backward pass reads; dropout draws the same mask."""


@pytest.fixture(autouse=True)
def configured():
    yield
    config.reset_ipu_configuration()


class Block(keras.layers.Layer):
    """A norm and a product: the norm has values that the gradient reads."""

    def __init__(self, units, **kwargs):
        super().__init__(**kwargs)
        self.units = units
        self.norm = keras.layers.LayerNormalization(name="inner_norm")
        self.product = keras.layers.Dense(units, "gelu", name="inner_product")

    def call(self, inputs, training=False):
        return self.product(self.norm(inputs))

    def compute_output_shape(self, shape):
        return (*shape[:-1], self.units)


def made():
    values = inputs = keras.Input((12,), name="x")
    values = keras.layers.Dense(32, "gelu", name="first")(values)
    values = keras.layers.BatchNormalization(name="norm")(values)
    values = keras.layers.Dropout(0.3, seed=3, name="dropout")(values)
    values = keras.layers.Dense(16, "gelu", name="second")(values)
    model = keras.Model(inputs, keras.layers.Dense(2, name="last")(values), name="net")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def trained(scope=None, make=made):
    """The weights after three steps, and the layers that the device program recomputes."""
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(24, size)).astype(np.float32) for size in (12, 2))
    strategy = IPUStrategy()
    with strategy.scope():
        if scope is None:
            model = make()
        else:
            with scope:
                model = make()
        model.fit(x, y, batch_size=8, epochs=1, verbose=0, shuffle=False)
    device = strategy.report().programs[0].device
    again = {step.layer.rpartition("/")[2] for step in device.steps if step.recomputed}
    return model.get_weights(), again, device


def same(found, wanted):
    return all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True))


@pytest.fixture(scope="module")
def plain():
    return trained()


@pytest.mark.parametrize("mode", mostly_slow(list(MODES), fast=["full"]))
def test_every_mode_trains_to_the_same_weights(plain, mode):
    weights, again, device = trained(keras.RematScope(mode=mode, **MODES[mode]))
    assert same(weights, plain[0])
    assert again == AGAIN[mode]
    assert plain[1] == set()
    assert device.stages[0].recomputed_cycles > 0


def blocks(make_block):
    def make():
        values = inputs = keras.Input((12,), name="x")
        for number in range(3):
            values = make_block(number)(values)
        model = keras.Model(inputs, keras.layers.Dense(2, name="last")(values), name="net")
        model.compile(keras.optimizers.SGD(0.1), "mse")
        return model

    return make


def scoped_block(number):
    with keras.RematScope("full"):
        return Block(12, name=f"block_{number}")


class Rematerialized(Block):
    """Hands its own function to `keras.remat`."""

    def __init__(self, units, **kwargs):
        super().__init__(units, **kwargs)
        self.again = keras.remat(super().call)

    def call(self, inputs, training=False):
        return self.again(inputs, training=training)


@pytest.mark.slow
def test_blocks_keep_their_inputs_alone():
    """The outermost of scopes within each other counts."""
    weights, again, before = trained(make=blocks(lambda n: Block(12, name=f"block_{n}")))
    assert again == set()
    for make_block in (scoped_block, lambda n: Rematerialized(12, name=f"block_{n}")):
        found, again, after = trained(make=blocks(make_block))
        assert same(found, weights)
        assert again == {"inner_norm", "inner_product"}
        kept = [device.stages[0].program.kept_activations for device in (before, after)]
        assert kept[1] < kept[0]


def test_eager_calls_in_the_scope_run_as_stock_keras_runs_them():
    with IPUStrategy().scope(), keras.RematScope("full"):
        layer = Block(4)
        x = np.ones((2, 3), np.float32)
        plain = Block(4)
        assert layer(x).shape == plain(x).shape
        plain.set_weights(layer.get_weights())
        assert np.array_equal(layer(x, training=True), plain(x))
