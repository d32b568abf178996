"""Exported programs that run in this process."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, config, serving
from ipu_tf.serving import embedded_runtime

A = np.array([[1, 2], [3, 4]], "float32")
B = np.array([[5], [6]], "float32")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    path = tmp_path_factory.mktemp("exported")
    serving.export_single_step(
        lambda a, b: (tf.matmul(a, b), a + 1),
        path,
        2,
        [tf.TensorSpec((2, 2)), tf.TensorSpec((2, 1))],
    )
    yield path
    config.reset_ipu_configuration()


@pytest.fixture(scope="module")
def context(folder):
    return embedded_runtime.embedded_runtime_start(folder, [], "application", timeout=100)


def test_a_call_runs_a_step(context, folder):
    product, more = embedded_runtime.embedded_runtime_call([A, B], context)
    np.testing.assert_array_equal(product, A @ B)
    np.testing.assert_array_equal(more, A + 1)
    again = embedded_runtime.embedded_runtime_start_and_call(str(folder), {}, [A, B], "twice")
    np.testing.assert_array_equal(again[0], A @ B)


@pytest.mark.slow
def test_a_call_works_in_a_function(context):
    @tf.function
    def call(a, b):
        return embedded_runtime.embedded_runtime_call([a, b], context)

    np.testing.assert_array_equal(call(A, B)[0], A @ B)


def test_a_context_describes_its_program(context):
    assert context.name() == "application"
    assert context.output_types() == [tf.float32, tf.float32]
    assert context.start_output() is None
    signature = context.signature()
    assert signature.start_inputs == ()
    assert [str(one) for one in signature.streamed_inputs] == [
        "a (float32 of shape (2, 2))",
        "b (float32 of shape (2, 1))",
    ]
    assert [one.shape.as_list() for one in signature.streamed_outputs] == [[2, 1], [2, 2]]


@pytest.mark.parametrize(
    ("inputs", "error", "message"),
    [
        (A, Exception, r"'application' takes a list of inputs at a call\. Received: array"),
        ([A], Exception, "'application' takes 2 inputs at a call: a .*, b .*Received: 1 inputs"),
        ([A, A], Exception, r"Input 'b' of program 'application' has shape \(2, 1\). Received"),
        ([A, B.astype("float16")], TypeError, "has dtype float32: tf.cast it. Received: float16"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(context, inputs, error, message):
    with pytest.raises(error, match=message):
        embedded_runtime.embedded_runtime_call(inputs, context)


def test_inputs_of_the_start_that_do_not_fit_are_refused(folder):
    with pytest.raises(Exception, match="takes 0 inputs at its start: none. Received: 1"):
        embedded_runtime.embedded_runtime_start(folder, [A], "application")
    with pytest.raises(Exception, match=r"takes a list of inputs at its start\. Received: 4\."):
        embedded_runtime.embedded_runtime_start(folder, 4, "application")
    with pytest.raises(Exception, match=r"takes the inputs \[\] at its start. Received: \['w'\]"):
        embedded_runtime.embedded_runtime_start(folder, {"w": A}, "application")


def test_a_program_is_not_stopped(context):
    with pytest.raises(NotImplementedError, match="'application' cannot be stopped"):
        embedded_runtime.embedded_runtime_stop(context)


def test_a_folder_without_a_program_is_refused(tmp_path):
    with pytest.raises(ValueError, match="is no exported program. Pass the folder that"):
        embedded_runtime.embedded_runtime_start(tmp_path, [], "application")
