"""Which programs a report has, and what is left of those whose model or function is gone."""

import enum
import gc

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, Report
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.runtime.execution.boundary import signature
from tests.keras.equivalence import samples
from tests.keras.small_models import compile_model, sequential

X = tf.ones([4, 8])


@pytest.fixture
def strategy():
    return IPUStrategy()


class TestPythonArguments:
    def test_each_value_has_its_row(self, strategy):
        @tf.function
        def power(x, n):
            for _ in range(n):
                x = tf.matmul(x, x)
            return x

        x = tf.eye(4)
        for n in (1, 2, 3, 2):
            strategy.run(power, (x, n))
        assert [len(p.tile_ops) for p in strategy.report().programs] == [1, 2, 3]
        assert strategy.report().summary().count("power") >= 3

    def test_functions_and_keyword_arguments_do_too(self, strategy):
        @tf.function
        def apply(x, activation, scale):
            return activation(x) * scale

        for activation in (tf.nn.relu, tf.tanh):
            for scale in (1.0, 2.0):
                strategy.run(apply, (X,), {"activation": activation, "scale": scale})
        assert len(strategy.report().programs) == 4

    def test_equal_arguments_have_one_row(self, strategy):
        def double(x, factor):
            return x * factor

        for _ in range(2):
            strategy.run(tf.function(double), (X, float("nan")))
        assert len(strategy.report().programs) == 1

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            (1, 2),
            (1, True),
            (1, 1.0),
            ("a", "b"),
            (None, "None"),
            (tf.float16, tf.float32),
            (enum.Enum("E", "A B").A, enum.Enum("E", "A B").B),
            (tf.nn.relu, tf.nn.elu),
            (X, X[:2]),
            (X, tf.cast(X, tf.float16)),
        ],
    )
    def test_signatures(self, one, other):
        assert signature((one,), {}) == signature((one,), {})
        assert signature((one,), {}) != signature((other,), {})

    def test_objects_are_told_apart_by_their_type_alone(self):
        assert signature((object(),), {}) == signature((object(),), {})


def train(strategy):
    with strategy.scope():
        model = compile_model(sequential())
    model.fit(*samples(8), batch_size=4, verbose=0)
    return model


@pytest.mark.slow
def test_programs_of_models_that_are_gone_keep_their_figures(strategy, tmp_path):
    model = train(strategy)
    (before,) = strategy.report().programs
    summary, tensors = strategy.report().summary(plans=True), len(before.device.tensors)
    (live,) = (figures.live_at_peak(stage.program) for stage in before.device.stages)
    del model, before
    keras.backend.clear_session()
    gc.collect()
    (after,) = strategy.report().programs
    assert len(after.device.tensors) < tensors / 2
    assert strategy.report().summary(plans=True) == summary
    assert [figures.live_at_peak(stage.program) for stage in after.device.stages] == [live]
    strategy.report().to_json(tmp_path / "report.json")
    assert Report.from_json(tmp_path / "report.json").summary(plans=True) == summary


@pytest.mark.slow
def test_programs_of_models_that_live_keep_their_tensors(strategy):
    model = train(strategy)
    tensors = strategy.report().programs[0].device.tensors
    gc.collect()
    assert strategy.report().programs[0].device.tensors == tensors
    assert any(tensor.category == "activations" for tensor in tensors)
    del model


def test_programs_of_functions_that_are_gone_are_condensed(strategy):
    function = tf.function(lambda x: tf.nn.softmax(tf.matmul(x, x, transpose_b=True)))
    strategy.run(function, (X,))
    tensors = len(strategy.report().programs[0].device.tensors)
    del function
    gc.collect()
    assert len(strategy.report().programs[0].device.tensors) < tensors


def test_reset_report_forgets_what_was_traced(strategy):
    double, triple = tf.function(lambda x: x * 2), tf.function(lambda x: x * 3)
    strategy.run(double, (X,))
    old = strategy.report()
    strategy.reset_report()
    assert strategy.report().programs == ()
    assert len(old.programs) == 1
    strategy.run(double, (X,))  # It is not traced again.
    strategy.run(triple, (X,))
    assert len(strategy.report().programs) == 1
    np.testing.assert_array_equal(strategy.run(double, (X,)), X * 2)


@pytest.mark.slow
def test_a_model_that_dies_after_a_reset_is_not_missed(strategy):
    model = train(strategy)
    strategy.reset_report()
    del model
    keras.backend.clear_session()
    gc.collect()
    assert strategy.report().programs == ()
