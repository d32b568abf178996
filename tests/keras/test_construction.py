"""Which models become IPU models, and that Keras is left as it was."""

import threading
from typing import Generic, TypeVar

import keras
import pytest
import tensorflow as tf

import ipu_tf.keras
from ipu_tf import IPUStrategy
from ipu_tf.keras.extensions import IPUExtensions
from ipu_tf.keras.keras3 import models
from tests.keras.small_models import FEATURES, Net, functional, sequential

STOCK_NEW = keras.Model.__dict__["__new__"]


def test_models_made_in_the_scope_are_ipu_models(strategy, build):
    with strategy.scope():
        model = build()
    assert isinstance(model, IPUExtensions)
    assert model.distribute_strategy is strategy


def test_models_made_outside_are_stock_models(strategy, build):
    with strategy.scope():
        build()
    assert not isinstance(build(), IPUExtensions)
    assert type(sequential()) is keras.Sequential


def test_a_model_is_of_the_stock_class_and_of_ours(strategy):
    with strategy.scope():
        model = sequential()
    assert isinstance(model, keras.Sequential)
    assert isinstance(model, ipu_tf.keras.Sequential)
    assert not isinstance(functional(), ipu_tf.keras.Sequential)


def test_a_model_goes_by_the_name_of_its_stock_class(strategy, build):
    stock = build()
    with strategy.scope():
        model = build()
    assert model.__class__ is type(stock)
    for attribute in ("__name__", "__qualname__"):
        assert getattr(type(model), attribute) == getattr(type(stock), attribute)
    assert model.name.rstrip("_0123456789") == stock.name.rstrip("_0123456789")


def test_tf_keras_makes_ipu_models(strategy):
    with strategy.scope():
        model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(2)])
    assert isinstance(model, ipu_tf.keras.Sequential)


@pytest.mark.slow
def test_applications_make_ipu_models(strategy):
    with strategy.scope():
        model = keras.applications.MobileNet(
            weights=None, input_shape=(32, 32, 3), alpha=0.25, classes=2
        )
    assert isinstance(model, IPUExtensions)


def test_keras_is_left_as_it_was(strategy):
    with strategy.scope():
        assert keras.Model.__dict__["__new__"] is not STOCK_NEW
    assert keras.Model.__dict__["__new__"] is STOCK_NEW


def test_keras_is_left_as_it_was_after_an_exception(strategy):
    with pytest.raises(ZeroDivisionError), strategy.scope():
        keras.Sequential([1 / 0])
    assert keras.Model.__dict__["__new__"] is STOCK_NEW
    assert type(sequential()) is keras.Sequential


def test_a_constructor_that_fails_leaves_the_scope_working(strategy):
    class Failing(keras.Model):
        def __init__(self):
            super().__init__()
            raise RuntimeError("no such luck")

    with strategy.scope():
        with pytest.raises(RuntimeError, match="no such luck"):
            Failing()
        assert isinstance(sequential(), ipu_tf.keras.Sequential)


def test_nested_scopes(strategy):
    with strategy.scope():
        with strategy.scope():
            assert isinstance(sequential(), IPUExtensions)
        assert isinstance(sequential(), IPUExtensions)
    assert keras.Model.__dict__["__new__"] is STOCK_NEW


def test_another_thread_is_not_in_the_scope(strategy):
    made = []
    with strategy.scope():
        thread = threading.Thread(target=lambda: made.append(sequential()))
        thread.start()
        thread.join()
    assert type(made[0]) is keras.Sequential


def test_scopes_of_two_threads_overlap(strategy):
    entered, leave = threading.Event(), threading.Event()

    def hold():
        with strategy.scope():
            entered.set()
            leave.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert entered.wait(10)
    with strategy.scope():
        leave.set()
        thread.join()
        assert isinstance(sequential(), IPUExtensions)
    assert keras.Model.__dict__["__new__"] is STOCK_NEW


def test_extensions_can_be_switched_off(strategy):
    with IPUStrategy(enable_keras_extensions=False).scope():
        assert type(sequential()) is keras.Sequential


def test_a_model_made_outside_stays_stock_inside(strategy):
    model = sequential()
    with strategy.scope():
        around = keras.Sequential([model, keras.layers.ReLU()])
    assert type(model) is keras.Sequential
    assert isinstance(around, ipu_tf.keras.Sequential)


def functional_subclass(base):
    class Graph(base):
        def __init__(self):
            inputs = keras.Input((FEATURES,))
            super().__init__(inputs=inputs, outputs=keras.layers.Dense(2)(inputs))

    return Graph


def layered_subclass(base):
    class Layered(base):
        def call(self, inputs):
            return inputs

    return Layered


@pytest.mark.parametrize("functional_first", [True, False])
def test_functional_and_subclassed_models_in_either_order(functional_first):
    bases = models.Model.__bases__

    def make_functional():
        inputs = keras.Input((FEATURES,))
        model = ipu_tf.keras.Model(inputs, keras.layers.Dense(2)(inputs))
        assert isinstance(model, models.Functional)
        assert isinstance(functional_subclass(ipu_tf.keras.Model)(), models.Functional)

    def make_layered():
        model = layered_subclass(ipu_tf.keras.Model)()
        assert not isinstance(model, models.Functional)
        assert model(tf.ones((1, 2))).shape == (1, 2)

    steps = [make_functional, make_layered]
    for step in steps if functional_first else reversed(steps):
        step()
    assert models.Model.__bases__ == bases


@pytest.mark.parametrize("in_scope_first", [True, False])
def test_a_functional_subclass_works_on_both_sides_of_the_scope(strategy, in_scope_first):
    graph = functional_subclass(keras.Model)

    def inside():
        with strategy.scope():
            model = graph()
        assert isinstance(model, IPUExtensions)
        assert model(tf.ones((1, FEATURES))).shape == (1, 2)

    def outside():
        model = graph()
        assert type(model) is graph
        assert model(tf.ones((1, FEATURES))).shape == (1, 2)

    steps = [inside, outside]
    for step in steps if in_scope_first else reversed(steps):
        step()


def test_bases_are_left_alone_by_an_explicit_keras_constructor(strategy):
    bases = models.Model.__bases__

    class Graph(keras.Model):
        def __init__(self):
            inputs = keras.Input((FEATURES,))
            keras.Model.__init__(self, inputs=inputs, outputs=keras.layers.Dense(2)(inputs))

    with strategy.scope():
        model = Graph()
    assert isinstance(model, IPUExtensions)
    assert model(tf.ones((1, FEATURES))).shape == (1, 2)
    assert models.Model.__bases__ == bases


def test_super_of_its_own_class(strategy):
    class Old(keras.Model):
        def __init__(self):
            super(self.__class__, self).__init__()

    with strategy.scope():
        assert isinstance(Old(), IPUExtensions)


def test_two_models_of_a_class_share_their_ipu_class(strategy):
    with strategy.scope():
        assert type(Net()) is type(Net())


def test_the_users_methods_go_before_ours(strategy):
    calls = []

    class Loud(keras.Model):
        def make_train_function(self, force=False):
            calls.append("user")
            return super().make_train_function(force)

    with strategy.scope():
        Loud().make_train_function()
    assert calls == ["user"]


def test_init_subclass_does_not_see_our_class(strategy):
    seen = []

    class Registry(keras.Model):
        def __init_subclass__(cls, **kwargs):
            seen.append(cls)

    class Entry(Registry):
        pass

    with strategy.scope():
        model = Entry()
    assert isinstance(model, IPUExtensions)
    assert seen == [Entry]


def test_mixins_and_generic_bases(strategy):
    class Mixin:
        def greeting(self):
            return "hello"

    class Mixed(Mixin, keras.Model, Generic[TypeVar("T")]):
        pass

    with strategy.scope():
        model = Mixed()
    assert isinstance(model, IPUExtensions)
    assert model.greeting() == "hello"


def test_an_ipu_model_made_outside_of_a_scope_trains_as_stock_keras():
    model = ipu_tf.keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", run_eagerly=True)
    x = tf.ones((5, 2))
    history = model.fit(x, tf.ones((5, 1)), verbose=0, batch_size=2)
    assert len(history.history["loss"]) == 1
