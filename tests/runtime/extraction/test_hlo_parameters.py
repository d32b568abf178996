"""Which layer a variable belongs to."""

import keras
import numpy as np

from ipu_tf.internals.keras_layers import keras_layer_path
from ipu_tf.runtime.extraction.hlo_parameters import FirstRead, VariableRoles, variable_parameters


def built_on_its_own():
    dense = keras.layers.Dense(2, name="dense", use_bias=False)
    dense.build((None, 3))
    return dense


def test_a_weight_of_a_layer_that_was_built_on_its_own_belongs_where_it_is_read():
    first, second = built_on_its_own(), built_on_its_own()
    assert first.kernel.path == second.kernel.path == "dense/kernel"
    places = [
        FirstRead(handle=dense.kernel.value.handle, op_name="MatMul", layer=f"{block}/dense")
        for dense, block in ((first, "a"), (second, "b"))
    ]
    known = VariableRoles(weights=[first.kernel, second.kernel])
    assert [p.layer for p in variable_parameters(places, known)] == ["a/dense", "b/dense"]


def test_a_weight_belongs_to_its_layer_where_another_one_reads_it_first():
    dense = built_on_its_own()
    handles = dense.kernel.value.handle, keras.Variable([1.0]).value.handle
    places = [
        FirstRead(handle=handle, op_name="MatMul", layer=layer)
        for handle, layer in zip(handles, ("head", "dense/inner"), strict=True)
    ]
    known = VariableRoles(weights=[dense.kernel])
    assert variable_parameters(places, known)[0].layer == "dense"


class Recording(keras.layers.Layer):
    def build(self, shape):
        self.paths = []

    def call(self, x):
        self.paths.append(keras_layer_path())
        return x


class Block(keras.layers.Layer):
    def __init__(self, inner, name):
        super().__init__(name=name)
        self.inner = inner

    def call(self, x):
        return self.inner(x)


def test_a_layer_is_called_below_the_layer_around_it():
    inner = Recording(name="inner")
    inner.build((2, 3))
    x = np.zeros((2, 3), np.float32)
    for name in ("a", "b"):
        Block(inner, name)(x)
    assert inner.paths[-1] == "b/inner"
    assert inner.paths[0] == "a/inner"
