"""Fuses layer norms that call the batch norm of TensorFlow, with a channel for each row.

tf_keras writes most layer norms so. TensorFlow's op transposes such channels, one value each.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph
from ipu_tf.runtime.execution.layer_norm_fusion import (
    LayerNormForward,
    LayerNormGradient,
    are_columns,
    join,
    row_sums,
)
from ipu_tf.runtime.execution.op_patterns import Found, find, is_filled


def fuse_batch_norm(joined: FusionGraph, op: tf.Operation) -> None:
    """Fuses such a layer norm, and its gradients.

    Args:
        joined: The graph.
        op: An op of type FusedBatchNormV3.
    """
    found = _layer_norm(joined, op)
    if found is not None:
        norm, normal = found
        join(joined, norm, list(_gradients(joined, norm, op, normal)))


def _layer_norm(joined: FusionGraph, op: tf.Operation) -> tuple[LayerNormForward, tf.Tensor] | None:
    """Returns the layer norm that an op is a part of, and the normalized rows."""
    rows, ones, zeros = op.inputs[:3]
    of_channels = op.get_attr("data_format") == b"NCHW" and op.get_attr("is_training")
    if not of_channels or rows.op.type != "Reshape" or rows.dtype != tf.float32:
        return None
    x = rows.op.inputs[0]
    is_known = x.shape.is_fully_defined() and x.shape.rank and x.shape.num_elements()
    if not is_known or rows.shape != (1, x.shape.num_elements() // x.shape[-1], x.shape[-1], 1):
        return None
    if not is_filled(ones, 1) or not is_filled(zeros, 0):
        return None
    for normal in joined.results_of(op.outputs[0], "Reshape"):
        for product in joined.results_of(normal, "Mul"):
            for y in joined.results_of(product, "AddV2"):
                pattern = ("AddV2", ("Mul", "normal", "gamma"), "beta")
                found = find(y, pattern, {"normal": normal, "x": x})
                if found is None or not normal.shape == y.shape == x.shape:
                    continue
                gamma, beta = found["gamma"], found["beta"]
                if are_columns(gamma, x, axes=1) and gamma.shape == beta.shape:
                    found = {**found, "epsilon": _epsilon(joined, op)}
                    return LayerNormForward(found, y, axes=1, stops=False), normal
    return None


def _epsilon(joined: FusionGraph, op: tf.Operation) -> tf.Tensor:
    """Creates the constant that a batch norm adds to variances."""
    value = tf.make_tensor_proto(op.get_attr("epsilon"), tf.float32)
    constant = joined.create(
        "Const",
        op,
        [],
        value=tf.compat.v1.AttrValue(tensor=value),
        dtype=tf.compat.v1.AttrValue(type=tf.float32.as_datatype_enum),
    )
    return constant.outputs[0]


def _gradients(
    joined: FusionGraph, norm: LayerNormForward, op: tf.Operation, normal: tf.Tensor
) -> Iterator[LayerNormGradient]:
    """Yields the gradients of a layer norm."""
    found = {"normal": normal, "gamma": norm.found["gamma"]}
    for scaled in joined.results_of(found["gamma"], "Mul"):
        with_dy = find(scaled, ("Mul", "dy", "gamma"), found)
        if with_dy is None or with_dy["dy"].shape != norm.y.shape:
            continue
        for dx in _input_gradients(joined, op, scaled):
            if dx.shape == norm.y.shape:
                dgamma = _dgamma(joined, norm, with_dy)
                yield LayerNormGradient(
                    with_dy["dy"], (), (dx, dgamma, row_sums(joined, with_dy["dy"], norm))
                )


def _input_gradients(
    joined: FusionGraph, op: tf.Operation, scaled: tf.Tensor
) -> Iterator[tf.Tensor]:
    """Yields what the gradient of a batch norm gives to the rows, as a reshaped tensor."""
    for rows in joined.results_of(scaled, "Reshape"):
        for gradient in joined.results_of(rows, "FusedBatchNormGradV3"):
            expected = [rows, *op.inputs[:2], *op.outputs[3:5]]
            if all(a is b for a, b in zip(gradient.op.inputs, expected, strict=False)):
                yield from joined.results_of(gradient, "Reshape")


def _dgamma(joined: FusionGraph, norm: LayerNormForward, found: Found) -> tf.Tensor | None:
    for product in joined.results_of(found["normal"], "Mul"):
        if find(product, ("Mul", "normal", "dy"), found) is not None:
            return row_sums(joined, product, norm)
    return None
