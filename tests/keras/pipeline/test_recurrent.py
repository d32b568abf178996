"""Pipelines with a recurrent layer: its loop, and what it keeps for its gradient, in one stage."""

import keras
import numpy as np
import pytest

from ipu_tf import config
from ipu_tf.keras import PipelineStage
from tests.keras.equivalence import BATCH, ScaledLoss, batches, check_weights, strategy_of
from tests.keras.small_models import CLASSES

G = 8
TIMES, FEATURES = 5, 6
STAGES = 4


@pytest.fixture
def strategy():
    yield strategy_of(STAGES)
    config.reset_ipu_configuration()


def recurrent_model(stages):
    """A recurrent layer whose output two layers read, and a layer that joins these."""
    keras.utils.set_random_seed(3)
    layers = {
        "recurrent": keras.layers.LSTM(8, name="recurrent"),
        "left": keras.layers.Dense(8, activation="relu", name="left"),
        "right": keras.layers.Dense(8, activation="tanh", name="right"),
        "both": keras.layers.Concatenate(name="both"),
        "head": keras.layers.Dense(CLASSES, name="head"),
    }

    def call(name, x):
        if stages is None:
            return layers[name](x)
        with PipelineStage(stages[name]):
            return layers[name](x)

    inputs = keras.Input((TIMES, FEATURES))
    x = call("recurrent", inputs)
    x = call("both", [call("left", x), call("right", x)])
    return keras.Model(inputs, call("head", x), name="net")


def samples(count):
    random = np.random.default_rng(5)
    x = random.normal(size=(count, TIMES, FEATURES)).astype("float32")
    return x, random.integers(0, CLASSES, count).astype("int32")


def trained(model, factor, size, steps_per_execution):
    model.compile(
        optimizer=keras.optimizers.SGD(0.05),
        loss=ScaledLoss(factor),
        steps_per_execution=steps_per_execution,
    )
    return model.fit(batches(samples(2 * G * BATCH), size), epochs=2, verbose=0, shuffle=False)


@pytest.mark.slow
def test_two_stages_read_a_recurrent_layer_of_a_third(strategy):
    stages = {"recurrent": 0, "left": 1, "right": 2, "both": 3, "head": 3}
    with strategy.scope():
        model = recurrent_model(stages)
        model.set_pipelining_options(G)  # Sums the gradients of G micro-batches.
        trained(model, 1.0, BATCH, 2 * G)
    stock = recurrent_model(None)
    trained(stock, float(G), G * BATCH, 1)
    check_weights(model, stock)

    pipeline = strategy.report().programs[0].device
    for stage in pipeline.stages:
        layers = {t.layer for t in stage.program.tensors if t.category == "weights"}
        expected = {name for name, number in stages.items() if number == stage.index} - {"both"}
        assert {layer.partition("/")[0] for layer in layers} == expected
        assert stage.forward_cycles > 0
    # The recurrent layer runs forward in the forward pass, and its loops are all of its stage.
    assert pipeline.limiting_stage.index == 0
    first = pipeline.stages[0].program
    dots = [step for step in first.steps if step.opcode == "dot"]
    loops = {(step.layer.partition("/")[0], step.phase) for step in dots}
    assert ("recurrent", "forward") in loops
    assert ("recurrent", "backward") in loops
