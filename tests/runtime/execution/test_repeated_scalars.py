"""Scalars that a step computes several times: computed once, with the values of stock."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import joined_ops
from tests.runtime.execution.test_fusion import traced, types_behind


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def needed(function):
    """Returns how many ops of each type the results and effects of a function read from."""
    results = (tensor.op for tensor in function.graph.outputs)
    return types_behind([*results, *function.graph.control_outputs])


def test_an_optimizer_computes_its_scalars_for_all_weights_once(strategy):
    def build():
        weights = [tf.Variable(np.full(i + 2, i, np.float32)) for i in range(5)]
        optimizer = keras.optimizers.Adam(1e-2)
        optimizer.build(weights)

        def step(x):
            optimizer.apply([x * weight for weight in weights])
            return tf.convert_to_tensor(optimizer.learning_rate)

        return weights, step

    x = tf.constant(0.3)
    with strategy.scope():
        mine, step = build()
        function = traced(strategy, step, [x])
    theirs, stock_step = build()
    stock = tf.function(stock_step)
    for _ in range(3):
        np.testing.assert_array_equal(function(x), stock(x))
    for weight, other in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-6)
    assert needed(function)["Pow"] == 2
    assert needed(stock.get_concrete_function(x))["Pow"] == 10


def test_reads_between_which_a_variable_changes_stay(strategy):
    variable, other = tf.Variable(1.0), tf.Variable(5.0)

    @tf.function
    def change():
        variable.assign(variable * 3)

    def fn(x):
        before, again = variable * x, variable * x
        other.assign_add(1.0)
        unchanged = variable * x
        variable.assign_add(1.0)
        after = variable * x
        change()
        return tf.stack([before, again, unchanged, after, variable * x])

    x = tf.constant(2.0)
    function = traced(strategy, fn, [x])
    np.testing.assert_array_equal(function(x), [2, 2, 2, 4, 12])
    np.testing.assert_array_equal(function(x), [12, 12, 12, 14, 42])
    assert needed(function)["Mul"] == 3


def test_scalars_that_differ_stay(strategy):
    def fn(x):
        halves = tf.cast(x, tf.float16), tf.cast(x, tf.float32)
        sums = x + 1, x + 2, x + 1, 1 + x
        random = tf.random.stateless_uniform((), (1, 2)) + tf.random.stateless_uniform((), (1, 3))
        return (*halves, *sums, random)

    x = tf.constant(0.1)
    function = traced(strategy, fn, [x])
    for mine, theirs in zip(function(x), fn(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    stock = tf.function(fn).get_concrete_function(x)
    assert needed(function)["AddV2"] == needed(stock)["AddV2"] - 1


def test_loops_whose_work_joined_ops_do_still_do_not_iterate(strategy):
    layer = keras.layers.LSTM(8, return_sequences=True)
    x = tf.constant(np.ones((2, 5, 3), np.float32))
    layer.build(x.shape)
    graph = traced(strategy, lambda x: layer(layer(x)[..., :3]), [x]).graph
    loops = [op for op in graph.get_operations() if op.type in {"While", "StatelessWhile"}]
    counters = [
        (op.inputs[index], graph.get_tensor_by_name(name))
        for op in loops
        for index, name in joined_ops.bypassed(op.node_def).items()
    ]
    assert len(counters) == len(loops) == 2
    for read, bypassed in counters:
        assert tf.get_static_value(read) != tf.get_static_value(bypassed) == 0


def test_scalars_may_be_results_and_inputs_of_loops(strategy):
    variable = tf.Variable(2.0)

    def fn(x):
        once, again = variable * x, variable * x
        (total,) = tf.while_loop(lambda t: t < again, lambda t: [t + variable * x], [once - 1])
        return once, again, total

    x = tf.constant(3.0)
    np.testing.assert_array_equal(traced(strategy, fn, [x])(x), [6, 6, 11])
