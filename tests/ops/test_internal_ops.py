"""Operations about the program itself."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops import internal_ops


def test_a_tensor_is_printed_by_the_host(strategy, capfd):
    @tf.function
    def step(x):
        internal_ops.print_tensor(x * 2, name="twice")
        return x + 1

    strategy.run(step, args=(tf.constant([1.0, 2.5]),))
    internal_ops.print_tensor(tf.constant(3))
    assert capfd.readouterr().err == "twice: [2 5]\ntensor: 3\n"


@pytest.mark.parametrize("op", [internal_ops.remap, internal_ops.remap_deduce])
def test_hints_of_layouts_keep_values_and_gradients(op):
    x = tf.constant([1.0, -2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = op(x, name="hint") ** 2
    np.testing.assert_array_equal(y, [1, 4])
    np.testing.assert_array_equal(tape.gradient(y, x), [2, -4])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("depth", [1, 3])
def test_a_queue_gives_earlier_values(strategy, depth):
    @tf.function
    def step(x):
        return internal_ops.fifo(x, depth) + internal_ops.fifo(10 * x, depth + 1, offload=True)

    given = [np.array([n, -n], "float32") for n in range(1, 7)]
    seen = [strategy.run(step, args=(tf.constant(x),)).numpy() for x in given]
    padded = [np.zeros(2, "float32")] * (depth + 1) + given
    for n, values in enumerate(seen):
        np.testing.assert_array_equal(values, padded[n + 1] + 10 * padded[n])


def test_a_queue_works_in_a_loop(strategy):
    @tf.function
    def step(count):
        total = 0
        for number in tf.range(count):
            total += internal_ops.fifo(number, 2, name="late")
        return total

    assert strategy.run(step, args=(tf.constant(5),)) == 0 + 0 + 0 + 1 + 2


@pytest.mark.slow
def test_a_loop_knows_its_iteration(strategy):
    @tf.function
    def step(values):
        total = tf.zeros([])
        for value in values:
            counter = internal_ops.get_current_iteration_counter(lower_bound=0)
            if value > 0:
                total += value * tf.cast(internal_ops.get_current_iteration_counter(), tf.float32)
            total += 100 * tf.cast(counter, tf.float32)
        return total

    assert strategy.run(step, args=(tf.constant([7.0, 5, -1, 2]),)) == 5 + 2 * 3 + 600


def test_bad_arguments_are_refused():
    with pytest.raises(ValueError, match="depth must be a positive integer. Received: depth=0"):
        internal_ops.fifo(1.0, 0)
    with pytest.raises(ValueError, match="must have a static shape. Received: shape"):
        tf.function(lambda x: internal_ops.fifo(x, 1)).get_concrete_function(
            tf.TensorSpec((None,), tf.float32)
        )
    with pytest.raises(ValueError, match="is called outside of a loop. Call it in the body of"):
        internal_ops.get_current_iteration_counter()
    with pytest.raises(TypeError, match="Received: bound"):
        internal_ops.get_current_iteration_counter(bound=3)
