"""Initializers of layers and optimizers as scripts for Keras 2 write them."""

import keras
import numpy as np
import pytest
import tensorflow as tf

X = np.ones((2, 3), np.float32)


class _Block(keras.layers.Layer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.dense = keras.layers.Dense(2)

    def build(self, shape):
        self.dense.build(shape)

    def call(self, x):
        return self.dense(x)


def test_layers_of_private_classes_have_names_of_keras_2(keras_2, notices):
    block, other = _Block(), _Block()
    assert block.name.startswith("private__block")
    assert other.name.startswith("private__block_")

    @tf.function
    def call(x):
        return block(x)

    assert call(X).shape == (2, 2)
    notices.once("a class of layers named")


@pytest.mark.parametrize("given", [None, "a name"])
def test_an_argument_that_is_no_truth_value_is_not_trainable(keras_2, notices, given):
    class Model(keras.Model):
        def __init__(self):
            super().__init__(given)
            self.block = _Block(given)

        def call(self, x):
            return self.block(x)

    model = Model()
    model(X)
    assert model.trainable
    assert len(model.trainable_weights) == 2
    assert any("super().__init__(None)" in notice for notice in notices())


def test_layers_have_variables_before_their_initializer(keras_2):
    class Sharing(keras.layers.Layer):
        def __init__(self, variable):
            self.variable = variable
            super().__init__()

        def call(self, x):
            return x * self.variable

    variable = tf.Variable(2.0)
    layer = Sharing(variable)
    np.testing.assert_array_equal(layer(X), 2 * X)
    assert len(layer.trainable_weights) == 1
    layer.trainable_weights[0].assign(3.0)
    assert variable.numpy() == 3.0


def test_optimizers_have_attributes_before_their_initializer(keras_2, notices):
    class Own(keras.optimizers.SGD):
        def __init__(self):
            self.steps_seen = 0
            super().__init__(0.5)

    optimizer = Own()
    assert optimizer.steps_seen == 0
    variable = keras.Variable(1.0)
    optimizer.apply_gradients([(tf.constant(1.0), variable)])
    assert variable.numpy() == 0.5
    notices.once("before `super().__init__()`")


def test_layers_without_a_call_return_their_inputs(keras_2, notices):
    class Nothing(keras.layers.Layer):
        pass

    outputs = Nothing()(inputs := keras.Input((3,)))
    np.testing.assert_array_equal(keras.Model(inputs, outputs)(X), X)
    notices.once("without a `call`")


def test_values_are_clipped_before_norms(keras_2, notices):
    optimizer = keras.optimizers.SGD(1.0, clipnorm=1.0, clipvalue=2.0)
    variable = keras.Variable([0.0, 0.0])
    optimizer.apply_gradients([(tf.constant([6.0, 2.0]), variable)])
    # (6, 2) has the values (2, 2), and these the norm 1.
    np.testing.assert_allclose(variable, [-(0.5**0.5), -(0.5**0.5)], rtol=1e-6)
    again = keras.optimizers.SGD.from_config(optimizer.get_config())
    assert (again.clipnorm, again.clipvalue) == (1.0, 2.0)
    notices.once("`clipvalue=` beside `clipnorm=`")
