"""Names of ops: they contain the scope, and the calls that lead to the op."""

import pytest

from ipu_tf.programs.op_names import is_gradient, own_name, scope_of, without_calls


@pytest.mark.parametrize(
    ("name", "own", "path"),
    [
        ("MatMul", "MatMul", "MatMul"),
        ("block/dense/MatMul", "block/dense/MatMul", "block/dense/MatMul"),
        ("PartitionedCall/MatMul", "MatMul", "MatMul"),
        ("block/PartitionedCall/dense/MatMul", "dense/MatMul", "block/dense/MatMul"),
        ("a/StatefulPartitionedCall_12/PartitionedCall_1/b/Relu", "b/Relu", "a/b/Relu"),
        ("a/PartitionedCall/a/MatMul", "a/MatMul", "a/MatMul"),
        ("b/PartitionedCall/a/MatMul", "a/MatMul", "b/a/MatMul"),
        ("a/PartitionedCall", "a/PartitionedCall", "a/PartitionedCall"),
        ("a/MyPartitionedCall/b", "a/MyPartitionedCall/b", "a/MyPartitionedCall/b"),
        ("a/PartitionedCall_grad/b", "a/PartitionedCall_grad/b", "a/PartitionedCall_grad/b"),
    ],
)
def test_names_without_calls(name, own, path):
    assert own_name(name) == own
    assert without_calls(name) == path


def test_scopes_of_gradients_are_those_of_their_ops():
    assert scope_of("gradient_tape/net/dense/MatMul/MatMul_1") == scope_of("net/dense/MatMul")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gradient_tape/net/dense/MatMul/MatMul_1", True),
        ("while/gradients/net/mul_grad/Mul", True),
        ("net/dense/MatMul", False),
        ("net/gradient/mul", False),
        ("net/my_gradients_of/mul", False),
    ],
)
def test_gradients_are_known_by_their_names(name, expected):
    assert is_gradient(name) is expected
