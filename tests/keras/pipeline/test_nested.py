"""Stages inside of nested subclassed models, and models of which only some layers have one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf.keras as ipu
from ipu_tf import config
from ipu_tf.keras import PipelineStage
from ipu_tf.keras.pipeline import stage_of_layers
from tests.keras.equivalence import (
    BATCH,
    ScaledLoss,
    batches,
    check_weights,
    samples,
    strategy_of,
)
from tests.keras.small_models import CLASSES, FEATURES

G = 6  # Micro-batches: a multiple of twice the stages.

# Keras' words for every subclass with a `call` alone.
UNBUILT = pytest.mark.filterwarnings(r"ignore:`build\(\)` was called on layer")


def names(prefix, count):
    return [keras.layers.Dense(4, name=f"{prefix}{number}") for number in range(count)]


class WithTensorFlow(keras.Model):
    """Calls a TensorFlow function, which no symbolic tensor goes through."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(4)

    def call(self, inputs):
        return tf.nn.relu(self.dense(inputs))


class Staged(keras.Model):
    """A subclassed model that assigns the stages of its two layers in its call."""

    def __init__(self, first=0, second=1, name="block"):
        super().__init__(name=name)
        self.stages = first, second
        self.a, self.b = names("n", 2)

    def call(self, inputs):
        with PipelineStage(self.stages[0]):
            x = self.a(inputs)
        if self.stages[1] is None:
            return self.b(x)
        with PipelineStage(self.stages[1]):
            return self.b(x)


class Around(keras.Model):
    """A subclassed model around another one."""

    def __init__(self, inner):
        super().__init__(name="net")
        self.inner, self.head = inner, keras.layers.Dense(CLASSES, name="head")

    def call(self, inputs):
        x = self.inner(inputs)
        with PipelineStage(2):
            return self.head(x)


def around_in_functional(inner):
    inputs = keras.Input((FEATURES,))
    x = inner(inputs)
    with PipelineStage(2):
        x = keras.layers.Dense(CLASSES, name="head")(x)
    return keras.Model(inputs, x, name="net")


def around_in_sequential(inner):
    with PipelineStage(2):
        head = keras.layers.Dense(CLASSES, name="head")
    return keras.Sequential([keras.Input((FEATURES,)), inner, head], name="net")


AROUND = [Around, around_in_functional, around_in_sequential]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("around", AROUND)
def test_a_nested_subclass_assigns_the_stages_of_its_layers(strategy, around):
    with strategy.scope():
        model = around(Staged())
        model(np.zeros((2, FEATURES), "float32"))
    stages = {path.rpartition("/")[2]: stage for path, stage in stage_of_layers(model).items()}
    assert stages == {"n0": 0, "n1": 1, "head": 2}
    assignment = model.get_pipeline_stage_assignment()
    assert [part.is_nested_model for part in assignment] == [True, False]
    inner = assignment[0].pipeline_stage_assignments
    assert [(part.layer.name, part.pipeline_stage) for part in inner] == [("n0", 0), ("n1", 1)]
    assert {type(part) for part in inner} == {ipu.ModelLayerPipelineStageAssignment}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("around", AROUND)
def test_stages_of_a_nested_subclass_can_be_set(strategy, around):
    with strategy.scope():
        model = around(Staged())
        model(np.zeros((2, FEATURES), "float32"))
    assignment = model.get_pipeline_stage_assignment()
    inner = assignment[0].pipeline_stage_assignments
    for part, stage in zip([*inner, assignment[1]], (0, 0, 1), strict=True):
        part.pipeline_stage = stage
    model.set_pipeline_stage_assignment(assignment)
    assert list(stage_of_layers(model).values()) == [0, 0, 1]


@UNBUILT
def test_paths_of_a_nested_subclass_are_those_of_its_weights(strategy):
    with strategy.scope():
        model = Around(Staged())
        model.build(keras.Input((FEATURES,)))
    paths = {weight.path.rpartition("/")[0] for weight in model.weights}
    assert set(stage_of_layers(model)) == paths == {"net/block/n0", "net/block/n1", "net/head"}


def test_a_call_in_a_stage_has_all_layers_of_a_nested_subclass(strategy):
    class Plain(keras.Model):
        def __init__(self):
            super().__init__(name="plain")
            self.parts = names("p", 2)

        def call(self, inputs):
            return self.parts[1](self.parts[0](inputs))

    with strategy.scope():
        plain = Plain()
        x = inputs = keras.Input((FEATURES,))
        with PipelineStage(0):
            x = plain(x)
        with PipelineStage(1):
            x = keras.layers.Dense(4, name="head")(x)
        model = keras.Model(inputs, x, name="net")
    assert list(stage_of_layers(model).values()) == [0, 0, 1]


def test_a_nested_subclass_that_is_called_twice_has_an_assignment_for_each_call(strategy):
    with strategy.scope():
        inner = Staged()
        x = inputs = keras.Input((4,))
        model = keras.Model(inputs, inner(inner(x)), name="net")
        first, second = model.get_pipeline_stage_assignment()
    indices = [
        [part.node_index for part in call.pipeline_stage_assignments] for call in (first, second)
    ]
    assert indices[0] != indices[1]
    again = model.get_pipeline_stage_assignment()[0].pipeline_stage_assignments
    assert [part.node_index for part in again] == indices[0]


@pytest.mark.filterwarnings("ignore:Layer 'block' looks like it has unbuilt state")
@UNBUILT
def test_stages_of_nested_models_do_not_nest(strategy):
    with strategy.scope():
        inner, inputs = Staged(), keras.Input((FEATURES,))
        with PipelineStage(0), pytest.raises(RuntimeError, match="stages must not be nested"):
            inner(inputs)


def test_a_nested_subclass_that_cannot_be_seen_is_one_piece(strategy):
    with strategy.scope():
        inputs = keras.Input((FEATURES,))
        with PipelineStage(0):
            x = WithTensorFlow()(inputs)
        with PipelineStage(1):
            x = keras.layers.Dense(4, name="head")(x)
        model = keras.Model(inputs, x)
    assert not any(part.is_nested_model for part in model.get_pipeline_stage_assignment())
    assert list(stage_of_layers(model).values()) == [0, 1]


def test_stages_in_a_nested_subclass_that_cannot_be_seen_are_an_error(strategy):
    class Hidden(WithTensorFlow):
        def call(self, inputs):
            with PipelineStage(0):
                return super().call(inputs)

    with strategy.scope():
        inputs = keras.Input((FEATURES,))
        x = Hidden(name="hidden")(inputs)
        expected = "layers of model 'hidden' cannot be assigned .* use layers and keras.ops instead"
        with pytest.raises(ValueError, match=expected):
            keras.Model(inputs, x)


@UNBUILT
@pytest.mark.parametrize("shape", [(None, FEATURES), "input"])
def test_a_subclass_with_stages_for_some_of_its_layers_is_not_built(strategy, shape):
    with strategy.scope():
        model = Staged(second=None)
        expected = "However, n1 has not been assigned to one. Model 'block'"
        with pytest.raises(ValueError, match=expected):
            model.build(keras.Input((FEATURES,)) if shape == "input" else shape)


def test_a_subclass_with_stages_for_some_of_its_layers_does_not_run(strategy):
    with strategy.scope():
        model = Staged(second=None)
        model.compile(optimizer="sgd", loss="mse")
        with pytest.raises(ValueError, match="However, n1 has not been assigned to one"):
            model.fit(tf.zeros((8, FEATURES)), tf.zeros((8, 4)), batch_size=4, verbose=0)


def test_a_sequential_with_stages_for_some_of_its_layers_is_built_but_does_not_run(strategy):
    with strategy.scope():
        with PipelineStage(0):
            first = keras.layers.Dense(4, name="first")
        model = keras.Sequential([first, keras.layers.Dense(4, name="second")], name="net")
        model.build((None, FEATURES))
        model.compile(optimizer="sgd", loss="mse")
        expected = "However, second has not been assigned to one. Model 'net'"
        with pytest.raises(ValueError, match=expected):
            model.fit(tf.zeros((8, FEATURES)), tf.zeros((8, 4)), batch_size=4, verbose=0)
        model.set_pipeline_stage_assignment([0, 1])
    assert list(stage_of_layers(model).values()) == [0, 1]


@pytest.mark.slow
def test_a_nested_subclass_trains_in_its_stages():
    def trained(model, factor, size, steps):
        model.compile(
            optimizer=keras.optimizers.SGD(0.05), loss=ScaledLoss(factor), steps_per_execution=steps
        )
        model.fit(batches(samples(2 * G * BATCH), size), verbose=0, shuffle=False)
        return model

    strategy = strategy_of(4)
    with strategy.scope():
        keras.utils.set_random_seed(3)
        model = Around(Staged())
        model.set_pipelining_options(G)
        trained(model, 1.0, BATCH, 2 * G)
    stages = stage_of_layers(model)
    pipeline = strategy.report().programs[0].device
    config.reset_ipu_configuration()
    for stage in pipeline.stages:
        weights = {t.layer for t in stage.program.tensors if t.category == "weights"}
        assert weights == {path for path, number in stages.items() if number == stage.index}

    keras.utils.set_random_seed(3)
    layers = [*names("n", 2), keras.layers.Dense(CLASSES)]
    stock = keras.Sequential([keras.Input((FEATURES,)), *layers])
    check_weights(model, trained(stock, float(G), G * BATCH, 1))
