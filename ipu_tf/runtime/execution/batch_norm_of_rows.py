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
from ipu_tf.runtime.execution.op_patterns import Bindings, find, is_filled


def fuse_batch_norm(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses such a layer norm, and its gradients.

    Args:
        graph: The graph.
        op: An op of type FusedBatchNormV3.
    """
    match = _layer_norm(graph, op)
    if match is not None:
        norm, normal = match
        join(graph, norm, list(_gradients(graph, norm, op, normal)))


def _layer_norm(graph: FusionGraph, op: tf.Operation) -> tuple[LayerNormForward, tf.Tensor] | None:
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
    for normal in graph.results_of(op.outputs[0], "Reshape"):
        for product in graph.results_of(normal, "Mul"):
            for y in graph.results_of(product, "AddV2"):
                pattern = ("AddV2", ("Mul", "normal", "gamma"), "beta")
                bindings = find(y, pattern, {"normal": normal, "x": x})
                if bindings is None or not normal.shape == y.shape == x.shape:
                    continue
                gamma, beta = bindings["gamma"], bindings["beta"]
                if are_columns(gamma, x, axes=1) and gamma.shape == beta.shape:
                    bindings = {**bindings, "epsilon": _epsilon(graph, op)}
                    return LayerNormForward(bindings, y, axes=1, stops=False), normal
    return None


def _epsilon(graph: FusionGraph, op: tf.Operation) -> tf.Tensor:
    """Creates the constant that a batch norm adds to variances."""
    value = tf.make_tensor_proto(op.get_attr("epsilon"), tf.float32)
    constant = graph.create(
        "Const",
        op,
        [],
        value=tf.compat.v1.AttrValue(tensor=value),
        dtype=tf.compat.v1.AttrValue(type=tf.float32.as_datatype_enum),
    )
    return constant.outputs[0]


def _gradients(
    graph: FusionGraph, norm: LayerNormForward, op: tf.Operation, normal: tf.Tensor
) -> Iterator[LayerNormGradient]:
    """Yields the gradients of a layer norm."""
    bindings = {"normal": normal, "gamma": norm.bindings["gamma"]}
    for product_with_gamma in graph.results_of(bindings["gamma"], "Mul"):
        with_dy = find(product_with_gamma, ("Mul", "dy", "gamma"), bindings)
        if with_dy is None or with_dy["dy"].shape != norm.y.shape:
            continue
        for dx in _input_gradients(graph, op, product_with_gamma):
            if dx.shape == norm.y.shape:
                dgamma = _dgamma(graph, norm, with_dy)
                yield LayerNormGradient(
                    with_dy["dy"], (), (dx, dgamma, row_sums(graph, with_dy["dy"], norm))
                )


def _input_gradients(
    graph: FusionGraph, op: tf.Operation, product_with_gamma: tf.Tensor
) -> Iterator[tf.Tensor]:
    """Yields what the gradient of a batch norm gives to the rows, as a reshaped tensor."""
    for rows in graph.results_of(product_with_gamma, "Reshape"):
        for gradient in graph.results_of(rows, "FusedBatchNormGradV3"):
            expected = [rows, *op.inputs[:2], *op.outputs[3:5]]
            if all(a is b for a, b in zip(gradient.op.inputs, expected, strict=False)):
                yield from graph.results_of(gradient, "Reshape")


def _dgamma(graph: FusionGraph, norm: LayerNormForward, bindings: Bindings) -> tf.Tensor | None:
    for product in graph.results_of(bindings["normal"], "Mul"):
        if find(product, ("Mul", "normal", "dy"), bindings) is not None:
            return row_sums(graph, product, norm)
    return None
