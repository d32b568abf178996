"""Keras' preprocessing layers in a scope: on the host they do what they do without one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, UncompilableProgram, config

NUMBERS = np.linspace(0, 3, 30, dtype="float32").reshape(10, 3)
INTEGERS = (np.arange(10) ** 2 % 7).reshape(10, 1)
WORDS = np.array(["a b", "b c"] * 5)


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def batches(values):
    """Four, four and two samples: the last batch is not full."""
    return tf.data.Dataset.from_tensor_slices(values).batch(4)


LAYERS = {
    "Normalization": (keras.layers.Normalization, NUMBERS, lambda layer: layer.mean),
    "Discretization": (
        lambda: keras.layers.Discretization(num_bins=3),
        NUMBERS,
        lambda layer: layer.bin_boundaries,
    ),
    "IntegerLookup": (
        keras.layers.IntegerLookup,
        INTEGERS,
        lambda layer: layer.get_vocabulary(),
    ),
    "StringLookup": (keras.layers.StringLookup, WORDS, lambda layer: layer.get_vocabulary()),
    "TextVectorization": (
        keras.layers.TextVectorization,
        WORDS,
        lambda layer: layer.get_vocabulary(),
    ),
    "FeatureSpace": (
        lambda: keras.utils.FeatureSpace({"x": "float_normalized", "n": "integer_categorical"}),
        {"x": NUMBERS[:, 0], "n": INTEGERS[:, 0]},
        lambda space: space({"x": NUMBERS[:, 0], "n": INTEGERS[:, 0]}),
    ),
}


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize("name", LAYERS)
def test_preprocessing_layers_read_datasets_on_the_host(strategy, name):
    make, values, learned = LAYERS[name]

    def adapted():
        layer = make()
        layer.adapt(batches(values))
        return np.array(learned(layer))

    with strategy.scope():
        ours = adapted()
        with pytest.raises(ValueError, match="not fully defined"):
            iter(batches(values))  # Other readers get infeeds.
    np.testing.assert_array_equal(ours, adapted())


def test_an_adapted_layer_trains_in_a_model(strategy):
    def losses():
        keras.utils.set_random_seed(1)
        layer = keras.layers.Normalization()
        layer.adapt(batches(NUMBERS))
        model = keras.Sequential([keras.Input((3,)), layer, keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(NUMBERS, NUMBERS[:, :1], batch_size=5, verbose=0, shuffle=False)
        return history.history["loss"]

    with strategy.scope():
        ours = losses()
    np.testing.assert_allclose(ours, losses(), rtol=1e-5)


REFUSED = {
    "multi_hot": (keras.layers.CategoryEncoding, {"num_tokens": 7}, "DenseBincount"),
    "hashing": (keras.layers.Hashing, {"num_bins": 7, "output_mode": "one_hot"}, "AsString"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_layers_that_xla_lacks_say_where_to_put_them(strategy, name):
    cls, options, op_type = REFUSED[name]
    with strategy.scope():
        inputs = keras.Input((1,), dtype="int32")
        encoded = keras.ops.cast(cls(**options, name=name)(inputs), "float32")
        model = keras.Model(inputs, keras.layers.Dense(1)(encoded), name="net")
    message = rf"layer '(net/)?{name}': .*{op_type}"
    with pytest.raises(UncompilableProgram, match=message) as caught:
        model.predict(INTEGERS.astype("int32"), batch_size=5, verbose=0)
    assert "put the layer in `Dataset.map`, where the host runs it" in str(caught.value)
    assert [op.op_type for op in caught.value.refused] == [op_type]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.slow
def test_where_they_train(strategy, name):
    cls, options, _ = REFUSED[name]
    layer = cls(**options)
    data = tf.data.Dataset.from_tensor_slices(INTEGERS.astype("int32")).batch(5, True)
    data = data.map(lambda x: (layer(x), tf.ones((5, 1))))

    def losses():
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((7,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        return model.fit(data, verbose=0).history["loss"]

    with strategy.scope():
        ours = losses()
    np.testing.assert_allclose(ours, losses(), rtol=1e-5)
