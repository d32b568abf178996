"""`IPUInfeedQueue`: order, restart, end of the data, errors."""

import gc
import subprocess
import sys
import threading

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, ipu_compiler, loops, scopes
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue, IPUIterator
from ipu_tf.ipu_outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue


@pytest.fixture(scope="module")
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def numbers(count):
    return tf.data.Dataset.range(count).map(lambda i: tf.cast(i, tf.float32))


def reader(infeed, steps):
    """Returns a function of a program that reads an infeed, and the queue of what it reads."""
    outfeed = IPUOutfeedQueue()

    @tf.function
    def read():
        loops.repeat(steps, outfeed.enqueue, [], infeed)

    return read, outfeed


def test_a_program_goes_on_where_the_one_before_ended_and_a_restart_begins_again(strategy):
    infeed = IPUInfeedQueue(numbers(5).repeat())
    read, outfeed = reader(infeed, 3)
    strategy.run(read)
    strategy.run(read)
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1, 2, 3, 4, 0])
    assert infeed.initializer is None
    strategy.run(read)
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1, 2])
    assert infeed.dequeued
    assert infeed.number_of_tuple_elements == 1


def test_scripts_dequeue_by_the_name_of_old(strategy):
    infeed = IPUInfeedQueue(numbers(2))
    assert strategy.run(tf.function(lambda: infeed._dequeue() + 2)) == 2


def test_a_program_beyond_the_end_of_the_data_fails_and_a_restart_helps(strategy):
    infeed = IPUInfeedQueue(numbers(2))
    read, outfeed = reader(infeed, 3)
    with pytest.raises(tf.errors.OutOfRangeError, match="dataset of the infeed has no more"):
        strategy.run(read)
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1])
    infeed.initializer  # noqa: B018
    with pytest.raises(tf.errors.OutOfRangeError):
        strategy.run(read)
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 1])


def test_an_error_of_the_dataset_is_that_of_the_program(strategy):
    def fail(x):
        return tf.debugging.check_numerics(1.0 / (1.0 - x), "bad sample")

    read, _ = reader(IPUInfeedQueue(numbers(3).map(fail)), 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad sample"):
        strategy.run(read)


def test_nothing_is_read_before_a_program_runs_and_then_a_little_ahead(strategy):
    taken = []

    def generate():
        for value in range(200):
            taken.append(value)
            yield np.float32(value)

    dataset = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec((), "float"))
    read, _ = reader(IPUInfeedQueue(dataset), 2)
    assert taken == []
    strategy.run(read)
    assert 2 <= len(taken) < 200


def test_a_dict_arrives_by_name_and_nested_structures_as_they_are(strategy):
    dataset = tf.data.Dataset.from_tensors({"b": 2.0, "a": (1.0, 3.0)}).repeat()

    @tf.function
    def read():
        return loops.repeat(2, lambda sums, a, b: sums + a[0] + b * a[1], [0.0], infeed)

    infeed = IPUInfeedQueue(dataset)
    assert strategy.run(read) == 14.0
    assert infeed.number_of_tuple_elements == 3


@pytest.fixture
def replicated():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.configure_ipu_system()
    yield IPUStrategy(enable_keras_extensions=False)
    config.reset_ipu_configuration()


@pytest.mark.slow
def test_replicas_share_out_the_elements_in_the_order_of_their_numbers(replicated):
    read, outfeed = reader(IPUInfeedQueue(numbers(20)), 3)
    replicated.run(read)
    replicated.run(read)
    np.testing.assert_array_equal(
        outfeed.dequeue(), [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    )
    infeed, last = IPUInfeedQueue(numbers(20)), IPUOutfeedQueue(IPUOutfeedMode.LAST)

    @tf.function
    def echo():
        loops.repeat(2, last.enqueue, [], infeed)

    replicated.run(echo)
    np.testing.assert_array_equal(last.dequeue(), [2, 3])


@pytest.mark.slow
def test_replicas_share_out_the_elements_of_an_iterator(replicated):
    outfeed = IPUOutfeedQueue()

    @tf.function
    def read(iterator):
        for _ in tf.range(2):
            outfeed.enqueue(next(iterator))

    with replicated.scope():
        iterator = iter(numbers(20))
        replicated.run(read, [iterator])
        replicated.run(read, [iterator])
        replicated.run(read, [iter(numbers(20))])
    assert len(replicated.report().programs) == 1
    np.testing.assert_array_equal(
        outfeed.dequeue(), [[0, 1], [2, 3], [4, 5], [6, 7], [0, 1], [2, 3]]
    )


def test_an_iterator_with_a_name_of_its_own_class(strategy):
    iterator = IPUIterator(dataset=numbers(3), prefetch_depth=1)
    assert iterator.element_spec == tf.TensorSpec((), tf.float32)
    assert iterator.infeed_spec.dtype == tf.int32
    assert strategy.run(tf.function(lambda: iterator.next() + iterator.get_next())) == 1.0
    strategy.reset_report()
    read = tf.function(lambda it: it.get_next())
    assert strategy.run(read, [iterator]) == 2.0
    (program,) = strategy.report().programs
    assert program.source.step.module.parameters == ()
    for arguments in ({}, {"dataset": numbers(3), "element_spec": tf.TensorSpec(())}):
        with pytest.raises(ValueError, match="takes either `dataset`, or `infeed_spec` and"):
            IPUIterator(**arguments)


def test_a_function_that_xla_compiles_reads_and_writes_feeds(strategy):
    infeed, outfeed = IPUInfeedQueue(numbers(10)), IPUOutfeedQueue()

    @tf.function(jit_compile=True)
    def compiled():
        loops.repeat(4, lambda x: outfeed.enqueue(x * 2.0), [], infeed)

    strategy.run(tf.function(lambda: compiled()))  # Not the outer function.
    np.testing.assert_array_equal(outfeed.dequeue(), [0, 2, 4, 6])


def test_jitted_functions_of_a_program_read_in_the_order_of_the_code(strategy):
    infeed = IPUInfeedQueue(tf.data.Dataset.range(100).map(lambda i: tf.cast(i, tf.float32)))

    @tf.function(jit_compile=True)
    def read_slowly():
        ones = tf.ones([64, 64])
        return infeed.dequeue() + 0 * tf.reduce_sum(tf.matmul(ones, ones))

    @tf.function
    def read():
        values = [read_slowly(), infeed.dequeue(), read_slowly(), read_slowly(), infeed.dequeue()]
        return tf.stack(values)

    for run in range(3):
        np.testing.assert_array_equal(strategy.run(read), 5 * run + np.arange(5))


def test_a_session_deletes_queues_that_exist():
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        infeed, outfeed = IPUInfeedQueue(numbers(3)), IPUOutfeedQueue()
        deleters = infeed.deleter, outfeed.deleter
        for deleter in deleters:
            with pytest.raises(tf.errors.NotFoundError, match="feed with id=.* did not run, or it"):
                session.run(deleter)

        def program():
            return loops.repeat(3, lambda x: outfeed.enqueue(x), [], infeed)

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(program)
        restart, dequeued = infeed.initializer, outfeed.dequeue()
        for _ in range(2):  # An infeed that was deleted begins anew.
            session.run(restart)
            session.run(run)
            np.testing.assert_array_equal(session.run(dequeued), range(3))
            session.run(deleters[0])
            with pytest.raises(tf.errors.NotFoundError, match="Infeed with id=.*it was deleted"):
                session.run(run)
        session.run(deleters[1])
        for deleter in deleters:
            with pytest.raises(tf.errors.NotFoundError, match="feed with id="):
                session.run(deleter)


def test_only_a_dataset_feeds():
    with pytest.raises(TypeError, match="must be a tf.data.Dataset.*Received: list"):
        IPUInfeedQueue([1.0, 2.0])


def test_a_queue_without_users_ends_its_thread():
    before = set(threading.enumerate())
    queue = IPUInfeedQueue(numbers(3))
    (thread,) = set(threading.enumerate()) - before
    assert thread.is_alive()
    del queue
    gc.collect()
    thread.join(timeout=10)
    assert not thread.is_alive()


class TestErrors:
    """What `IPUInfeedQueue` refuses."""

    def test_a_shape_that_is_not_static(self):
        message = (
            r"Output shape .* is not fully defined. If using tf.Dataset.batch, set "
            r"`drop_remainder=True`"
        )
        with pytest.raises(ValueError, match=message):
            IPUInfeedQueue(numbers(5).batch(2))

    @pytest.mark.parametrize("depth", [-1, 256, 1.5, True])
    def test_prefetch_depth(self, depth):
        with pytest.raises(ValueError, match=f"prefetch_depth={depth}"):
            IPUInfeedQueue(numbers(5), prefetch_depth=depth)

    @pytest.mark.parametrize("depth", [None, 0, 1, 255])
    def test_prefetch_depths_in_range(self, depth):
        assert not IPUInfeedQueue(numbers(5), prefetch_depth=depth).dequeued

    @pytest.mark.parametrize(
        ("ordinal", "message"), [(-1, "must be >= 0"), ("0", "must be an integer")]
    )
    def test_device_ordinal(self, ordinal, message):
        with pytest.raises(ValueError, match=message):
            IPUInfeedQueue(numbers(5), device_ordinal=ordinal)

    def test_unknown_arguments(self):
        with pytest.raises(TypeError, match="Received: feed"):
            IPUInfeedQueue(numbers(5), feed_name="data", feed=1)

    @pytest.mark.parametrize("dtype", ["int64", "float64", "string"])
    def test_types_that_the_device_lacks(self, strategy, dtype):
        value = tf.constant("a") if dtype == "string" else tf.cast(1, dtype)
        read, _ = reader(IPUInfeedQueue(tf.data.Dataset.from_tensors(value)), 1)
        with pytest.raises(
            tf.errors.FailedPreconditionError,
            match=f"Unsupported datatype {dtype} on index 0 of feed operation",
        ):
            strategy.run(read)

    def test_components_without_elements(self, strategy):
        read, _ = reader(IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.zeros([2, 0]))), 1)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape \(2, 0\), which has no"):
            strategy.run(read)

    def test_deleted_queues(self, strategy):
        infeed = IPUInfeedQueue(numbers(5))
        read, _ = reader(infeed, 1)
        strategy.run(read)
        assert infeed.deleter is None
        with pytest.raises(tf.errors.NotFoundError, match="Infeed with id="):
            infeed.deleter  # noqa: B018
        with pytest.raises(tf.errors.NotFoundError, match="Infeed with id="):
            strategy.run(read)

    def test_get_next_and_eager_dequeues(self):
        infeed = IPUInfeedQueue(numbers(5))
        with pytest.raises(ValueError, match="`get_next` of an IPUInfeedQueue is obsolete"):
            infeed.get_next()
        with pytest.raises(RuntimeError, match="not eagerly"):
            infeed.dequeue()

    def test_the_initializer_of_a_final_graph(self):
        with tf.Graph().as_default() as graph:
            infeed = IPUInfeedQueue(numbers(5))
            graph.finalize()
            assert infeed.initializer.graph is graph

    def test_the_initializer_in_graph_mode(self):
        infeed = IPUInfeedQueue(numbers(5))
        with tf.Graph().as_default():
            assert isinstance(infeed.initializer, tf.Operation)
            with pytest.raises(ValueError, match="can only be accessed once in graph mode"):
                infeed.initializer  # noqa: B018


_CLOSED_SESSIONS = """
import gc
import numpy as np, tensorflow as tf
from ipu_tf import IPUConfig, ipu_compiler, loops, scopes
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue

cfg = IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()
for _ in range(8):
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.from_tensor_slices(np.ones(64, np.float32)).shuffle(8)
        infeed = IPUInfeedQueue(dataset.batch(4, drop_remainder=True).cache().repeat())

        def program():
            return loops.repeat(5, lambda s, x: s + tf.reduce_sum(x), [0.0], infeed)

        with scopes.ipu_scope("/device:IPU:0"):
            run = ipu_compiler.compile(program, [])
        with tf.compat.v1.Session() as session:
            session.run(infeed.initializer)
            assert session.run(run) == [20.0]
        del infeed, run
    gc.collect()
print("ended")
"""


@pytest.mark.slow
def test_datasets_outlive_the_sessions_that_made_them():
    # In a process of its own: a dataset that reaches for a session that is gone ends the process.
    command = [sys.executable, "-c", _CLOSED_SESSIONS]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
    assert result.stdout.endswith("ended\n")
