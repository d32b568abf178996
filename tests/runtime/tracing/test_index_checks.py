"""Labels and indices out of range fail a program, by XLA and by the graph executor alike."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.runtime.tracing.index_checks import CHECK

TABLE = tf.constant(np.arange(20, dtype="float32").reshape(4, 5))
VARIABLE = tf.Variable(TABLE)


def of_labels(labels):
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, TABLE)


def of_rows(indices):
    return tf.gather(TABLE * 2.0, indices)


def of_columns(indices):
    return tf.gather(TABLE, indices, axis=-1)


def of_a_variable(indices):
    return tf.nn.embedding_lookup(VARIABLE, indices)


def of_elements(indices):
    return tf.gather_nd(TABLE, indices)


LABELS, ROWS, PLACES = [0, 4, 1, 2], [[0, 3], [1, 2]], [[0, 4], [3, 0]]
CASES = {
    "labels": (of_labels, LABELS, (2, 9), r"Received a label value of 9 which is outside the valid "
               r"range of \[0, 5\)\.  Label values: 0 4 9 2"),
    "a negative label": (of_labels, LABELS, (2, -1), r"Received a label value of -1 which is"),
    "rows": (of_rows, ROWS, ((1, 0), 4), r"indices\[1,0\] = 4 is not in \[0, 4\)"),
    "columns": (of_columns, ROWS, ((0, 1), 5), r"indices\[0,1\] = 5 is not in \[0, 5\)"),
    "a variable": (of_a_variable, ROWS, ((1, 1), -1), r"indices\[1,1\] = -1 is not in \[0, 4\)"),
    "elements": (of_elements, PLACES, ((1, 1), 5),
                 r"indices\[1\] = \[3, 5\] does not index into param shape \[4,5\]"),
}  # fmt: skip


def operands(good, change):
    place, value = change
    bad = np.array(good, "int32")
    bad[place] = value
    return tf.constant(good, tf.int32), tf.constant(bad)


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph executor", "XLA"])
@pytest.mark.parametrize("case", CASES)
def test_lookups_out_of_range_fail(case, jit_compile):
    look_up, good, change, message = CASES[case]
    good, bad = operands(good, change)
    function = tf.function(look_up, jit_compile=jit_compile)
    strategy = IPUStrategy(enable_keras_extensions=False)
    np.testing.assert_array_equal(strategy.run(function, [good]), look_up(good))
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        strategy.run(function, [bad])
    np.testing.assert_array_equal(strategy.run(function, [good]), look_up(good))


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("case", CASES)
def test_stock_tensorflow_says_the_same(case):
    look_up, good, change, message = CASES[case]
    _, bad = operands(good, change)
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        tf.function(look_up)(bad)


def checks_of(function, *arguments):
    traced = []

    @tf.function
    def run(*arguments):
        result = IPUStrategy(enable_keras_extensions=False).run(function, arguments)
        traced.append(tf.compat.v1.get_default_graph().get_operations())
        return result

    run.get_concrete_function(*arguments)
    return [op for op in traced[0] if op.type == CHECK]


def test_the_error_names_the_op():
    function = tf.function(lambda i: tf.gather(TABLE, i, name="lookup"), jit_compile=True)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\(op 'lookup'\)"):
        IPUStrategy(enable_keras_extensions=False).run(function, [tf.constant([7])])


def test_known_indices_in_range_need_no_check():
    assert checks_of(lambda x: tf.gather(x, [1, 0]), TABLE) == []
    assert len(checks_of(lambda x: tf.gather(x, [1, 4]), TABLE)) == 1


def test_indices_that_were_checked_are_not_checked_again():
    def look_up(x, indices):
        graph = tf.compat.v1.get_default_graph()
        tf.gather(x, indices)
        checked = next(op for op in graph.get_operations() if op.type == CHECK).outputs[0]
        return tf.gather(x, checked)

    assert len(checks_of(look_up, TABLE, tf.constant([1, 2]))) == 1


def test_gradients_pass_checked_lookups():
    table, indices = tf.Variable(TABLE), tf.constant([1, 1, 3])

    @tf.function
    def gradient(indices):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, indices))
        return tf.convert_to_tensor(tape.gradient(y, table))

    result = IPUStrategy(enable_keras_extensions=False).run(gradient, [indices])
    np.testing.assert_array_equal(result[:, 0], [0.0, 2.0, 0.0, 1.0])


def test_checked_lookups_are_vectorised():
    def look_up(rows):
        return tf.vectorized_map(lambda row: tf.gather(row[0] * 2.0, row[1]), (TABLE, rows))

    rows = tf.constant([[0, 4], [1, 1], [2, 0], [3, 3]])
    function = tf.function(look_up)
    strategy = IPUStrategy(enable_keras_extensions=False)
    np.testing.assert_array_equal(strategy.run(function, [rows]), look_up(rows))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r" = 5 is not in \[0, 5\)"):
        strategy.run(function, [rows + tf.constant([0, 1])])


def test_a_check_costs_the_machine_nothing():
    strategy = IPUStrategy(enable_keras_extensions=False)
    strategy.run(tf.function(of_rows), [tf.constant([0, 1])])
    (program,) = strategy.report().programs
    assert program.complete
    assert CHECK not in strategy.report().summary()


def test_an_update_of_weights_does_not_happen():
    weights = tf.Variable(tf.ones([5]))

    @tf.function(jit_compile=True)
    def train(labels):
        for _ in tf.range(3):
            with tf.GradientTape() as tape:
                loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, weights[None] + TABLE)
            weights.assign_sub(tape.gradient(loss, weights))

    before = weights.numpy()
    with pytest.raises(tf.errors.InvalidArgumentError, match="Received a label value of 9"):
        IPUStrategy(enable_keras_extensions=False).run(train, [tf.constant([0, 1, 9, 3])])
    np.testing.assert_array_equal(weights, before)
