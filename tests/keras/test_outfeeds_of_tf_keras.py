"""Outfeeds that parts of models of tf_keras enqueue unless they have done so before."""

import pytest

from ipu_tf.ipu_outfeed_queue import IPUOutfeedQueue
from tests.keras.tf_keras_training import X, strategy_of

tf_keras = pytest.importorskip("tf_keras")


class Peek(tf_keras.layers.Layer):
    """Enqueues its input."""

    def __init__(self, queue):
        super().__init__()
        self.queue = queue

    def call(self, x):
        if not self.queue.enqueued:
            self.queue.enqueue(x)
        return x


class Peeking(tf_keras.Model):
    """A subclass that enqueues its input."""

    def __init__(self, queue):
        super().__init__()
        self.parts = [Peek(queue), tf_keras.layers.Dense(1)]

    def call(self, x):
        for part in self.parts:
            x = part(x)
        return x


class Descent(tf_keras.optimizers.legacy.SGD):
    """Enqueues the first gradient."""

    def __init__(self, queue):
        super().__init__(0.1)
        self.queue = queue

    def apply_gradients(self, grads_and_vars, **kwargs):
        if not self.queue.enqueued:
            self.queue.enqueue(grads_and_vars[0][0])
        return super().apply_gradients(grads_and_vars, **kwargs)


def test_a_layer_that_is_built_enqueues_nothing_until_it_runs():
    queue = IPUOutfeedQueue()
    with strategy_of().scope():
        model = Peeking(queue)
        model.build((None, 6))
        assert not queue.enqueued
        model.predict(X[:4], batch_size=4, verbose=0)
    assert queue.dequeue().numpy().tolist() == X[None, :4].tolist()


@pytest.mark.slow
def test_what_is_traced_for_shapes_and_variables_enqueues_nothing():
    of_layer, of_optimizer = IPUOutfeedQueue(), IPUOutfeedQueue()
    with strategy_of().scope():
        Peek(of_layer)(tf_keras.Input((6,)))
        model = Peeking(of_layer)
        model.build((None, 6))
        assert not of_layer.enqueued
        model.compile(Descent(of_optimizer), "mse", steps_per_execution=2)
        model.fit(X[:8], X[:8, :1], batch_size=4, shuffle=False, verbose=0)
    assert of_layer.dequeue().numpy().tolist() == X[:8].reshape(2, 4, 6).tolist()
    assert of_optimizer.dequeue().shape == (2, 6, 1)
