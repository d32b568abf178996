"""Scripts walk the graph of a functional model as in Keras 2."""

import keras
import numpy as np
import pytest
import tensorflow as tf

X = np.random.default_rng(1).random((2, 3), dtype=np.float32)


def copied(model):
    """A copy of a functional model, made layer by layer from its outputs."""
    tensors = {}

    def copy_of(tensor):
        if tensor.ref() not in tensors:
            layer = tensor._keras_history.layer
            if isinstance(layer, keras.layers.InputLayer):
                return tensor
            copy = layer.from_config(layer.get_config())
            copy._name = f"copy_of_{layer._name}"
            inputs = layer.input if isinstance(layer.input, list) else [layer.input]
            copies = [copy_of(one) for one in inputs]
            tensors[tensor.ref()] = copy(copies if len(copies) > 1 else copies[0])
        return tensors[tensor.ref()]

    return keras.Model(model.inputs, [copy_of(output) for output in model.outputs])


def made():
    inputs = keras.Input((3,))
    x = keras.layers.Dense(3, name="first")(inputs)
    return keras.Model(inputs, keras.layers.Add(name="sum")([x, x, inputs]))


def test_a_model_is_copied_layer_by_layer(keras_2, notices):
    model = made()
    copy = copied(model)
    assert [layer.name for layer in copy.layers[1:]] == ["copy_of_first", "copy_of_sum"]
    copy.set_weights(model.get_weights())
    np.testing.assert_array_equal(copy([X]), model(X))
    notices.once("`tensor.ref()`")


def test_nodes_tell_layers_and_arguments(keras_2):
    model = made()
    inputs, dense, add = model.layers
    assert inputs.input is inputs.output
    (node,) = add.inbound_nodes
    assert node.outbound_layer is node.layer is add
    ((first, second, third),) = node.call_args
    assert first.ref() == second.ref() != third.ref()
    assert first.ref().deref() is dense.output
    assert node.call_kwargs == {}
    assert [one.outbound_layer for one in dense.outbound_nodes] == [add, add]


SCALE = 2.0


def test_lambdas_are_copied_with_their_surroundings(keras_2, notices):
    added = np.float32(3)
    layer = keras.layers.Lambda(lambda x: SCALE * x + added, name="affine")
    inputs = keras.Input((3,))
    copy = copied(keras.Model(inputs, layer(inputs)))
    np.testing.assert_allclose(copy([X]), 2 * X + 3)
    notices.once("`tensor.ref()`", "`Lambda.from_config(layer.get_config())`")


def test_files_with_lambdas_are_refused(keras_2, tmp_path):
    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x + 1)]).save(path)
    with pytest.raises(ValueError, match="safe_mode=False"):
        keras.models.load_model(path)


class Edges(keras.layers.Layer):
    """Returns a number of rows before the tensor, and its shape after it."""

    def call(self, inputs):
        return 5, inputs * 2.0, tf.TensorShape((5, 3))


class Scattered(keras.layers.Layer):
    """Adds up rows by the numbers in `rows`."""

    def call(self, inputs, edges, rows=(0, 3)):
        count, values, shape = edges
        assert (count, shape) == (5, tf.TensorShape((5, 3)))
        add_up = keras.layers.Lambda(
            lambda given: tf.math.unsorted_segment_sum(given[0], rows, given[1][0])
        )
        return inputs + add_up((values, shape))[:1]


def test_layers_pass_shapes_and_numbers_beside_tensors(keras_2, notices):
    inputs = keras.Input((3,), batch_size=2)
    edges = Edges()(inputs)
    model = keras.Model(inputs, Scattered()(inputs, edges))
    np.testing.assert_allclose(model(X), X + X[:1] * 2, rtol=1e-6)
    notices.once("shapes or numbers beside tensors")


def test_the_function_of_a_lambda_gets_a_sparse_input(keras_2, notices):
    kernel = tf.constant(np.arange(10, dtype=np.float32).reshape(5, 2))
    inputs = keras.Input((5,), sparse=True)
    outputs = keras.layers.Lambda(lambda x: tf.sparse.sparse_dense_matmul(x, kernel))(inputs)
    assert (tuple(outputs.shape), outputs.sparse) == ((None, 2), False)
    notices.once("of a sparse `Input`")
    rows = np.eye(3, 5, dtype=np.float32)
    np.testing.assert_array_equal(
        keras.Model(inputs, outputs)(tf.sparse.from_dense(rows)), rows @ kernel.numpy()
    )
