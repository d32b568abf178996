"""Sessions run what a graph places on an IPU outside of a program."""

import logging

import pytest
import tensorflow as tf

from ipu_tf.compat.tensorflow1.sessions import sessions_know_ipus

v1 = tf.compat.v1


@pytest.mark.parametrize("config", [None, v1.ConfigProto(log_device_placement=False)])
def test_operations_on_an_ipu_run_on_the_host_and_a_warning_says_so(config, caplog):
    with sessions_know_ipus(), tf.Graph().as_default():
        with tf.device("/device:IPU:0"):
            total = tf.add(v1.placeholder_with_default(1.0, []), 2.0, name="total")
        with caplog.at_level(logging.WARNING), v1.Session(config=config) as session:
            assert session.run(total) == 3
    (record,) = caplog.records
    assert "operations of the session's graph are placed on an IPU" in record.getMessage()


def test_sessions_without_such_operations_warn_of_nothing(caplog):
    with sessions_know_ipus(), tf.Graph().as_default(), v1.Session() as session:
        assert session.run(tf.constant(1)) == 1
    assert not caplog.records
