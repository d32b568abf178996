"""Embedding: equal to Keras', in parts or whole; errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.keras.layers import Embedding

IDS = np.array([[0, 5, 3], [2, 2, 1]], "int32")


@pytest.mark.parametrize("factor", [1, 2, 6])
def test_rows_equal_those_of_keras(factor):
    ours, stock = Embedding(6, 4, serialization_factor=factor), keras.layers.Embedding(6, 4)
    ours(IDS), stock(IDS)
    stock.set_weights(ours.get_weights())
    np.testing.assert_array_equal(ours(IDS, inputs_are_sorted=False), stock(IDS))
    assert ours.serialization_factor == factor


def test_shapes_of_symbolic_inputs():
    assert Embedding(6, 4)(keras.Input((3,), dtype="int32")).shape == (None, 3, 4)


def test_mixed_precision():
    assert Embedding(6, 4, dtype="mixed_float16")(IDS).dtype == "float16"


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("embeddings_regularizer", "l2"),
        ("activity_regularizer", "l2"),
        ("embeddings_constraint", "non_neg"),
        ("mask_zero", True),
        ("input_length", 3),
    ],
)
def test_arguments_without_support(argument, value):
    message = (
        "ipu_tensorflow_addons.keras.layers.Embedding does not support __init__ argument "
        f"{argument}.*Received: {argument}={value!r}"
    )
    with pytest.raises(NotImplementedError, match=message):
        Embedding(6, 4, **{argument: value})


@pytest.mark.parametrize("factor", [0, 4])
def test_the_factor_is_checked(factor):
    with pytest.raises(ValueError, match=f"Embedding: serialization_factor .*={factor}, 6 rows"):
        Embedding(6, 4, serialization_factor=factor)


@pytest.mark.parametrize("shape", [(3,), (2, 3, 1)])
def test_the_rank_is_checked(shape):
    with pytest.raises(ValueError, match=r"'table': .*\[batch, input_length\]. Received: shape"):
        Embedding(6, 4, name="table")(np.zeros(shape, "int32"))


def test_ids_are_integers():
    with pytest.raises(ValueError, match="'table': .*dtype='int32'.*Received: dtype float32"):
        Embedding(6, 4, name="table")(keras.Input((3,)))
    with pytest.raises(ValueError, match="the inputs must be integers.*Received: dtype float32"):
        Embedding(6, 4)(IDS.astype("float32"))


LARGE = 2**24 + 1  # The first integer that no float32 is equal to.


def first_in_a_sequential(embedding, nested):
    keras.utils.set_random_seed(3)
    model = keras.Sequential([embedding(), keras.layers.GlobalAveragePooling1D()])
    if nested:
        model = keras.Sequential([model, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    return IPUStrategy()


@pytest.mark.slow
@pytest.mark.parametrize("nested", [True, False])
def test_first_in_an_unbuilt_sequential(strategy, nested):
    stock = first_in_a_sequential(lambda: keras.layers.Embedding(6, 4), nested)
    targets = np.ones((2, 1 if nested else 4), "float32")
    expected = stock.fit(IDS, targets, batch_size=2, epochs=3, verbose=0).history["loss"]
    with strategy.scope():
        ours = first_in_a_sequential(lambda: Embedding(6, 4, serialization_factor=2), nested)
        losses = ours.fit(IDS, targets, batch_size=2, epochs=3, verbose=0).history["loss"]
        assert ours.inputs[0].dtype == "int32"
        assert keras.models.clone_model(ours).inputs[0].dtype == "int32"
    np.testing.assert_allclose(losses, expected, rtol=1e-5)
    np.testing.assert_allclose(ours(IDS), stock(IDS), rtol=1e-5)


def test_large_ids_of_a_sequential_keep_their_value(strategy):
    with strategy.scope():
        model = keras.Sequential([Embedding(LARGE + 1, 1, embeddings_initializer="zeros")])
        model.build((1, 1))
    model.layers[0].embeddings.assign(tf.reshape(tf.range(LARGE + 1) % 2, (-1, 1)))
    assert model(np.array([[LARGE]], "int32")).numpy().item() == LARGE % 2
