"""Attention that multiplies queries with keys."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import zoo
from ipu_tf.zoo.layers import QueryFirstAttention

QUERIES = np.random.default_rng(5).normal(size=(2, 5, 8)).astype("float32")
VALUES = np.random.default_rng(6).normal(size=(2, 3, 8)).astype("float32")


def built(cls, **options):
    layer = cls(2, 4, **options)
    layer.build(QUERIES.shape, VALUES.shape)
    return layer


def scores_product(layer):
    """The operation that multiplies queries with keys."""
    attended = tf.function(lambda: layer(QUERIES, VALUES))
    operations = attended.get_concrete_function().graph.get_operations()
    (found,) = (
        op
        for op in operations
        if op.type == "BatchMatMulV2" and sorted(op.outputs[0].shape[-2:]) == [3, 5]
    )
    return found


@pytest.mark.parametrize("dropout", [0.0, 0.1])
@pytest.mark.parametrize("mask", [None, np.tri(5, 3, dtype=bool)[None]], ids=["all", "mask"])
def test_results_are_those_of_keras(dropout, mask):
    layer, stock = (
        built(cls, dropout=dropout)
        for cls in (QueryFirstAttention, keras.layers.MultiHeadAttention)
    )
    stock.set_weights(layer.get_weights())
    ours, expected = (
        one(QUERIES, VALUES, attention_mask=mask, return_attention_scores=True)
        for one in (layer, stock)
    )
    for mine, theirs in zip(ours, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_weights_are_dropped_in_training():
    layer = built(QueryFirstAttention, dropout=0.5)
    trained, predicted = (layer(QUERIES, VALUES, training=training) for training in (True, False))
    assert not np.allclose(trained, predicted)


def test_queries_are_the_left_operand():
    left, right = scores_product(built(QueryFirstAttention, dropout=0.1)).inputs
    assert (left.shape, right.shape) == ((2, 2, 5, 4), (2, 2, 4, 3))


def test_scores_are_divided():
    product = scores_product(built(QueryFirstAttention, dropout=0.1))
    assert [op.type for op in product.outputs[0].consumers()] == ["RealDiv"]


def test_vision_transformers_multiply_queries_with_keys():
    model = zoo.vit_b16(image_size=32, depth=1, width=8, heads=2)
    assert isinstance(model.get_layer("0_attention"), QueryFirstAttention)
