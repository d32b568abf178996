"""Sums over segments, joined: the same bits, gradients, errors and costs."""

import functools

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import live_types, traced
from tests.runtime.execution.test_joined_programs import compiled, steps, unjoined

NODES, EDGES = 40, 300


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def messages(x, senders, receivers, read=tf.identity):
    """Sums of the nodes that send to each node, and the gradient of the nodes."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        sent = read(tf.gather(x * 2, senders))
        sums = tf.math.unsorted_segment_sum(sent, receivers, NODES)
        loss = tf.reduce_sum(sums**2)
    return sums, tf.convert_to_tensor(tape.gradient(loss, x))


def operands_of(columns):
    """Nodes and edges; some edges lead nowhere."""
    random = np.random.default_rng(0)
    senders, receivers = random.integers(0, NODES, EDGES), random.integers(-5, NODES, EDGES)
    ends = (tf.constant(each, tf.int32) for each in (senders, receivers))
    return [tf.constant(normals(1, (NODES, columns))), *ends]


PICKED = {"IpuGatherSegmentSum"}
"""Rows are added where they lie, forward and backward."""
READ = {"IpuSegmentSum", "IpuGatherRows"}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("columns", "read", "joined"),
    [
        (8, tf.identity, PICKED),
        (64, tf.identity, PICKED),
        (1000, tf.identity, PICKED),
        (17, tf.tanh, READ),
    ],
)
def test_bits_are_those_of_stock(strategy, columns, read, joined):
    operands, fn = operands_of(columns), functools.partial(messages, read=read)
    function = traced(strategy, fn, operands)
    types = set(live_types(function))
    assert types & (PICKED | READ) == joined
    assert not {"UnsortedSegmentSum", "SelectV2"} & types
    for ours, stock in zip(function(*operands), fn(*operands), strict=True):
        np.testing.assert_array_equal(ours, stock)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("columns", [4, None])
def test_narrow_or_unknown_rows_stay(strategy, columns):
    def fn(x, senders, receivers):
        rows = tf.gather(x, senders) if columns else tf.gather(x[:, 0], senders)
        return tf.math.unsorted_segment_sum(rows, receivers, NODES)

    function = traced(strategy, fn, operands_of(columns or 8))
    assert "UnsortedSegmentSum" in live_types(function)


@pytest.mark.slow
def test_gradients_by_a_tape_outside(strategy):
    operands = operands_of(9)
    step = tf.function(messages)
    strategy.run(step, args=operands)  # Traced, and joined, while nothing is recorded.

    def second(run):
        with tf.GradientTape() as tape:
            tape.watch(operands[0])
            total = sum(tf.reduce_sum(tf.sin(value)) for value in run(*operands))
        return tape.gradient(total, operands[0])

    stock = second(messages)
    ours = second(lambda *a: strategy.run(step, args=a))
    np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-4 * np.abs(stock).max())


@pytest.mark.slow
def test_a_function_costs_what_it_cost_before(monkeypatch):
    operands = operands_of(9)
    joined = traced(IPUStrategy(enable_keras_extensions=False), messages, operands)
    plain = unjoined(monkeypatch, messages, operands)
    (_, program), (_, expected) = compiled(joined, *operands), compiled(plain, *operands)
    assert steps(program) == steps(expected)


def test_a_segment_that_is_not_there():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"ids\[1\] = 3 is out of range"):
        library.load().ipu_segment_sum(tf.ones((2, 8)), [0, 3], 3)


def test_a_row_that_is_not_there():
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 2 is not in"):
        library.load().ipu_gather_rows(tf.ones((2, 8)), [0, 2], [0, 1])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: library.load().ipu_segment_sum(x, [0], 3), "each has a number"),
        (lambda x: library.load().ipu_gather_rows(x, [0], [0, 1]), "both numbers of a row"),
    ],
)
def test_errors_of_shapes(call, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        call(tf.ones((2, 8)))
