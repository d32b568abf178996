"""Serialized products against whole ones."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.ops import math_ops

DIMENSIONS = ("a_columns", "a_rows_b_columns", "b_rows")
M, K, N = 4, 6, 8


def operands(transpose_a, transpose_b, batch=()):
    random = np.random.default_rng(3)
    a = random.integers(-8, 8, (*batch, K, M) if transpose_a else (*batch, M, K))
    b = random.integers(-8, 8, (N, K) if transpose_b else (K, N))
    return tf.constant(a, tf.float32), tf.constant(b, tf.float32)


def with_gradients(fn, a, b):
    with tf.GradientTape() as tape:
        tape.watch((a, b))
        product = fn(a, b)
        loss = tf.reduce_sum(product * product)
    return product, *tape.gradient(loss, (a, b))


@pytest.mark.fast_cells(12)
@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_products_and_gradients(dimension, transpose_a, transpose_b, batch):
    """Of small whole numbers, so that no sum is rounded."""
    a, b = operands(transpose_a, transpose_b, batch)
    whole = with_gradients(lambda a, b: tf.matmul(a, b, transpose_a, transpose_b), a, b)
    pieces = with_gradients(
        lambda a, b: math_ops.serialized_matmul(a, b, 2, dimension, transpose_a, transpose_b), a, b
    )
    for ours, reference in zip(pieces, whole, strict=True):
        np.testing.assert_array_equal(ours, reference)


@pytest.mark.parametrize(
    ("dimension", "shapes"),
    [
        ("a_columns", ([M // 2, K], [K, N])),
        ("a_rows_b_columns", ([M, K // 2], [K // 2, N])),
        ("b_rows", ([M, K], [K, N // 2])),
    ],
)
def test_the_pieces_are_products_of_their_own(dimension, shapes):
    a, b = operands(False, False)
    graph = (
        tf.function(lambda a, b: math_ops.serialized_matmul(a, b, 2, dimension, name="pieces"))
        .get_concrete_function(a, b)
        .graph
    )
    products = [op for op in graph.get_operations() if op.type == "MatMul"]
    assert len(products) == 2
    for product in products:
        assert product.name.startswith("pieces/")
        assert tuple(x.shape.as_list() for x in product.inputs) == shapes


def test_the_gradients_are_in_pieces_too():
    a, b = operands(False, False)
    fn = lambda a, b: with_gradients(  # noqa: E731
        lambda a, b: math_ops.serialized_matmul(a, b, 2, "a_columns"), a, b
    )
    operations = tf.function(fn).get_concrete_function(a, b).graph.get_operations()
    assert sum(op.type == "MatMul" for op in operations) == 6
    assert not any(op.type in ("Pad", "PadV2") for op in operations)


@pytest.mark.parametrize("factor", [0, -1, 1.5, True])
def test_the_factor_is_checked(factor):
    message = f"serialization_factor must be .* at least 1.*serialization_factor={factor}"
    with pytest.raises(ValueError, match=message):
        math_ops.serialized_matmul(*operands(False, False), factor, "b_rows")


def test_the_dimension_is_checked():
    message = "invalid serialization_dimension='rows', expected one of: a_columns, a_rows_b_col"
    with pytest.raises(ValueError, match=message):
        math_ops.serialized_matmul(*operands(False, False), 2, "rows")


@pytest.mark.parametrize(
    ("dimension", "extent"), [("a_columns", M), ("a_rows_b_columns", K), ("b_rows", N)]
)
def test_the_factor_divides_the_extent(dimension, extent):
    message = rf"\(5\) must divide .* '{dimension}' splits. Received: extent {extent}, axis -"
    with pytest.raises(ValueError, match=message):
        math_ops.serialized_matmul(*operands(False, False), 5, dimension)


def test_the_extent_is_static():
    @tf.function(input_signature=[tf.TensorSpec([None, K])])
    def product(a):
        return math_ops.serialized_matmul(a, tf.ones([K, N]), 2, "a_columns")

    with pytest.raises(ValueError, match="must divide the static extent .* extent None"):
        product.get_concrete_function()


def test_ranks_are_checked():
    with pytest.raises(ValueError, match=r"'b' must have a rank of at least 2. Received: .*\(3,\)"):
        math_ops.serialized_matmul([[1.0, 2.0, 3.0]], [1.0, 2.0, 3.0], 1, "b_rows")
