"""Models made in the scope and stock models read each other's files and copies."""

import contextlib
import copy
import pickle

import keras
import numpy as np
import pytest

import ipu_tf.keras
from ipu_tf.keras.extensions import IPUExtensions
from ipu_tf.keras.keras3 import models
from tests.keras.small_models import Net, compile_model, functional, sequential

# Keras reads its variables through an older NumPy protocol when it saves them.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")

COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
}


@pytest.fixture(params=["inside", "outside"])
def place(request, strategy):
    """Where something happens: a context, and whether models made in it are IPU models."""
    if request.param == "inside":
        return strategy.scope, True
    return contextlib.nullcontext, False


def check_copy(copied, model, x, on_ipu):
    assert isinstance(copied, IPUExtensions) == on_ipu
    assert copied.__class__ is model.__class__
    np.testing.assert_array_equal(copied(x), model(x))


@pytest.mark.parametrize("saved_in_scope", [True, False])
@pytest.mark.fast_cells(1)
def test_keras_files(tmp_path, strategy, build, data, place, saved_in_scope):
    x, y = data
    with strategy.scope() if saved_in_scope else contextlib.nullcontext():
        model = compile_model(build())
    model.fit(x, y, batch_size=16, verbose=0)
    model.save(tmp_path / "model.keras")
    scope, on_ipu = place
    with scope():
        loaded = keras.models.load_model(tmp_path / "model.keras")
    check_copy(loaded, model, x, on_ipu)
    assert loaded.optimizer.iterations.numpy() == 3


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("saved_in_scope", [True, False])
def test_weights_files(tmp_path, strategy, build, data, saved_in_scope):
    x, _ = data
    with strategy.scope():
        ours = build()
        ours(x)
    stock = build()
    stock(x)
    source, target = (ours, stock) if saved_in_scope else (stock, ours)
    target.set_weights([weight + 1 for weight in target.get_weights()])
    source.save_weights(tmp_path / "model.weights.h5")
    target.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(target(x), source(x))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES.keys())
def test_copies(strategy, build, data, place, duplicate):
    x, _ = data
    with strategy.scope():
        model = build()
        model(x)
    scope, on_ipu = place
    with scope():
        check_copy(duplicate(model), model, x, on_ipu)


@pytest.mark.slow
@pytest.mark.parametrize("duplicate", COPIES.values(), ids=COPIES.keys())
@pytest.mark.fast_cells(1)
def test_a_copy_trains_in_the_scope(strategy, data, duplicate):
    x, y = data
    with strategy.scope():
        model = compile_model(sequential())
        model.fit(x, y, batch_size=16, verbose=0)
        copied = duplicate(model)
    history = copied.fit(x, y, batch_size=16, verbose=0)
    assert np.isfinite(history.history["loss"]).all()


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("build_plain", [sequential, functional, Net])
def test_clones(strategy, data, place, build_plain):
    x, _ = data
    with strategy.scope():
        model = build_plain()
        model(x)
    scope, on_ipu = place
    with scope():
        clone = keras.models.clone_model(model)
        clone(x)
    clone.set_weights(model.get_weights())
    check_copy(clone, model, x, on_ipu)


def test_configs(strategy, build, data, place):
    x, _ = data
    with strategy.scope():
        model = build()
        model(x)
    scope, on_ipu = place
    with scope():
        again = model.__class__.from_config(model.get_config())
        again(x)
    again.set_weights(model.get_weights())
    check_copy(again, model, x, on_ipu)


def test_configs_are_those_of_stock_keras(strategy):
    def config_of(model):
        return keras.saving.serialize_keras_object(model)

    keras.backend.clear_session()
    stock = [config_of(build()) for build in (sequential, functional, Net)]
    keras.backend.clear_session()
    with strategy.scope():
        ours = [config_of(build()) for build in (sequential, functional, Net)]
    assert ours == stock


def test_the_registered_class_is_still_the_users(strategy):
    with strategy.scope():
        model = Net()
    assert keras.saving.get_registered_name(model.__class__) == "ipu_tf_tests>Net"
    assert keras.saving.get_registered_object("ipu_tf_tests>Net") is Net


@keras.saving.register_keras_serializable("ipu_tf_tests")
class Own(ipu_tf.keras.Model):
    """Derived from our class by name, so it is its own class in files too."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.dense = keras.layers.Dense(2)

    def call(self, inputs):
        return self.dense(inputs)


@pytest.mark.slow
def test_subclasses_of_ours(tmp_path, strategy, data):
    x, _ = data
    with strategy.scope():
        model = compile_model(Own())
        model.fit(x, np.zeros(len(x), "int32"), batch_size=16, verbose=0)
        model.save(tmp_path / "own.keras")
        loaded = keras.models.load_model(tmp_path / "own.keras")
    assert type(loaded) is Own
    assert loaded.compiled
    assert model.__class__ is Own
    np.testing.assert_array_equal(loaded(x), model(x))


def test_files_of_our_classes_load_in_stock_keras(tmp_path, data):
    x, _ = data
    inputs = keras.Input((x.shape[1],))
    model = ipu_tf.keras.Model(inputs, keras.layers.Dense(2)(inputs))
    assert type(model) is models.Functional
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert not isinstance(loaded, IPUExtensions)
    np.testing.assert_array_equal(loaded(x), model(x))
