"""Functions of TensorFlow in functional models."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.compat.keras2.tensorflow_ops import TFOpLambda

X = np.random.default_rng(1).random((4, 6), dtype=np.float32)

FUNCTIONS = {
    "reduce_sum": lambda x: tf.reduce_sum(x, axis=1, keepdims=True),
    "concat": lambda x: tf.concat([x, 2 * x], axis=-1),
    "split": lambda x: tf.split(x, 2, axis=1)[1],
    "reshape": lambda x: tf.reshape(x, [-1, 2, 3]),
    "transpose": lambda x: tf.transpose(tf.reshape(x, (-1, 2, 3)), [0, 2, 1]),
    "cast": lambda x: tf.cast(x > 0.5, tf.float32),
    "expand_dims": lambda x: tf.squeeze(tf.expand_dims(x, 1), [1]),
    "where": lambda x: tf.where(x > 0.5, x, tf.zeros_like(x)),
    "matmul": lambda x: tf.matmul(x, tf.ones((6, 2))),
    "softmax": lambda x: tf.nn.softmax(x),
    "clip": lambda x: tf.clip_by_value(x, 0.25, 0.75),
    "shape": lambda x: x + tf.cast(tf.shape(x)[1], tf.float32),
    "l2": lambda x: tf.math.l2_normalize(x, axis=1),
    "stack": lambda x: tf.stack([x, x], axis=1),
    "constant": lambda x: tf.constant(2.0) * x,
    "one_hot": lambda x: tf.one_hot(tf.argmax(x, axis=1), 6),
    "backend": lambda x: tf.keras.backend.mean(x, axis=1),
    "einsum": lambda x: tf.einsum("ij,jk->ik", x, tf.ones((6, 2))),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_an_operation_of_the_model(keras_2, notices, name):
    inputs = keras.Input((6,))
    outputs = FUNCTIONS[name](inputs)
    expected = FUNCTIONS[name](tf.constant(X))
    assert tuple(outputs.shape)[1:] == tuple(expected.shape)[1:]
    np.testing.assert_allclose(keras.Model(inputs, outputs)(X), expected, rtol=1e-6)
    assert any("functions of `tf`" in notice for notice in notices())


def test_operations_have_the_names_of_their_functions(keras_2, notices):
    inputs = keras.Input((6,))
    model = keras.Model(inputs, tf.nn.relu(tf.reduce_sum(inputs, axis=1)))
    names = [layer.name.rstrip("_0123456789") for layer in model.layers[1:]]
    assert names == ["tf.math.reduce_sum", "tf.nn.relu"]
    notices.once("functions of `tf`")


def test_functions_are_layers_between_layers(keras_2):
    inputs = keras.Input((6,), batch_size=4, name="x")
    scaled = tf.multiply(keras.layers.Dense(6)(inputs), 2.0)
    model = keras.Model(inputs, keras.layers.Dense(2)(tf.stack([scaled[:, 0], scaled[:, 1]], 1)))
    found = [type(layer).__name__ for layer in model.layers]
    assert found == ["InputLayer", "Dense", "TFOpLambda", "TFOpLambda", "Dense"]
    product = model.layers[2]
    assert product.name.startswith("tf.math.multiply")
    assert product.built
    assert product.function(3.0, 2.0) == 6.0
    assert product.inbound_nodes[0].call_args[1] == 2.0


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda x: tf.squeeze(x, axis=-1), "tf.compat.v1.squeeze"),
        (tf.transpose, "tf.compat.v1.transpose"),
        (lambda x: tf.gather(x, [0], axis=1), "tf.compat.v1.gather"),
        (lambda x: tf.expand_dims(x, 1), "tf.expand_dims"),
        (lambda x: tf.reduce_mean(x, axis=1), "tf.math.reduce_mean"),
        (lambda x: tf.reshape(x, (6, 4)), "tf.reshape"),
    ],
)
def test_layers_have_the_names_of_the_innermost_functions(keras_2, function, name):
    keras.utils.clear_session()
    inputs = keras.Input((6, 1), batch_size=4)
    outputs = function(inputs)
    assert keras.Model(inputs, outputs).layers[1].name == name
    assert outputs.name == f"{name}/{name.rpartition('.')[2]}:0"


def test_parts_of_a_result_have_names_of_their_own(keras_2):
    start, end = tf.split(keras.Input((6,), batch_size=4), 2, axis=1)
    assert [tensor.name.rpartition("/")[2] for tensor in (start, end)] == ["split:0", "split:1"]


def test_a_model_with_functions_is_saved_and_loaded(keras_2, tmp_path):
    inputs = keras.Input((6,))
    model = keras.Model(inputs, tf.reduce_sum(tf.cast(inputs, tf.float32), axis=1))
    model.save(tmp_path / "a.keras")
    loaded = keras.models.load_model(tmp_path / "a.keras")
    np.testing.assert_array_equal(loaded(X), model(X))


def test_an_unknown_function_is_refused():
    with pytest.raises(ValueError, match="TensorFlow has no function 'tf.math.nonsense'"):
        TFOpLambda("math.nonsense")


def test_a_function_without_a_public_name_cannot_be_saved():
    with pytest.raises(ValueError, match="calls a function of TensorFlow without a public name"):
        TFOpLambda(lambda x: x).get_config()


@pytest.mark.slow
def test_models_with_functions_train_on_the_ipu(keras_2):
    def weights(make):
        with IPUStrategy().scope():
            inputs = keras.Input((6,))
            x = keras.layers.Dense(3, kernel_initializer="ones")(inputs)
            model = keras.Model(inputs, make(x))
            model.compile("sgd", "mse")
            model.fit(X, X[:, :1], batch_size=2, shuffle=False, verbose=0)
            return model.get_weights()[0]

    found = weights(lambda x: tf.reduce_sum(tf.nn.relu(x), axis=1, keepdims=True))
    expected = weights(lambda x: keras.ops.sum(keras.ops.relu(x), axis=1, keepdims=True))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_shapes_have_the_methods_of_tensor_shapes(keras_2, notices):
    x = keras.Input((6, 2))
    assert x.get_shape() == tf.TensorShape([None, 6, 2])
    assert x.shape.as_list() == [None, 6, 2]
    assert x.dtype.base_dtype == tf.float32
    assert x.dtype == "float32"
    assert (x.shape.rank, x.shape.ndims, x.shape) == (3, 3, (None, 6, 2))
    notices.once("`x.get_shape()`")


def test_an_error_of_a_function_is_its_own(keras_2):
    with pytest.raises(ValueError, match="Dimensions must be equal|incompatible"):
        tf.matmul(keras.Input((6,)), tf.ones((5, 2)))


def test_functions_fail_on_symbolic_tensors_afterwards():
    with pytest.raises(ValueError, match="A KerasTensor cannot be used as input"):
        tf.reduce_sum(keras.Input((6,)))
    with pytest.raises(AttributeError, match="get_shape"):
        keras.Input((6,)).get_shape()


@pytest.mark.parametrize("is_training", [True, False])
def test_batch_norms_take_scales_of_half_precision(keras_2, is_training):
    x = tf.constant(np.random.default_rng(2).normal(size=(4, 3, 3, 2)), tf.float16)
    vectors = [tf.constant(v, tf.float16) for v in ([2, 0.5], [0.25, -1], [0.5, 1], [2, 0.25])]
    norm = tf.compat.v1.nn.fused_batch_norm

    def computed(dtype):
        values = [tf.cast(vector, dtype) for vector in vectors]
        with tf.GradientTape() as tape:
            tape.watch([x, *values[:2]])
            moments = {} if is_training else {"mean": values[2], "variance": values[3]}
            results = norm(x, *values[:2], **moments, is_training=is_training)
        return results, tape.gradient(results[0], [x, *values[:2]])

    results, gradients = computed(tf.float16)
    expected, expected_gradients = computed(tf.float32)
    assert [r.dtype for r in (*results, *gradients)] == [tf.float16] * 6
    for found, wanted in zip((*results, *gradients), (*expected, *expected_gradients), strict=True):
        np.testing.assert_array_equal(found, tf.cast(wanted, tf.float16))


def test_norms_of_halves_are_not_joined_with_the_relu_after_them(keras_2):
    norm = tf.compat.v1.nn.fused_batch_norm
    with tf.Graph().as_default() as graph:
        for dtype in (tf.float16, tf.float32):
            x = tf.compat.v1.placeholder(dtype, [2, 4, 4, 8])
            one = tf.ones([8])
            tf.nn.relu(norm(x, one, one, mean=one, variance=one, is_training=False)[0])
    readers = [op.inputs[0].op.type for op in graph.get_operations() if op.type == "Relu"]
    assert readers == ["EnsureShape", "FusedBatchNormV3"]
