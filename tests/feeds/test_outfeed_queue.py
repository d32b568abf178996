"""`IPUOutfeedQueue`: modes, structures, iteration, errors."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, loops
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue, ScopedIPUOutfeedQueue

LAST = IPUOutfeedMode.LAST


@pytest.fixture(scope="module")
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def counting(queue, steps, structure=lambda i: i):
    """Returns a function of a program that enqueues something of the number of each step."""

    @tf.function
    def count():
        def body(index):
            queue.enqueue(structure(index))
            return index + 1

        return loops.repeat(steps, body, [0])

    return count


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    "structure",
    [
        lambda i: i,
        lambda i: (i, tf.cast(i, tf.float16)),
        lambda i: {"b": tf.fill([2, 3], i), "a": (i, [i, i])},
    ],
)
def test_all_elements_are_stacked_and_the_last_is_bare(strategy, structure):
    queue, last = IPUOutfeedQueue(), IPUOutfeedQueue(LAST)
    strategy.run(counting(queue, 3, structure))
    strategy.run(counting(last, 3, structure))
    expected = [structure(tf.constant(i)) for i in range(3)]
    tf.nest.map_structure(
        lambda got, *parts: np.testing.assert_array_equal(got, parts), queue.dequeue(), *expected
    )
    tf.nest.map_structure(np.testing.assert_array_equal, last.dequeue(), expected[-1])


def test_elements_of_several_runs_stay_until_they_are_dequeued(strategy):
    queue = IPUOutfeedQueue()
    count = counting(queue, 2)
    strategy.run(count)
    strategy.run(count)
    np.testing.assert_array_equal(queue.dequeue(), [0, 1, 0, 1])
    assert queue.dequeue().shape == (0,)


def test_each_trace_asks_whether_it_enqueues(strategy):
    queue, seen = IPUOutfeedQueue(), []

    def enqueue(x):
        seen.append(queue.enqueued)
        if not queue.enqueued:
            queue.enqueue(x)
        seen.append(queue.enqueued)
        return x + 1

    assert not queue.enqueued
    for start in (0, 10):
        strategy.run(tf.function(lambda x: enqueue(loops.repeat(1, enqueue, [x]))), [start])
    assert queue.enqueued
    assert seen == [False, True, True, True] * 2
    np.testing.assert_array_equal(queue.dequeue(), [0, 10])


def test_an_enqueue_in_a_condition_of_a_nested_loop(strategy):
    queue = IPUOutfeedQueue()

    @tf.function
    def count():
        for outer in tf.range(3):
            for inner in tf.range(4):
                if tf.equal(inner, outer):
                    queue.enqueue(10 * outer + inner)

    strategy.run(count)
    np.testing.assert_array_equal(queue.dequeue(), [0, 11, 22])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("mode", [IPUOutfeedMode.ALL, LAST])
@pytest.mark.slow
def test_a_dequeue_waits_for_the_jitted_functions_before_it(strategy, mode):
    queue = IPUOutfeedQueue(mode)

    @tf.function(jit_compile=True)
    def enqueue(x):
        for index in tf.range(3):
            queue.enqueue(x + tf.cast(index, tf.float32))

    @tf.function
    def twice(x):
        strategy.run(enqueue, args=(x,))
        first = queue.dequeue()
        strategy.run(enqueue, args=(10 * x,))
        return first, queue.dequeue()

    first, second = twice(tf.constant(1.0))
    np.testing.assert_array_equal(first, [1, 2, 3] if mode is not LAST else 3)
    np.testing.assert_array_equal(second, [10, 11, 12] if mode is not LAST else 12)


def test_iteration_drains_the_queue(strategy):
    queue = IPUOutfeedQueue()
    strategy.run(counting(queue, 3, lambda i: (i, 2 * i)))
    assert [(int(a), int(b)) for a, b in queue] == [(0, 0), (1, 2), (2, 4)]
    assert list(queue) == []


def test_another_thread_takes_elements_while_the_program_runs(strategy):
    queue, seen, begun, done = IPUOutfeedQueue(), [], threading.Event(), threading.Event()

    def generate():
        yield from range(3)
        begun.wait(20)
        yield from range(3, 6)

    dataset = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec((), "int32"))
    infeed = IPUInfeedQueue(dataset)

    @tf.function
    def echo():
        loops.repeat(6, queue.enqueue, [], infeed)

    def watch():
        assert queue.dequeue() == []
        while len(seen) < 3 and not done.is_set():
            seen.extend(int(value) for value in queue)
        begun.set()
        done.wait(20)
        seen.extend(int(value) for value in queue)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        strategy.run(echo)
        assert len(seen) >= 3
    finally:
        done.set()
        thread.join()
    assert seen == [0, 1, 2, 3, 4, 5]


def test_the_device_program_has_the_feeds_without_the_numbers_of_queues(strategy):
    queue = IPUOutfeedQueue()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.zeros([25])).repeat())

    @tf.function
    def program():
        loops.repeat(5, lambda x: queue.enqueue(tf.tile(x, [4])), [], infeed)

    strategy.reset_report()
    strategy.run(program)
    (traced,) = strategy.report().programs
    module = traced.source.step.module
    found = {
        instruction.opcode: (computation, instruction)
        for computation in module.computations.values()
        for instruction in computation
    }
    computation, outfeed = found["outfeed"]
    (operand,) = (i for i in computation if i.name in outfeed.operands)
    assert operand.type.dims == (100,)
    assert found["infeed"][1].operands == ()
    assert module.parameters == ()


class TestErrors:
    """What `IPUOutfeedQueue` refuses."""

    def test_mode(self):
        with pytest.raises(ValueError, match="outfeed_mode='all'"):
            IPUOutfeedQueue("all")

    @pytest.mark.parametrize("depth", [0, -1, None])
    def test_buffer_depth(self, depth):
        with pytest.raises(ValueError, match=f"buffer_depth={depth}"):
            IPUOutfeedQueue(buffer_depth=depth)

    def test_a_second_enqueue_in_a_graph(self, strategy):
        queue = IPUOutfeedQueue()

        @tf.function
        def twice():
            queue.enqueue(1.0)
            queue.enqueue(2.0)

        with pytest.raises(ValueError, match="An outfeed can only be enqueued once"):
            strategy.run(twice)

    def test_a_dequeue_before_any_enqueue(self):
        queue = IPUOutfeedQueue()
        with pytest.raises(ValueError, match="outfeed which has not been enqueued"):
            queue.dequeue()

    def test_the_last_value_of_an_empty_queue(self, strategy):
        queue = IPUOutfeedQueue(LAST)
        strategy.run(counting(queue, 2))
        assert queue.dequeue() == 1
        with pytest.raises(
            tf.errors.FailedPreconditionError, match="Trying to get the last value from an"
        ):
            queue.dequeue()

    def test_iteration_of_the_last_value_and_in_graphs(self):
        with pytest.raises(RuntimeError, match="IPUOutfeedQueue can only be iterated"):
            iter(IPUOutfeedQueue(LAST))
        with tf.Graph().as_default(), pytest.raises(RuntimeError, match="inside a graph"):
            iter(IPUOutfeedQueue())

    def test_eager_enqueues_and_scoped_queues_in_graphs(self):
        with pytest.raises(RuntimeError, match="Received an eager call"):
            IPUOutfeedQueue().enqueue(1.0)
        with tf.Graph().as_default(), pytest.raises(RuntimeError, match="only be made in eager"):
            ScopedIPUOutfeedQueue()

    def test_types_and_shapes_that_the_device_lacks(self, strategy):
        with pytest.raises(tf.errors.FailedPreconditionError, match="int64 on index 1 of feed"):
            strategy.run(counting(IPUOutfeedQueue(), 1, lambda i: (i, tf.cast(i, tf.int64))))
        with pytest.raises(ValueError, match="at least one tensor"):
            strategy.run(counting(IPUOutfeedQueue(), 1, lambda i: ()))
        with pytest.raises(ValueError, match="which is not fully defined"):
            strategy.run(counting(IPUOutfeedQueue(), 1, lambda i: tf.range(i)))

    def test_deleted_queues(self, strategy):
        queue = ScopedIPUOutfeedQueue()
        count = counting(queue, 1)
        strategy.run(count)
        queue.deleter  # noqa: B018
        with pytest.raises(tf.errors.NotFoundError, match="Outfeed with id="):
            queue.deleter  # noqa: B018
        with pytest.raises(tf.errors.NotFoundError, match="Outfeed with id="):
            strategy.run(count)
