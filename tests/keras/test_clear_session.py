"""`keras.backend.clear_session` in the scope: what it clears, and what it leaves in force."""

import importlib
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf.keras
from ipu_tf.internals.tensorflow import DefaultGraphStack
from tests.keras.small_models import compile_model, sequential

STOCK_RESET = vars(DefaultGraphStack)["reset"]


def trained_after_clearing(data):
    """Clears twice, with training in between; returns the last model."""
    for _ in range(2):
        keras.backend.clear_session()
        keras.utils.set_random_seed(3)
        model = compile_model(sequential())
        model.fit(*data, batch_size=16, epochs=2, verbose=0)
    return model


@pytest.mark.slow
def test_models_made_after_clearing_train_on_the_ipu(strategy, data):
    with strategy.scope():
        ours = trained_after_clearing(data)
        assert tf.distribute.get_strategy() is strategy
    assert isinstance(ours, ipu_tf.keras.Sequential)
    assert ours.distribute_strategy is strategy
    names = [program.name for program in strategy.report().programs]
    assert names == ["sequential.train_step"] * 2
    stock = trained_after_clearing(data)
    for our_weight, weight in zip(ours.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(our_weight, weight, rtol=1e-5, atol=1e-6)


def test_names_begin_anew(strategy):
    with strategy.scope():
        sequential()
        keras.backend.clear_session()
        assert sequential().name == "sequential"


@pytest.mark.parametrize(
    "clear",
    [keras.backend.clear_session, tf.keras.backend.clear_session],
)
@pytest.mark.fast_cells(1)
def test_the_scope_is_left_cleanly(strategy, clear):
    with strategy.scope():
        clear()
        with strategy.scope():
            clear()
            assert tf.distribute.get_strategy() is strategy
        assert tf.distribute.get_strategy() is strategy
    assert not tf.distribute.has_strategy()
    assert type(sequential()) is keras.Sequential
    assert vars(DefaultGraphStack)["reset"] is STOCK_RESET


@pytest.mark.slow
def test_clearing_works_where_tensorflow_has_a_second_module_of_version_1(strategy, data):
    """Packages such as TensorFlow Probability and tf_keras import it, and Keras then uses it."""
    pytest.importorskip("tf_keras")
    with strategy.scope():
        importlib.import_module("tensorflow.compat.v1").reset_default_graph()
        assert tf.distribute.get_strategy() is strategy
        trained_after_clearing(data)
    assert not tf.distribute.has_strategy()


def test_the_scope_is_left_by_an_exception(strategy):
    def fail():
        keras.backend.clear_session()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), strategy.scope():
        fail()
    assert not tf.distribute.has_strategy()


def test_clearing_within_other_scopes_of_tensorflow(strategy):
    made = []

    def creator(next_creator, **kwargs):
        made.append(kwargs.get("name"))
        return next_creator(**kwargs)

    with (
        strategy.scope(),
        tf.variable_creator_scope(creator),
        tf.compat.v1.variable_scope("around"),
    ):
        tf.Variable(1.0, name="before")
        keras.backend.clear_session()
        tf.Variable(1.0, name="after")
        assert tf.distribute.get_strategy() is strategy
    assert made == ["before"]  # As without a strategy: the creators are gone with their graph.
    assert not tf.distribute.has_strategy()


@pytest.mark.filterwarnings(
    "ignore:__array__ implementation:DeprecationWarning",  # Keras' h5
    "ignore:You are saving your model as an HDF5 file",
)
def test_the_options_in_h5_files_are_read_after_clearing(strategy, tmp_path):
    with strategy.scope():
        model = compile_model(sequential())
        model.set_asynchronous_callbacks(True)
        model.save(tmp_path / "model.h5")
        keras.backend.clear_session()
        loaded = keras.models.load_model(tmp_path / "model.h5")
        assert loaded.ipu_training_state.asynchronous_callbacks


def test_custom_objects_are_those_from_before_once_the_scope_is_left(strategy):
    with keras.saving.custom_object_scope({"Around": object}):
        with strategy.scope():
            keras.backend.clear_session()
            assert keras.saving.get_registered_object("Sequential") is ipu_tf.keras.Sequential
        assert keras.saving.get_registered_object("Sequential") is None
        assert keras.saving.get_registered_object("Around") is object


def test_clearing_on_another_thread_leaves_the_scope_alone(strategy):
    with strategy.scope():
        thread = threading.Thread(target=keras.backend.clear_session)
        thread.start()
        thread.join()
        assert tf.distribute.get_strategy() is strategy
        assert sequential().distribute_strategy is strategy


def test_graphs_in_use_are_not_reset(strategy):
    with strategy.scope():
        with tf.Graph().as_default(), pytest.raises(AssertionError, match="nested graphs"):
            keras.backend.clear_session()
        assert tf.distribute.get_strategy() is strategy


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict", "train_on_batch"])
def test_a_model_without_the_strategy_of_its_scope_does_not_run(strategy, data, method):
    with strategy.scope(), tf.Graph().as_default():
        model = keras.Sequential([keras.layers.Dense(3)], name="lost")
    compile_model(model)
    message = (
        "Model 'lost' was made in the scope of an IPUStrategy, .* would not run on the IPU. "
        "Make the model in the scope, .* Received: strategy _DefaultDistributionStrategy"
    )
    with pytest.raises(RuntimeError, match=message):
        getattr(model, method)(data[0])
