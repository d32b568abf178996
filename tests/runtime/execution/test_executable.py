"""Executables are found again by function, configuration, shapes; and go with their function."""

import gc
import weakref

import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, scopes
from ipu_tf.runtime.execution.executable import Identity


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


class Counter:
    """Counts traces."""

    def __init__(self):
        self.traces = 0

    def plain(self, x):
        self.traces += 1
        return x + 1.0

    @tf.function
    def decorated(self, x):
        self.traces += 1
        return x + 1.0


def test_second_call_does_not_trace(strategy):
    counter = Counter()
    step = tf.function(counter.plain)
    for _ in range(3):
        strategy.run(step, args=(tf.zeros([2]),))
    assert counter.traces == 1


def test_a_new_tf_function_of_the_same_function_does_not_trace(strategy):
    traces = []

    def step(x):
        traces.append(1)
        return x

    for _ in range(3):
        strategy.run(tf.function(step), args=(tf.zeros([2]),))
    assert len(traces) == 1


def test_bound_methods_are_told_apart_by_their_object(strategy):
    first, second = Counter(), Counter()
    for _ in range(2):
        for counter in (first, second):
            strategy.run(tf.function(counter.plain), args=(tf.zeros([2]),))
            strategy.run(counter.decorated, args=(tf.zeros([2]),))
    assert (first.traces, second.traces) == (2, 2)


def test_shapes_and_dtypes_are_part_of_the_key(strategy):
    counter = Counter()
    step = tf.function(counter.plain)
    for value in (tf.zeros([2]), tf.zeros([3]), tf.zeros([2], tf.float16), tf.zeros([2])):
        strategy.run(step, args=(value,))
    assert counter.traces == 3


def test_configuration_and_scopes_are_part_of_the_key(strategy):
    counter = Counter()
    step = tf.function(counter.plain)
    strategy.run(step, args=(tf.zeros([2]),))
    with scopes.partials_type(tf.float16):
        strategy.run(step, args=(tf.zeros([2]),))
    assert counter.traces == 2
    cfg = IPUConfig()
    cfg.simulator.chip = "gc2"
    cfg.configure_ipu_system()
    try:
        strategy.run(step, args=(tf.zeros([2]),))
    finally:
        config.reset_ipu_configuration()
    assert counter.traces == 3


def test_executables_do_not_keep_objects_alive(strategy):
    counter = Counter()
    strategy.run(tf.function(counter.plain), args=(tf.zeros([2]),))
    strategy.run(counter.decorated, args=(tf.zeros([2]),))
    gone = weakref.ref(counter)
    del counter
    gc.collect()
    assert gone() is None
    assert len(strategy._executables) == 0


def test_strategies_do_not_outlive_their_last_reference():
    gone = weakref.ref(IPUStrategy(enable_keras_extensions=False))
    gc.collect()
    assert gone() is None


def test_variables_and_eager_tensors_may_be_returned(strategy):
    variable, constant = tf.Variable([1.0, 2.0]), tf.constant([3.0])

    def step(x):
        return {"new": variable.assign_add(x), "old": constant, "nothing": None}

    result = strategy.run(tf.function(step), args=(tf.ones([2]),))
    assert result["new"].numpy().tolist() == [2.0, 3.0]
    assert result["old"].numpy().tolist() == [3.0]
    assert result["nothing"] is None


def test_random_numbers_of_a_constant_seed_have_a_cost(strategy):
    step = tf.function(lambda x: x + tf.random.stateless_normal([2], seed=[1, 2]))
    strategy.run(step, args=(tf.ones([2]),))
    assert strategy.report().complete


def test_many_functions_are_not_one_that_is_traced_often(strategy, caplog):
    def named(index):
        def fn(x):
            return x + float(index)

        fn.__name__ = f"fn_{index}"
        return fn

    for index in range(8):
        strategy.run(tf.function(named(index)), args=(tf.ones((2,)),))
    assert "retracing" not in caplog.text


def test_a_function_that_is_traced_often_is_warned_of_by_its_name(strategy, caplog):
    @tf.function
    def grows(x):
        return x + 1.0

    for size in range(1, 9):
        strategy.run(grows, args=(tf.ones((size,)),))
    assert "retracing" in caplog.text
    assert "grows" in caplog.text


class TestIdentity:
    def test_equal_objects_are_not_the_same(self):
        class Equal:
            __hash__ = None

            def __eq__(self, other):
                return True

        one, other = Equal(), Equal()
        assert Identity(one) == Identity(one)
        assert hash(Identity(one)) == hash(Identity(one))
        assert Identity(one) != Identity(other)
        assert Identity(one) != "one"

    def test_an_object_is_held_weakly_and_none_is_the_same_later(self):
        counter = Counter()
        before, again, reference = Identity(counter), Identity(counter), weakref.ref(counter)
        del counter
        gc.collect()
        assert reference() is None
        assert before == before
        assert before != again

    def test_what_cannot_be_held_weakly_is_kept(self):
        value = (1, 2)
        assert Identity(value) == Identity(value)
