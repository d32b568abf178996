"""What pipelines see of the calls of layers."""

import keras
import pytest

import ipu_tf
from ipu_tf.keras.adapters.graphs import graphs_of

tf_keras = pytest.importorskip("tf_keras")


@pytest.fixture(params=[keras, tf_keras], ids=["keras 3", "tf_keras"])
def of_keras(request):
    """Each Keras, with its adapters."""
    with ipu_tf.IPUStrategy().scope():  # Loads those of tf_keras.
        return request.param


def test_only_layers_of_keras_have_graphs():
    with pytest.raises(TypeError, match=r"pass a keras.Layer, .* Received: 3 of type int"):
        graphs_of(3)


def test_calls_lead_from_outputs_to_inputs(of_keras):
    inputs = of_keras.Input((3,))
    dense = of_keras.layers.Dense(2)
    model = of_keras.Model(inputs, dense(inputs) + 1)
    graphs = graphs_of(model)
    add = graphs.producer_of(model.outputs[0])
    (product,) = graphs.operands_of(add)
    call = graphs.producer_of(product)
    (given,) = graphs.operands_of(call)
    source = graphs.producer_of(given)
    kinds = [graphs.kind(graphs.operation_of(node)) for node in (add, call, source)]
    assert kinds == ["operation" if of_keras is keras else "operation layer", "layer", "input"]
    assert list(graphs.nodes(dense)) == [call]
    assert list(map(id, graphs.results_of(call))) == [id(product)]
    assert graphs.arguments_of(call)[0][0] is given
    assert graphs.kind(model) == "functional"
    assert not graphs.overrides_call(model)


def test_what_a_layer_is(of_keras):
    class Own(of_keras.Sequential):
        def call(self, inputs):
            return inputs

    own, norm = Own(), of_keras.layers.BatchNormalization(momentum=0.5)
    nested = of_keras.Sequential([of_keras.Sequential([norm])])
    graphs = graphs_of(own)
    assert graphs.kind(own) == "sequential"
    assert graphs.overrides_call(own)
    assert not graphs.overrides_call(nested)
    assert norm in graphs.layers_within(nested)
    assert graphs.momentum_of_statistics(norm) == 0.5
    assert graphs.momentum_of_statistics(nested) is None
    assert graphs.path_of(norm, "net/block") == f"net/block/{norm.name}"
    assert graphs.kind(of_keras.Model()) == "subclass"


def test_new_symbolic_tensors(of_keras):
    graphs = graphs_of(of_keras.layers.Dense(1))
    tensor = graphs.fresh_tensor((None, 3), "float16")
    assert tuple(tensor.shape) == (None, 3)
    assert tensor.dtype == "float16"
    assert list(map(id, graphs.tensors_in({"x": [tensor, 3]}))) == [id(tensor)]
