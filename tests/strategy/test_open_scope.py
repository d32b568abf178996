"""What was made under one strategy runs in the scope of another one of the same device."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.distributed.popdist_strategy import PopDistStrategy
from tests.keras.equivalence import batches, samples
from tests.keras.small_models import compile_model, sequential

ROWS, BATCH = 32, 4


@pytest.fixture
def configured():
    def configure(ipus=1):
        cfg = IPUConfig()
        cfg.auto_select_ipus = ipus
        cfg.ipu_model.tiles_per_ipu = 16
        cfg.configure_ipu_system()

    configure()
    yield configure
    config.reset_ipu_configuration()


@tf.function
def doubled(x):
    return x + x


def fit(model, data=None):
    model.fit(batches(data or samples(ROWS), BATCH), shuffle=False, verbose=0)


def programs(strategy):
    return [program.name for program in strategy.report(insights=False).programs]


@pytest.mark.slow
def test_a_model_trains_under_both_strategies(configured):
    first, second = IPUStrategy(), IPUStrategy()
    weights = []
    for around in (first, second):
        keras.utils.set_random_seed(7)
        with first.scope():
            model = compile_model(sequential(), steps_per_execution=2)
            fit(model)
        with around.scope():
            fit(model)
            assert model.distribute_strategy is around
        assert model.distribute_strategy is first
        weights.append(model.get_weights())
    for weight, same in zip(*weights, strict=True):
        np.testing.assert_array_equal(weight, same)
    assert programs(second) == [f"{model.name}.train_step"]


@pytest.mark.slow
def test_replicas_accumulate_under_both_strategies(configured):
    configured(2)
    first, second = IPUStrategy(), IPUStrategy()
    with first.scope():
        model = compile_model(sequential(), steps_per_execution=2)
    model.set_gradient_accumulation_options(2)
    for strategy in (first, second, first):
        with strategy.scope():
            fit(model)
            predicted = model.predict(samples(ROWS)[0], BATCH, verbose=0)
        np.testing.assert_array_equal(predicted, model.predict(samples(ROWS)[0], BATCH, verbose=0))
    assert set(programs(second)) == {f"{model.name}.train_step", f"{model.name}.predict_step"}


def test_variables_of_one_strategy_are_those_of_the_other():
    first, second = IPUStrategy(), IPUStrategy()
    with first.scope():
        variable = tf.Variable(1.0)
    assert second.extended.variable_created_in_scope(variable)
    assert not second.extended.variable_created_in_scope(tf.Variable(1.0))


def test_an_optimizer_updates_under_both_strategies():
    first, second = IPUStrategy(), IPUStrategy()
    with first.scope():
        optimizer = keras.optimizers.SGD(0.5, momentum=0.5)
        variable = tf.Variable(1.0)

    @tf.function
    def step():
        optimizer.apply_gradients([(tf.constant(1.0), variable)])

    with second.scope():
        second.run(step)
    first.run(step)
    assert float(variable) == 1.0 - 0.5 - 0.75


def test_a_function_runs_under_the_strategy_of_the_open_scope():
    first, second = IPUStrategy(), IPUStrategy()
    with second.scope():
        assert float(first.run(doubled, args=(tf.constant(2.0),))) == 4.0
        with first.scope():
            assert tf.distribute.get_strategy() is second
        assert float(first.reduce("sum", tf.constant([2.0, 1.0]), axis=0)) == 3.0
    assert (programs(first), programs(second)) == ([], ["doubled", "reduce_sum"])


@pytest.mark.parametrize(
    ("make", "described"),
    [
        (lambda: IPUStrategy("/device:IPU:1"), r"IPUStrategyV1\(ipu_device='/device:IPU:1', "),
        (lambda: IPUStrategy(enable_keras_extensions=False), "enable_keras_extensions=False"),
        (PopDistStrategy, r"PopDistStrategy\(ipu_device='/device:IPU:0', "),
        (lambda: tf.distribute.OneDeviceStrategy("/cpu:0"), r"OneDeviceStrategy\(\)"),
    ],
)
def test_another_strategy_is_refused_by_name(make, described):
    strategy, other = IPUStrategy(), make()
    with strategy.scope():
        model = compile_model(sequential())
    message = (
        r"^What was made under IPUStrategyV1\(ipu_device='/device:IPU:0'.* cannot run in the scope "
        f"of .*{described}.*: leave that scope, or make the model, its optimizer and its functions "
        r"under that strategy\.$"
    )
    with other.scope():
        for call in (
            lambda: fit(model),
            lambda: strategy.run(doubled, args=(tf.constant(2.0),)),
            lambda: strategy.reduce("sum", tf.constant([2.0]), axis=0),
            strategy.scope().__enter__,
        ):
            with pytest.raises(RuntimeError, match=message):
                call()


def test_an_optimizer_of_no_scope_is_refused():
    model = compile_model(sequential())
    optimizer = keras.optimizers.SGD(0.1)
    variable = tf.Variable(1.0)
    strategy = IPUStrategy()

    @tf.function
    def step():
        optimizer.apply_gradients([(tf.constant(1.0), variable)])

    message = (
        r"An optimizer that was made outside of the scope of the strategy cannot update weights in "
        r"its programs\. Make it inside of `with strategy\.scope\(\):`\."
    )
    with strategy.scope(), pytest.raises(RuntimeError, match=message):
        model.fit(batches(samples(ROWS), BATCH), verbose=0)
    with pytest.raises(RuntimeError, match=message):
        strategy.run(step)
    with strategy.scope(), pytest.raises(RuntimeError, match="made outside of the scope reads"):
        model.predict(samples(64)[0], verbose=0)
