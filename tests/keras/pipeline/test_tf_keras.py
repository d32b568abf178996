"""Pipelines of tf_keras models: the losses of stock tf_keras, the stages of the script."""

import contextlib
import logging

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import (
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    PipelineStage,
    SequentialLayerPipelineStageAssignment,
    auto_pipeline,
)
from ipu_tf.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from tests.keras.tf_keras_training import X, check_equal, strategy_of, trained

tf_keras = pytest.importorskip("tf_keras")


def sequential():
    layers = tf_keras.layers
    return tf_keras.Sequential(
        [layers.Dense(8, activation="relu"), layers.Dense(7, activation="tanh"), layers.Dense(3)]
    )


def functional(first=None, second=None):
    x = inputs = tf_keras.Input((6,))
    with first or contextlib.nullcontext():
        x = tf_keras.layers.Dense(8, activation="relu")(x)
        x = x + 1
    with second or contextlib.nullcontext():
        inner = tf_keras.Sequential([tf_keras.layers.Dense(5), tf_keras.layers.Dense(3)])
        return tf_keras.Model(inputs, inner(x))


def in_stages():
    return functional(PipelineStage(0), PipelineStage(1))


def fitted(strategy, build, *, rate=0.1, micro_batches=1, **how):
    """A trained model, and the logs of its training."""

    def optimizer():
        return tf_keras.optimizers.SGD(rate, momentum=0.5)

    return trained(strategy, build, optimizer, steps=micro_batches, shuffle=False, epochs=2, **how)


def pipelining(steps, **options):
    return lambda model: model.set_pipelining_options(
        steps, gradient_accumulation_reduction_method="mean", **options
    )


def weights_of_stages(strategy):
    """The layers whose weights each stage of the only program holds."""
    (program,) = strategy.report(insights=False).programs
    return [
        {tensor.layer for tensor in stage.program.tensors if tensor.category == "weights"}
        for stage in program.device.stages
    ]


class Widened(tf_keras.optimizers.legacy.SGD):
    """Takes gradients of float32 alone, for weights of any type."""

    def apply_gradients(self, grads_and_vars, name=None):
        pairs = list(grads_and_vars)
        assert {gradient.dtype for gradient, _ in pairs} == {tf.float32}
        return super().apply_gradients([(tf.cast(g, w.dtype), w) for g, w in pairs], name)


def test_optimizers_get_gradients_of_the_accumulators_type_in_every_trace():
    with strategy_of(1).scope():
        model = tf_keras.Sequential([tf_keras.layers.Dense(2, dtype=tf.float16)])
        model.set_gradient_accumulation_options(2, dtype=lambda weight: tf.float32)
        model.compile(Widened(0.1), "mse", steps_per_execution=2)
        samples = np.ones((4, 3), np.float16)
        model.fit(samples, samples[:, :2], batch_size=2, verbose=0)
        assert int(model.optimizer.iterations) == 1


@pytest.mark.slow
def test_a_functional_model_with_recorded_stages_trains_as_in_stock_tf_keras():
    strategy = strategy_of(2)
    ours = fitted(strategy, in_stages, setup=pipelining(4), micro_batches=4, batch_size=4)
    check_equal(ours, fitted(None, functional, batch_size=16))
    model = ours[0]
    first, add, inner = (layer.name for layer in model.layers[1:])
    dense, head = (f"{inner}/{layer.name}" for layer in model.layers[-1].layers)
    assert model.pipeline_stages() == {first: 0, add: 0, dense: 1, head: 1}
    assert weights_of_stages(strategy) == [{first}, {dense, head}]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ipus", "stages", "options"),
    [
        (4, [0, 1, 1], {"pipeline_schedule": PipelineSchedule.Interleaved}),
        (2, [0, 1, 2], {"device_mapping": [0, 1, 0]}),
        (2, [0, 0, 1], {"recomputation_mode": RecomputationMode.RecomputeThenBackpropagate}),
    ],
)
def test_a_sequential_with_assigned_stages_trains_as_in_stock_tf_keras(ipus, stages, options):
    def setup(model):
        model.set_pipeline_stage_assignment(stages)
        pipelining(12, **options)(model)
        model.set_replication_options("MEAN")

    replicas = ipus // 2
    ours = fitted(
        strategy_of(ipus),
        sequential,
        setup=setup,
        micro_batches=12,
        rate=0.1 / replicas,  # Replicas sum their gradients.
        batch_size=4 // replicas,
    )
    stock = fitted(None, sequential, batch_size=48)
    check_equal(ours, stock)
    predicted = ours[0].predict(X, batch_size=4 // replicas, verbose=0)
    np.testing.assert_allclose(predicted, stock[0].predict(X, verbose=0), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_layers_shared_by_stages_and_checkpoints():
    def build():
        shared = tf_keras.layers.Dense(6, activation="tanh", name="shared")
        inputs = {"a": tf_keras.Input((6,), name="a"), "b": tf_keras.Input((6,), name="b")}
        joined = tf_keras.layers.Concatenate()([shared(inputs["a"]), shared(inputs["b"])])
        return tf_keras.Model(inputs, tf_keras.layers.Dense(3)(shared(joined[:, 3:9])))

    def setup(model):
        assignments = model.get_pipeline_stage_assignment()
        for assignment in assignments:
            is_late = assignment.layer.name != "shared" or assignment.node_index == 2
            assignment.pipeline_stage = int(is_late)
        model.set_pipeline_stage_assignment(assignments)
        pipelining(4, device_mapping=[0, 0])(model)
        model.set_recomputation_options(["shared"])

    x = {"a": X, "b": X[::-1]}
    ours = fitted(strategy_of(1), build, setup=setup, micro_batches=4, x=x, batch_size=4)
    check_equal(ours, fitted(None, build, x=x, batch_size=16))


class Output(tf_keras.layers.Layer):
    """A layer as published transformers have it: its parts have the names of all others'."""

    def __init__(self, **how):
        super().__init__(**how)
        self.dense = tf_keras.layers.Dense(6, name="dense")
        self.norm = tf_keras.layers.LayerNormalization(name="LayerNorm")

    def call(self, inputs):
        return self.norm(self.dense(inputs) + inputs)


def alike(*scopes):
    x = inputs = tf_keras.Input((6,))
    for number, scope in enumerate(scopes):
        with scope:
            x = Output(name=f"layer_._{number}")(x)
    return tf_keras.Model(inputs, x)


@pytest.mark.slow
def test_stages_hold_their_own_of_layers_that_are_named_alike():
    strategy = strategy_of(2)
    stages = PipelineStage(0), PipelineStage(1)
    ours = fitted(
        strategy,
        lambda: alike(*stages),
        setup=pipelining(4),
        micro_batches=4,
        batch_size=4,
    )
    none = contextlib.nullcontext()
    check_equal(ours, fitted(None, lambda: alike(none, none), batch_size=16))
    assert weights_of_stages(strategy) == [
        {f"layer_._{stage}/{part}" for part in ("dense", "LayerNorm")} for stage in range(2)
    ]


class Block(tf_keras.Model):
    """A nested subclass whose layers are in two stages, the second after an operation."""

    def __init__(self, staged=False):
        super().__init__(name="block")
        self.staged = staged
        self.first = tf_keras.layers.Dense(5, activation="relu")
        self.last = tf_keras.layers.Dense(4)

    def stage(self, number):
        return PipelineStage(number) if self.staged else contextlib.nullcontext()

    def call(self, inputs):
        with self.stage(0):
            x = self.first(inputs)
        with self.stage(1):
            return self.last(x * 2.0)


def around(block):
    inputs = tf_keras.Input((6,))
    x = block(inputs)
    with block.stage(1):
        return tf_keras.Model(inputs, tf_keras.layers.Dense(3)(x))


@pytest.mark.slow
def test_a_nested_subclass_trains_in_its_stages():
    strategy = strategy_of(2)
    ours = fitted(
        strategy,
        lambda: around(Block(staged=True)),
        setup=pipelining(4),
        micro_batches=4,
        batch_size=4,
    )
    model = ours[0]
    assert list(model.pipeline_stages().values()) == [0, 1, 1]
    inner = model.get_pipeline_stage_assignment()[0]
    assert [part.pipeline_stage for part in inner.pipeline_stage_assignments] == [0, 1]
    assert weights_of_stages(strategy)[0] == {f"block/{model.layers[1].first.name}"}
    check_equal(ours, fitted(None, lambda: around(Block()), batch_size=16))


class Staged(tf_keras.Model):
    """A subclass of two stages, with a recurrent layer in the first."""

    def __init__(self, staged=False):
        super().__init__()
        self.staged = staged
        self.recurrent = tf_keras.layers.LSTM(4)
        self.block = Block(staged)

    stage = Block.stage

    def call(self, inputs):
        with self.stage(0):
            x = self.recurrent(tf.reshape(inputs, [-1, 3, 2]))
        return self.block(x)


@pytest.mark.slow
def test_a_subclass_trains_in_the_stages_of_its_call():
    strategy = strategy_of(2)
    ours = fitted(
        strategy,
        lambda: Staged(staged=True),
        setup=pipelining(4),
        micro_batches=4,
        batch_size=4,
    )
    model = ours[0]
    recurrent, block = model.get_pipeline_stage_assignment()
    assert type(recurrent) is ModelLayerPipelineStageAssignment
    assert [part.pipeline_stage for part in block.pipeline_stage_assignments] == [0, 1]
    first, last = (f"{model.name}/block/{layer.name}" for layer in model.block.layers)
    lstm = f"{model.name}/{model.recurrent.name}"
    assert model.pipeline_stages() == {lstm: 0, first: 0, last: 1}
    assert weights_of_stages(strategy) == [{f"{lstm}/lstm_cell", first}, {last}]
    check_equal(ours, fitted(None, Staged, batch_size=16))


@pytest.mark.slow
def test_a_chosen_pipeline_trains_as_in_stock_tf_keras():
    def setup(model):
        pipelining(None)(model)
        decision = auto_pipeline(model, 2, batch_size=4, replicas=1, gradient_accumulation_steps=4)
        assert len(decision.candidates) > 2
        assert set(model.pipeline_stages().values()) == {0, 1}

    ours = fitted(strategy_of(2), functional, setup=setup, micro_batches=4, batch_size=4)
    check_equal(ours, fitted(None, functional, batch_size=16))


def test_assignments_of_a_functional_model(caplog):
    with strategy_of(2).scope():
        model = functional()
    model._name = "net"
    first, add, inner = model.get_pipeline_stage_assignment()
    assert isinstance(first, FunctionalLayerPipelineStageAssignment)
    assert [first.layer, first.node_index, first.pipeline_stage] == [model.layers[1], 0, None]
    assert add.inbound_layers is first.layer
    assert isinstance(inner, FunctionalNestedModelPipelineStageAssignment)
    parts = inner.pipeline_stage_assignments
    assert [type(part) for part in parts] == [SequentialLayerPipelineStageAssignment] * 2
    for stage, part in enumerate([first, add, *parts]):
        part.pipeline_stage = stage
    model.set_pipeline_stage_assignment([first, add, inner])
    assert list(model.pipeline_stages().values()) == [0, 1, 2, 3]
    lines = []
    model.print_pipeline_stage_assignment_summary(print_fn=lines.append)
    assert any(line.startswith(f"{add.layer.name} (TFOpLambda) (0)") for line in lines)
    parts[0].pipeline_stage = 0
    with pytest.raises(ValueError, match="has a dependency from a pipeline stage"):
        model.set_pipeline_stage_assignment([first, add, inner])
    model.reset_pipeline_stage_assignment()
    assert model.pipeline_stages() == {}


def test_layers_that_change_drop_the_stages_of_a_sequential(caplog):
    with strategy_of(2).scope():
        model = sequential()
    model.set_pipeline_stage_assignment([0, 1, 1])
    for change in (lambda: model.add(tf_keras.layers.Dense(2)), model.pop):
        with caplog.at_level(logging.WARNING, "ipu_tf"):
            change()
        assert f"'{model.name}' is dropped, because its layers change" in caplog.text
        assert model.pipeline_stages() == {}
        caplog.clear()
        model.set_pipeline_stage_assignment([0] * (len(model.layers) - 1) + [1])


def test_a_layer_outside_of_the_stages_is_refused():
    expected = "All layers of a pipelined model must have .* dense.* has not been assigned to one"
    with strategy_of(2).scope(), pytest.raises(ValueError, match=expected):
        functional(PipelineStage(0))


class HalfStaged(Block):
    """A subclass that gives the first of its layers a stage."""

    def call(self, inputs):
        with self.stage(0):
            x = self.first(inputs)
        return self.last(x)


def test_a_subclass_with_stages_for_some_of_its_layers_is_not_built():
    expected = "However, dense.* has not been assigned to one. Model 'block'"
    with strategy_of(2).scope():
        with pytest.raises(ValueError, match=expected):
            HalfStaged(staged=True).build((None, 6))
        model = HalfStaged()
        model.build((None, 6))
    assert not model.layers[0].inbound_nodes


class TwoInputs(tf_keras.Model):
    """A subclass of two inputs, each of whose layers is in a stage."""

    def __init__(self):
        super().__init__()
        self.first, self.last = tf_keras.layers.Dense(3), tf_keras.layers.Dense(2)

    def call(self, inputs):
        x, y = inputs
        with PipelineStage(0):
            x = self.first(x)
        with PipelineStage(1):
            return self.last(x + y)


def test_sizes_that_are_tensors_build_a_subclass_with_stages():
    with strategy_of(2).scope():
        model = TwoInputs()
        batch = tf.constant(4)
        model.build([(batch, 5), (batch, 3)])
    assert [weight.shape for weight in model.weights] == [(5, 3), (3,), (3, 2), (2,)]


def test_layers_made_in_a_stage_are_called_there():
    with strategy_of(2).scope():
        inputs = tf_keras.Input((6,))
        with PipelineStage(0):
            first = tf_keras.layers.Dense(4)
        with PipelineStage(1):
            second = tf_keras.layers.Dense(4)
        model = tf_keras.Model(inputs, second(first(inputs)))
    assert list(model.pipeline_stages().values()) == [0, 1]


def test_assignments_are_in_the_order_of_the_graph():
    """As in the vendor's Keras: calls farthest from the outputs first, whatever reads them."""
    inputs = tf_keras.Input((6,))
    short = tf_keras.layers.Dense(3, name="short")(inputs)
    long = tf_keras.layers.Dense(3, name="long")(tf_keras.layers.Dense(3, name="first")(inputs))
    with strategy_of().scope():
        model = tf_keras.Model(inputs, [short, long])
    names = [one.layer.name for one in model.get_pipeline_stage_assignment()]
    assert names == ["first", "long", "short"]
