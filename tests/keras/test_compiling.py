"""What `compile` takes for the loop, and what happens without it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from tests.keras.equivalence import batches, samples
from tests.keras.small_models import CLASSES, compile_model, sequential

INTEGERS = {
    "NumPy": np.int64(2),
    "tensor": tf.constant(2),
    "variable": tf.Variable(2, dtype=tf.int64),
}


@pytest.mark.parametrize(
    ("steps", "received"),
    [
        (-1, "-1 of type int"),
        (0, "0 of type int"),
        ("auto", "'auto' of type str"),
        (None, "None of type NoneType"),
        (True, "True of type bool"),
        (2.5, "2.5 of type float"),
        (tf.constant(2.5), ".*2.5.* of type EagerTensor"),
        (tf.constant([2, 2]), ".*2, 2.* of type EagerTensor"),
    ],
    ids=str,
)
def test_steps_per_execution_are_a_positive_integer(strategy, steps, received):
    message = "Sequential model: `steps_per_execution` must be a positive integer.* Received: "
    with strategy.scope():
        model = sequential()
        with pytest.raises(ValueError, match=f"`compile` of a {message}{received}"):
            compile_model(model, steps_per_execution=steps)
        with pytest.raises(ValueError, match=message + received):
            model.steps_per_execution = steps


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")
@pytest.mark.parametrize("kind", INTEGERS)
@pytest.mark.slow
def test_steps_per_execution_may_be_any_integer(strategy, kind, tmp_path):
    ends = []

    class Ends(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            ends.append(batch)

    with strategy.scope():
        model = compile_model(sequential(), steps_per_execution=INTEGERS[kind])
        model.fit(batches(samples(16), 4), shuffle=False, verbose=0, callbacks=[Ends()])
        path = str(tmp_path / "model.keras")
        model.save(path)
        assert keras.models.load_model(path).steps_per_execution == 2
    assert ends == [1, 3]


@pytest.mark.parametrize("built", [True, False], ids=["built", "not built"])
@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch", "test_on_batch"])
def test_models_that_are_not_compiled_are_refused(strategy, method, built):
    with strategy.scope():
        model = sequential() if built else keras.Sequential([keras.layers.Dense(CLASSES)])
    message = (
        f"`{method}` of model '{model.name}': You must compile your model before training/testing: "
        r"call `compile\(\)`, for example"
    )
    with pytest.raises(RuntimeError, match=message) as error:
        getattr(model, method)(*samples(32))
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("method", ["fit", "evaluate", "train_on_batch", "predict_on_batch"])
def test_a_call_that_needs_more_than_the_inputs_is_refused(strategy, method):
    class Sum(keras.Model):
        def call(self, x, further, scale=1.0, training=None):
            return x + scale * further

    with strategy.scope():
        model = Sum()
    model.compile("sgd", "mse")
    data = samples(32)[:1] if method == "predict_on_batch" else samples(32)
    message = f"Models passed to `{method}` can only have `training` and .* `call` needs further"
    with pytest.raises(ValueError, match=message):
        getattr(model, method)(*data)


@pytest.mark.slow
def test_losses_of_float16_layers_are_added_to_that_of_the_model(strategy):
    with strategy.scope():
        dense = keras.layers.Dense(
            1, "linear", kernel_initializer="ones", kernel_regularizer="l2", dtype="float16"
        )
        model = keras.Sequential([keras.Input((4,)), dense])
        model.compile("sgd", "mse")
        logs = model.fit(np.ones((2, 4)), np.zeros((2, 1)), batch_size=2, verbose=0).history
        kernel = dense.kernel.numpy().astype("float32")
        found = model.evaluate(np.zeros((2, 4)), np.zeros((2, 1)), batch_size=2, verbose=0)
    np.testing.assert_allclose(logs["loss"], [4.0**2 + 0.01 * 4], rtol=1e-4)
    bias = float(dense.bias.numpy()[0])
    np.testing.assert_allclose(found, bias**2 + 0.01 * (kernel**2).sum(), rtol=1e-3)
