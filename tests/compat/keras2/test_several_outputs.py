"""Models of several outputs, lists of numbers, and models of classes without a configuration."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy

layers = keras.layers
X = np.random.default_rng(1).random((8, 3), dtype=np.float32)


def two_outputs():
    x = keras.Input((3,))
    options = {"kernel_initializer": "zeros"}
    return keras.Model(
        x, [layers.Dense(1, name="a", **options)(x), layers.Dense(1, name="b", **options)(x)]
    )


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("weights", [[1.0, 0.5], {"b": 0.5}])
def test_one_loss_is_that_of_each_output(keras_2, notices, weights):
    model = two_outputs()
    model.compile(keras.optimizers.SGD(0.0), "mse", loss_weights=weights)
    y = np.ones((8, 1), np.float32)
    loss = model.evaluate(X, [y, 2 * y], verbose=0)[0]
    assert loss == pytest.approx(1 + 0.5 * 4)
    notices.once("`compile(loss=..., loss_weights=[...])`")


def test_lists_of_numbers_are_arrays(keras_2, notices):
    with IPUStrategy().scope():
        model = keras.Sequential([layers.Dense(1, kernel_initializer="ones")])
        model.compile(keras.optimizers.SGD(0.0), "mse")
        assert model.evaluate([1.0, 2.0], y=[[1.0], [4.0]], batch_size=2, verbose=0) == 2
        np.testing.assert_array_equal(model.predict([3, 4.0], batch_size=1, verbose=0), [[3], [4]])
    notices.once("`fit([1.0, 2.0], [3.0, 4.0])`")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
def test_a_class_without_a_configuration_is_loaded(keras_2, tmp_path):
    class Own(keras.Model):
        def __init__(self, units=2):
            super().__init__()
            self.dense = layers.Dense(units)

        def call(self, x):
            return self.dense(x)

    with IPUStrategy().scope():
        model = Own()
        expected = model.predict(X, batch_size=8, verbose=0)
        model.save(tmp_path / "own")
        loaded = keras.models.load_model(tmp_path / "own", custom_objects={"Own": Own})
        np.testing.assert_array_equal(loaded.predict(X, batch_size=8, verbose=0), expected)


def test_modules_of_mixed_precision_are_found(keras_2):
    from keras.mixed_precision import policy

    policy.set_policy(policy.Policy("mixed_float16"))
    try:
        assert keras.mixed_precision.global_policy().compute_dtype == "float16"
    finally:
        keras.mixed_precision.set_global_policy("float32")


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict", "train_on_batch"])
def test_the_loop_is_refused_in_a_function(method):
    with IPUStrategy().scope():
        model = keras.Sequential([layers.Dense(1)])
        model.compile("sgd", "mse")

        @tf.function
        def call():
            getattr(model, method)(X)

        message = f"call to `{method}` of model '{model.name}' inside a `tf.function`"
        with pytest.raises(RuntimeError, match=message):
            call()
