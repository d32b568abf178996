"""Programs with loops and feeds that are written to files, and run from them."""

import gc
import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, loops, pipelining, serving
from ipu_tf.ipu_infeed_queue import IPUInfeedQueue
from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue
from ipu_tf.serving import embedded_runtime
from ipu_tf.serving.application_compile_op import experimental_application_compile_op

X = np.arange(8, dtype="float32").reshape(4, 2)
KERNEL = np.array([[1, 2, 3], [4, 5, 6]], "float32")


@pytest.fixture(scope="module", autouse=True)
def machine():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield
    config.reset_ipu_configuration()


def program(kernel):
    """A loop over elements, and its queues."""
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors((X, np.float32(1))).repeat())
    outfeed = IPUOutfeedQueue()

    def application(shift):
        def body(count, x, scale):
            outfeed.enqueue((tf.matmul(x, kernel) * scale + shift, count))
            return count + 1

        return loops.repeat(3, body, [tf.constant(10)], infeed)

    return application


@pytest.mark.slow
def test_a_program_runs_from_its_file(tmp_path):
    kernel = tf.Variable(KERNEL, name="kernel")
    path = experimental_application_compile_op(
        program(kernel), [tf.constant(0.5)], tmp_path / "a" / "program.ipu_exec"
    )
    assert path.numpy().decode() == str(tmp_path / "a" / "program.ipu_exec")
    context = embedded_runtime.embedded_runtime_start(path, [7.0, 2 * KERNEL], "application")
    signature = context.signature()
    assert [one.name for one in signature.start_inputs] == ["shift", "kernel"]
    assert [one.shape for one in signature.streamed_inputs] == [(4, 2), ()]
    assert [one.shape for one in signature.streamed_outputs] == [(4, 3), ()]
    assert context.output_types() == [tf.float32, tf.int32]
    for number in range(5):  # More than an execution of the loop.
        scores, count = embedded_runtime.embedded_runtime_call([X + number, 3.0], context)
        np.testing.assert_allclose(scores, (X + number) @ KERNEL * 2 * 3 + 7, rtol=1e-5)
        assert count == 10 + number % 3

    @tf.function
    def call(x):
        return embedded_runtime.embedded_runtime_call([x, tf.constant(1.0)], context)

    np.testing.assert_allclose(call(tf.constant(X))[0], X @ KERNEL * 2 + 7, rtol=1e-5)
    with pytest.raises(TypeError, match="Input 'input_0' of program 'application' has dtype floa"):
        embedded_runtime.embedded_runtime_call([X.astype("int32"), 1.0], context)


@pytest.mark.slow
def test_a_session_runs_a_program_from_its_file(tmp_path):
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.ones([3])).repeat())
        outfeed = IPUOutfeedQueue()

        def application():  # A loop without inputs is an operation.
            return loops.repeat(4, lambda x: outfeed.enqueue({"twice": 2 * x}), [], infeed)

        path = experimental_application_compile_op(application, output_path=tmp_path / "program")
        context = embedded_runtime.embedded_runtime_start(path, [], "application")
        x = tf.compat.v1.placeholder(tf.float32, [3])
        (twice,) = embedded_runtime.embedded_runtime_call([x], context)
        with tf.compat.v1.Session() as session:
            assert session.run(path) == str(tmp_path / "program").encode()
            for number in range(6):
                found = session.run(twice, {x: np.full(3, number)})
                np.testing.assert_array_equal(found, np.full(3, 2 * number))


def test_inputs_of_a_start_are_values(tmp_path):
    with tf.Graph().as_default():
        shift = tf.compat.v1.placeholder(tf.float32, [])
        outfeed = IPUOutfeedQueue()
        path = experimental_application_compile_op(
            lambda shift: outfeed.enqueue(2 * shift), [shift], tmp_path / "program"
        )
        with pytest.raises(embedded_runtime.EmbeddedRuntimeError, match="has to be known when"):
            embedded_runtime.embedded_runtime_start(path, [shift], "application")
        with pytest.raises(ValueError, match="path of the executable has to be known"):
            embedded_runtime.embedded_runtime_start(
                tf.compat.v1.placeholder(tf.string, []), [], "application"
            )


@pytest.mark.slow
def test_a_saved_model_runs_in_a_loop_with_feeds(tmp_path):
    serving.export_single_step(
        lambda x: tf.matmul(x, KERNEL), tmp_path, 3, [tf.TensorSpec((4, 2), tf.float32)]
    )
    loaded = tf.saved_model.load(str(tmp_path))
    batches = np.stack([X, 2 * X, 3 * X])
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(batches))
    outfeed = IPUOutfeedQueue()
    strategy = IPUStrategy(enable_keras_extensions=False)

    @tf.function
    def serve():
        loops.repeat(3, lambda x: outfeed.enqueue(loaded.predict(x)), [], infeed)

    strategy.run(serve)
    np.testing.assert_allclose(outfeed.dequeue()[0], batches @ KERNEL, rtol=1e-5)
    (program,) = strategy.report().programs
    assert [op.op_type for op in program.tile_ops] == ["MatMul"]


@pytest.mark.slow
def test_variables_may_be_frozen():
    kernel = tf.Variable(KERNEL)
    path = experimental_application_compile_op(
        program(kernel), inputs=[0.5], freeze_variables=True, name="frozen"
    )
    kernel.assign(0 * KERNEL)
    # The vendor's names begin with XLA_Args/.
    context = embedded_runtime.embedded_runtime_start(path, {"XLA_Args/shift": 1.0}, "frozen")
    scores, _ = embedded_runtime.embedded_runtime_call([X, 1.0], context)
    np.testing.assert_allclose(scores, X @ KERNEL + 1, rtol=1e-5)
    with pytest.raises(Exception, match=r"'frozen' takes the inputs \['shift'\] at its start"):
        embedded_runtime.embedded_runtime_start(path, {"other": 1.0}, "frozen")
    with pytest.raises(Exception, match=r"Input 'shift' of program 'frozen' has shape \(\)"):
        embedded_runtime.embedded_runtime_start(path, [X], "frozen")


@pytest.mark.slow
def test_a_program_that_fails_says_so():
    outfeed = IPUOutfeedQueue()
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.int32(0)).repeat())

    def application():
        def body(index):
            outfeed.enqueue(tf.gather(tf.constant([1.0, 2.0]), index))

        loops.repeat(2, body, [], infeed)

    path = experimental_application_compile_op(application)
    context = embedded_runtime.embedded_runtime_start(path, [], "failing")
    assert embedded_runtime.embedded_runtime_call([1], context)[0] == 2
    with pytest.raises(RuntimeError, match=r"(?s)The application failed: .*indices = 7 is not in"):
        embedded_runtime.embedded_runtime_call([7], context)


def test_a_program_of_several_outfeeds_is_refused(tmp_path):
    outfeeds = [IPUOutfeedQueue(), IPUOutfeedQueue()]

    def application():
        return [outfeed.enqueue(tf.constant(1.0)) for outfeed in outfeeds]

    with pytest.raises(ValueError, match="at most one IPUOutfeedQueue.*with 2 outfeeds and 0 inf"):
        experimental_application_compile_op(application, output_path=tmp_path / "a")
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_a_program_may_only_read(tmp_path):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.int32(0)).repeat())
    weight = tf.Variable([1.0, 2.0])

    def application():
        def body(index):
            weight.assign_add(tf.gather(weight, [index, index]))

        loops.repeat(2, body, [], infeed)

    path = experimental_application_compile_op(application, freeze_variables=True)
    context = embedded_runtime.embedded_runtime_start(path, [], "reading")
    for index in range(2):
        assert embedded_runtime.embedded_runtime_call([index], context) == []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        session.run(embedded_runtime.embedded_runtime_call([np.int32(7)], context))

    def call_again():
        for _ in range(1000):  # Nothing tells when the program uses an element.
            embedded_runtime.embedded_runtime_call([0], context)
            time.sleep(0.01)

    with pytest.raises(RuntimeError, match=r"(?s)The application failed: .*indices.* = 7 is not i"):
        call_again()


def test_a_program_without_feeds_runs_at_its_start():
    kernel = tf.Variable(KERNEL, name="kernel")
    path = experimental_application_compile_op(lambda x: (tf.matmul(x, kernel), x[0, 0]), [X])
    context = embedded_runtime.embedded_runtime_start(path, [2 * X, KERNEL], "once")
    scores, first = context.start_output()
    np.testing.assert_allclose(scores, 2 * X @ KERNEL, rtol=1e-5)
    assert first == 2 * X[0, 0]
    assert context.signature().streamed_outputs == ()
    assert embedded_runtime.embedded_runtime_call([], context) == []


@pytest.mark.slow
def test_threads_share_a_pipeline_from_its_file(tmp_path):
    kernel = tf.Variable(KERNEL)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(X).repeat())
    outfeed = IPUOutfeedQueue()

    @tf.function
    def application():
        stages = [lambda x: tf.matmul(x, kernel), tf.reduce_sum]
        mapping = [0, 0]
        pipelining.pipeline(
            stages, 4, infeed_queue=infeed, outfeed_queue=outfeed, device_mapping=mapping
        )

    path = experimental_application_compile_op(
        application, output_path=tmp_path / "pipeline", freeze_variables=True
    )
    context = embedded_runtime.embedded_runtime_start(path, [], "pipeline", timeout=1000)
    answers = {}

    def ask(factor):
        results = [embedded_runtime.embedded_runtime_call([factor * X], context) for _ in range(5)]
        answers[factor] = np.ravel(results)

    threads = [threading.Thread(target=ask, args=(factor,)) for factor in (1.0, 2.0, 3.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for factor, found in answers.items():
        np.testing.assert_allclose(found, [factor * np.sum(X @ KERNEL)] * 5, rtol=1e-6)
    assert len(answers) == 3


def scores_of_graph(infeed, outfeed):
    """A program of a graph of TensorFlow 1 whose variables are the same at each call."""

    def body(x):
        with tf.compat.v1.variable_scope("dense", reuse=tf.compat.v1.AUTO_REUSE):
            kernel = tf.compat.v1.get_variable("kernel", [2, 3])
            count = tf.compat.v1.get_variable("count", [], initializer=tf.zeros_initializer)
        return outfeed.enqueue({"scores": tf.matmul(x, kernel), "count": count.assign_add(1)})

    return lambda: loops.repeat(3, body, [], infeed)


@pytest.mark.parametrize("freeze", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_an_application_has_the_variables_of_its_graph(tmp_path, freeze):
    with tf.Graph().as_default():
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(X).repeat())
        outfeed = IPUOutfeedQueue()
        net = scores_of_graph(infeed, outfeed)
        path = experimental_application_compile_op(
            net, output_path=tmp_path / "a", freeze_variables=freeze
        )
        count, kernel = sorted(tf.compat.v1.global_variables(), key=lambda one: one.op.name)
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run([kernel.assign(KERNEL), count.assign(5)])
            written = session.run(path)
            assert written == str(tmp_path / "a").encode()
            session.run(kernel.assign(0 * KERNEL))
        inputs = {} if freeze else {"XLA_Args/dense/kernel": KERNEL, "XLA_Args/dense/count": 5.0}
        context = embedded_runtime.embedded_runtime_start(written, inputs, "scores")
        x = tf.compat.v1.placeholder(tf.float32, X.shape)
        results = embedded_runtime.embedded_runtime_call([x], context)
        with tf.compat.v1.Session() as session:
            for number in range(1, 6):  # More than an execution of the loop.
                found, scores = session.run(results, {x: number * X})
                np.testing.assert_allclose(scores, number * X @ KERNEL, rtol=1e-5)
                assert found == 5 + number


@pytest.mark.slow
def test_constants_of_a_graph_are_part_of_its_application(tmp_path):
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2])
        experimental_application_compile_op(
            lambda scale, x: scale * x, [3.0, x], output_path=tmp_path / "a"
        )
        context = embedded_runtime.embedded_runtime_start(tmp_path / "a", [[1.0, 2.0]], "scaled")
        np.testing.assert_array_equal(context.start_output()[0], [3, 6])


def test_tensors_of_a_graph_are_inputs_of_an_application(tmp_path):
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2], name="given")
        with pytest.raises(ValueError, match="(?s)reads a tensor of the graph around.*'given:0'"):
            experimental_application_compile_op(lambda: 2 * x, output_path=tmp_path / "a")
    assert not (tmp_path / "a").exists()


_ONE_THREAD = """
import numpy as np
import tensorflow as tf

from ipu_tf import IPUConfig
from ipu_tf.serving import embedded_runtime

cfg = IPUConfig()
cfg.auto_select_ipus = 1
cfg.ipu_model.tiles_per_ipu = 16
cfg.configure_ipu_system()
context = embedded_runtime.embedded_runtime_start({path!r}, [], "application")


@tf.function
def twice(x):
    for _ in tf.range(5):
        (x,) = embedded_runtime.embedded_runtime_call([x], context)
    return x


np.testing.assert_array_equal(twice(tf.ones([3])), np.full(3, 32))
with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    (result,) = embedded_runtime.embedded_runtime_call([tf.ones([3])], context)
    np.testing.assert_array_equal(session.run(result), np.full(3, 2))
"""


@pytest.mark.slow
def test_a_call_in_a_function_needs_no_thread_of_its_own(tmp_path):
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.ones([3])).repeat())
    outfeed = IPUOutfeedQueue()
    path = experimental_application_compile_op(
        lambda: loops.repeat(2, lambda x: outfeed.enqueue(2 * x), [], infeed),
        output_path=tmp_path / "program",
    )
    script = tmp_path / "script.py"
    script.write_text(_ONE_THREAD.format(path=path.numpy().decode()))
    environment = {**os.environ, "TF_NUM_INTEROP_THREADS": "1"}
    subprocess.run([sys.executable, script], env=environment, check=True, timeout=120)


@pytest.mark.slow
def test_an_application_runs_when_it_is_called():
    outfeed, runs = IPUOutfeedQueue(), tf.Variable(0)

    def application():
        outfeed.enqueue(runs.assign_add(1))

    path = experimental_application_compile_op(application)
    context = embedded_runtime.embedded_runtime_start(path, [np.int32(0)], "counting")
    found = [int(embedded_runtime.embedded_runtime_call([], context)[0]) for _ in range(3)]
    assert found == [1, 2, 3]


@pytest.mark.slow
def test_an_application_ends_with_its_context():
    outfeed = IPUOutfeedQueue()
    path = experimental_application_compile_op(lambda: outfeed.enqueue(tf.constant(1.0)))
    before = set(threading.enumerate())
    context = embedded_runtime.embedded_runtime_start(path, [], "short")
    (thread,) = set(threading.enumerate()) - before
    assert embedded_runtime.embedded_runtime_call([], context)[0] == 1
    del context
    gc.collect()
    thread.join(10)
    assert not thread.is_alive()
