"""Calls that the strategy does not see are spans of a profiled strategy's timeline."""

import keras
import pytest
import tensorflow as tf

import ipu_tf


@pytest.fixture
def strategy():
    return ipu_tf.IPUStrategy(profile=True)


def executions(strategy):
    found = strategy.report().host.spans
    return [(span.program, span.steps) for span in found if span.category == "execution"]


def test_a_users_function_that_runs_a_program_is_an_execution(strategy):
    def doubled(x):
        return x + x

    @tf.function
    def step(x):
        return strategy.run(doubled, (strategy.run(doubled, (x,)),))

    step(tf.ones(4))
    step(tf.ones(4))
    assert executions(strategy) == [("doubled", 2), ("doubled", 2)]
    first, *rest = strategy.report().host.spans
    assert first.category == "execution"
    assert {"trace", "hlo", "compile"} <= {
        span.category for span in rest if span.end_ns <= first.end_ns
    }


def test_functions_that_make_variables_are_traced_twice_and_counted_once(strategy):
    made = []

    def counted():
        return made[0].assign_add(1.0)

    @tf.function
    def step():
        if not made:
            made.append(tf.Variable(0.0))
        return strategy.run(counted)

    step()
    assert executions(strategy) == [("counted", 1)]


def test_programs_in_loops_count_no_steps(strategy):
    def doubled(x):
        return x + x

    @tf.function
    def loop(x):
        for _ in tf.range(3):
            x = strategy.run(doubled, (x,))
        return x

    assert loop(tf.ones(())) == 8
    assert executions(strategy) == [("doubled", 0)]


def test_functions_without_programs_and_keras_loops_have_no_more_spans(strategy):
    tf.function(lambda x: x + 1)(tf.ones(4))
    assert executions(strategy) == []
    with strategy.scope():
        model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(2)], name="net")
        model.predict(tf.ones((4, 4)), batch_size=4, verbose=0)
    assert executions(strategy) == [("net.predict_step", 1)]


def test_checkpoints_are_spans(strategy, tmp_path):
    checkpoint = tf.train.Checkpoint(weight=tf.Variable(1.0))
    path = checkpoint.save(tmp_path / "saved")
    checkpoint.restore(path)
    tf.train.CheckpointManager(checkpoint, tmp_path / "kept", max_to_keep=1).save()
    names = [s.name for s in strategy.report().host.spans if s.category == "checkpoint"]
    assert names == [
        "Checkpoint.save",
        "Checkpoint.restore",
        "Checkpoint.read",
        "CheckpointManager.save",
    ]
