"""AutoGraph runs the faces as they are: it neither reads nor converts their sources."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import ops
from ipu_tf.ops import embedding_ops, grad_util_ops, math_ops, pipelining_ops, statistics_ops
from ipu_tf.ops.functions import ctc_ops

X = np.ones((4, 8), "float32")
IMAGE, FILTER = np.ones((1, 4, 4, 2), "float32"), np.ones((3, 3, 2, 2), "float32")
LOGITS = np.zeros((6, 1, 4), "float32")

FACES = {
    "matmul": lambda: ops.matmul(X, X.T),
    "batch_matmul": lambda: ops.batch_matmul(X[None], X.T[None]),
    "conv2d": lambda: ops.conv2d(IMAGE, FILTER, 1, "SAME"),
    "depthwise_conv2d": lambda: ops.depthwise_conv2d(IMAGE, FILTER, 1, "SAME"),
    "serialized_matmul": lambda: math_ops.serialized_matmul(X, X.T, 2, "a_columns"),
    "embedding_lookup": lambda: embedding_ops.embedding_lookup(X, [1, 2]),
    "ctc_loss_v2": lambda: ctc_ops.ctc_loss_v2([[1, 2]], LOGITS, [2], [6], 0),
    "ctc_beam_search": lambda: ctc_ops.ctc_beam_search_decoder(LOGITS, [6], 2, 1, 0),
    "capture": lambda: grad_util_ops.capture_upstream_gradients(tf.constant(X), tag="x"),
    "histogram": lambda: statistics_ops.histogram(X[0], [0.5, 1.5]),
    "checkpoint": lambda: pipelining_ops.recomputation_checkpoint(tf.constant(X)),
}


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize("name", FACES)
def test_sources_are_not_read(name, monkeypatch):
    read = []
    source = inspect.findsource

    def findsource(entity):
        read.append(getattr(entity, "__module__", ""))
        return source(entity)

    face = FACES[name]

    @tf.function
    def user():
        return face()

    monkeypatch.setattr(inspect, "findsource", findsource)
    user.get_concrete_function()
    assert __name__ in read  # The function itself is converted.
    assert not [module for module in read if module.startswith("ipu_tf")]


def test_faces_keep_their_signatures():
    assert list(inspect.signature(ops.matmul).parameters)[:2] == ["a", "b"]
