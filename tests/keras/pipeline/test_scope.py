"""`PipelineStage`: who belongs to a stage, and what the scope refuses."""

import threading

import keras
import pytest

from ipu_tf.keras import PipelineStage
from ipu_tf.keras.pipeline import stage_of_layers
from ipu_tf.keras.pipeline.scope import recorded_stage
from tests.keras.small_models import FEATURES


def test_layers_belong_to_the_stage_they_are_made_in(strategy):
    with strategy.scope(), PipelineStage(3):
        inside = keras.layers.Dense(2)
    assert recorded_stage(inside) == 3
    assert recorded_stage(keras.layers.Dense(2)) is None


def test_the_stage_of_a_call_goes_before_that_of_the_construction(strategy):
    with strategy.scope():
        x = keras.Input((FEATURES,), name="features")
        with PipelineStage(0):
            first, second = (
                keras.layers.Dense(4, name="first"),
                keras.layers.Dense(4, name="second"),
            )
        hidden = first(x)
        with PipelineStage(1):
            model = keras.Model(x, second(hidden), name="net")
    assert stage_of_layers(model) == {"first": 0, "second": 1}


def test_an_existing_layer_may_be_called_in_a_stage(strategy):
    with strategy.scope():
        layers = [keras.layers.Dense(4, name=name) for name in "ab"]
        x = inputs = keras.Input((FEATURES,))
        for stage, layer in enumerate(layers):
            with PipelineStage(stage):
                x = layer(x)
        model = keras.Model(inputs, x, name="net")
    assert stage_of_layers(model) == {"a": 0, "b": 1}


def test_operations_without_a_layer_need_no_stage(strategy):
    with strategy.scope():
        inputs = keras.Input((FEATURES,))
        with PipelineStage(0):
            x = keras.layers.Dense(4, name="a")(inputs)
        x = keras.activations.relu(x) + 1.0
        with PipelineStage(1):
            x = keras.layers.Dense(4, name="b")(x)
        model = keras.Model(inputs, x, name="net")
    assert stage_of_layers(model) == {"a": 0, "b": 1}


def test_outside_of_a_strategy():
    with (
        pytest.raises(
            RuntimeError, match="PipelineStage may only be used from within an IPUStrategy context"
        ),
        PipelineStage(0),
    ):
        pass


def test_nested_stages(strategy):
    with (
        strategy.scope(),
        PipelineStage(0),
        pytest.raises(
            RuntimeError,
            match=r"must not be nested. Received: PipelineStage\(1\) inside of PipelineStage\(0\)",
        ),
        PipelineStage(1),
    ):
        pass


@pytest.mark.parametrize("stage", [-1, 1.0, True, "0", None])
def test_what_no_stage_is(stage):
    with pytest.raises(ValueError, match=f"integer of at least 0. Received: {stage!r}"):
        PipelineStage(stage)


def test_keras_is_left_as_it_was(strategy):
    before = keras.Layer.__dict__["__new__"], keras.Layer.__dict__["__call__"]
    with pytest.raises(ZeroDivisionError), strategy.scope(), PipelineStage(0):
        1 / (keras.Layer.__dict__["__call__"] is before[1])
    after = keras.Layer.__dict__["__new__"], keras.Layer.__dict__["__call__"]
    assert after[1] is before[1]
    assert after[0].__func__ is before[0].__func__


def test_a_stage_belongs_to_its_thread(strategy):
    made = []
    with strategy.scope(), PipelineStage(2):
        thread = threading.Thread(target=lambda: made.append(keras.layers.Dense(2)))
        thread.start()
        thread.join()
    assert recorded_stage(made[0]) is None


def test_a_scope_may_be_entered_again(strategy):
    scope = PipelineStage(1)
    with strategy.scope():
        for _ in range(2):
            with scope:
                assert recorded_stage(keras.layers.Dense(2)) == 1


def test_every_layer_of_a_pipeline_needs_a_stage(strategy):
    with strategy.scope():
        inputs = keras.Input((FEATURES,))
        with PipelineStage(0):
            x = keras.layers.Dense(4)(inputs)
        x = keras.layers.Dense(4, name="left_out")(x)
        with pytest.raises(
            ValueError,
            match="All layers of a pipelined model must have an associated pipeline stage. "
            "However, left_out has not been assigned to one",
        ):
            keras.Model(inputs, x)
