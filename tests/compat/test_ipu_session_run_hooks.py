"""The hook of sessions that logs tensors of programs."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, ipu_compiler, loops, scopes
from ipu_tf.compat.ipu_session_run_hooks import IPULoggingTensorHook
from ipu_tf.config import reset_ipu_configuration

v1 = tf.compat.v1
ALL = IPULoggingTensorHook.LoggingMode.ALL


@pytest.fixture(autouse=True)
def machine():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield
    reset_ipu_configuration()


@pytest.fixture
def logged(monkeypatch):
    lines = []
    monkeypatch.setattr(v1.logging, "info", lines.append)
    return lines


def compiled(computation):
    with scopes.ipu_scope("/device:IPU:0"):
        return ipu_compiler.compile(computation)


def test_tensors_are_logged_in_intervals(logged):
    hooks = [
        IPULoggingTensorHook(every_n_iter=2),
        IPULoggingTensorHook(every_n_iter=2, at_end=True, logging_mode=ALL),
    ]

    def program():
        step = v1.get_variable("step", [], tf.int32, tf.zeros_initializer).assign_add(1)
        return hooks[0].log({"step": step}), hooks[1].log([tf.constant(7, name="seven")])

    with tf.Graph().as_default():
        run = compiled(program)
        for _ in range(2):  # A hook may be used again.
            with v1.train.MonitoredTrainingSession(hooks=hooks) as session:
                for _ in range(4):
                    session.run(run)
            assert logged == [
                "step = 1",
                "seven:0 = [7]",
                "step = 3",
                "seven:0 = [7 7]",
                "seven:0 = [7]",
            ]
            logged.clear()


@pytest.mark.slow
def test_values_of_loops_are_logged_at_the_end(logged):
    last = IPULoggingTensorHook(at_end=True, formatter=lambda values: f"<{values['x']}>")

    def body(x):
        with tf.control_dependencies([last.log({"x": x})]):
            return x + 1

    with tf.Graph().as_default():
        run = compiled(lambda: loops.repeat(3, body, [1.0]))
        with v1.train.MonitoredTrainingSession(hooks=[last]) as session:
            np.testing.assert_array_equal(session.run(run), [4])
            assert not logged
    assert logged == ["<3.0>"]


def test_bad_uses_are_refused():
    with pytest.raises(ValueError, match="both every_n_iter and every_n_secs. Received: every_n_"):
        IPULoggingTensorHook(every_n_iter=1, every_n_secs=1)
    with pytest.raises(ValueError, match="every_n_iter, every_n_secs or at_end should be provided"):
        IPULoggingTensorHook()
    hook = IPULoggingTensorHook(at_end=True)
    with pytest.raises(TypeError, match="Expected `tf.Tensor`. Received: 'loss'"):
        hook.log("loss")
    with pytest.raises(RuntimeError, match="Did you forget to call the log function"):
        hook.begin()
    with tf.Graph().as_default():
        hook.log(tf.constant(0.0))
        with pytest.raises(RuntimeError, match="log function more than once. Pass all tensors to"):
            hook.log(tf.constant(0.0))
