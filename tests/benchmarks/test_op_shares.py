"""The shares of ops in the time of a run."""

import pytest
import tensorflow as tf

from benchmarks import op_shares


def test_products_are_told_from_other_ops():
    x = tf.random.stateless_normal((700, 700), (1, 2))

    @tf.function
    def step(x):
        for _ in range(4):
            x = tf.sin(tf.matmul(x, x))
        return x

    step(x)
    seconds = op_shares.seconds_by_type(lambda: step(x).numpy())
    products = {name: each for name, each in seconds.items() if "MatMul" in name}
    assert products
    assert seconds["Sin"] > 0
    assert not [name for name in seconds if "__inference" in name]
    assert 0.2 < op_shares.products_share(lambda: step(x).numpy()) < 1


def test_a_run_without_ops_is_an_error():
    with pytest.raises(ValueError, match="No op was seen"):
        op_shares.products_share(lambda: None)
