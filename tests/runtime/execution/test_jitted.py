"""Functions with `jit_compile=True`, in a run and around one."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels.twins import STOCK_OF, TWINS


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def random(*shape, seed=0):
    return tf.random.stateless_normal(shape, seed=[seed, 7])


def network(x, w, dense):
    y = tf.nn.relu(tf.nn.conv2d(x, w, strides=2, padding="SAME"))
    return tf.matmul(tf.reshape(y, [2, -1]), dense)


def with_gradients(fn, *args):
    with tf.GradientTape() as tape:
        tape.watch(args)
        y = fn(*args)
    return [y, *tape.gradient(y, args)]


OPERANDS = random(2, 6, 6, 3), random(3, 3, 3, 4, seed=1), random(36, 5, seed=2)
JITTED = tf.function(network, jit_compile=True)


def assert_close(results, expected):
    for result, reference in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-5)


def functions_that_xla_compiles(function):
    """Returns the definitions in the library of a concrete function that XLA is to compile."""
    library = function.graph.as_graph_def().library.function
    return [f for f in library if f.attr["_XlaMustCompile"].b]


def compiled_op_types(function):
    return {node.op for f in functions_that_xla_compiles(function) for node in f.node_def}


class TestInsideOfARun:
    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("traced_before", [False, True])
    def test_runs_as_tile_ops_that_xla_compiles(self, strategy, traced_before):
        jitted = tf.function(network, jit_compile=True)
        if traced_before:
            jitted = jitted.get_concrete_function(*OPERANDS)
        step = tf.function(lambda *args: strategy.run(lambda *a: jitted(*a), args=args))
        types = compiled_op_types(step.get_concrete_function(*OPERANDS))
        assert types & STOCK_OF.keys()
        assert not types & TWINS.keys()
        assert_close([step(*OPERANDS)], [network(*OPERANDS)])

    def test_gradients_are_compiled_and_agree(self, strategy):
        def step(*args):
            return strategy.run(lambda *a: with_gradients(JITTED, *a), args=args)

        function = tf.function(step).get_concrete_function(*OPERANDS)
        assert "IpuConv2DBackpropFilter" in compiled_op_types(function)
        assert_close(function(*OPERANDS), with_gradients(network, *OPERANDS))

    def test_called_from_a_loop(self, strategy):
        product = tf.function(tf.matmul, jit_compile=True)

        def loop(x, w):
            return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, product(y, w)), (0, x))[1]

        x, w = random(4, 4), random(4, 4, seed=1)
        result = tf.function(lambda *a: strategy.run(loop, args=a))(x, w)
        np.testing.assert_allclose(result, x @ w @ w @ w, rtol=1e-4, atol=1e-4)

    def test_it_may_give_the_sizes_of_what_follows(self, strategy):
        sized = tf.function(lambda x: (2.0 * x, tf.constant([2, 8])), jit_compile=True)

        def step(x):
            y, sizes = sized(x)
            return tf.reshape(y, sizes)

        x = random(4, 4)
        result = strategy.run(tf.function(step), args=(x,))
        np.testing.assert_allclose(result, tf.reshape(2.0 * x, [2, 8]))

    def test_an_eager_run_of_a_jitted_function(self, strategy):
        for _ in range(2):
            assert_close([strategy.run(JITTED, args=OPERANDS)], [network(*OPERANDS)])

    def test_an_eager_tape_around_the_run(self, strategy):
        def run(*args):
            return strategy.run(JITTED, args=args)

        assert_close(with_gradients(run, *OPERANDS), with_gradients(network, *OPERANDS))


class TestAroundARun:
    def test_the_whole_step(self, strategy):
        def step(*args):
            return strategy.run(with_gradients, args=(network, *args))

        assert_close(
            tf.function(step, jit_compile=True)(*OPERANDS), with_gradients(network, *OPERANDS)
        )
        assert strategy.report().tile_ops

    @pytest.mark.slow
    def test_a_tape_around_the_run(self, strategy):
        def step(*args):
            return with_gradients(lambda *a: strategy.run(network, args=a), *args)

        assert_close(
            tf.function(step, jit_compile=True)(*OPERANDS), with_gradients(network, *OPERANDS)
        )

    def test_variables_are_trained(self, strategy):
        with strategy.scope():
            w = tf.Variable(random(4, 4))

        def update(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, w) ** 2)
            w.assign_sub(0.1 * tape.gradient(loss, w))
            return loss

        step = tf.function(lambda x: strategy.run(update, args=(x,)), jit_compile=True)
        x = random(3, 4, seed=1)
        before = tf.identity(w)
        losses = [float(step(x)), float(step(x))]
        assert losses[0] == pytest.approx(float(tf.reduce_sum((x @ before) ** 2)), rel=1e-5)
        assert losses[1] < losses[0]
