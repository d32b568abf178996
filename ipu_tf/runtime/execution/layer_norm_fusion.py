"""Fuses the ops of layer normalization, forward and backward.

TensorFlow normalizes each row by a chain of some ten ops, and derives twice as many for the
gradient; half of them read or write a tensor as large as the rows. Fused, both are one pass over
the rows. The ops are known by their arithmetic, as Keras, tf_keras and `tf.nn` write it. Where
anything else reads what happens between, it stays as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import tensorflow as tf

from ipu_tf.runtime.execution.fusion_graph import FusionGraph
from ipu_tf.runtime.execution.op_patterns import Bindings, Pattern, find

_SQUARES = ("SquaredDifference", "x", ("StopGradient", "mean"))
_INVERSE = ("Rsqrt", ("AddV2", ("Mean", _SQUARES, "variance_axes"), "epsilon"))
_MEAN = ("Mean", "x", "mean_axes")
_DISTANCE = ("Sub", "x", ("StopGradient", "mean"))


class _Form(NamedTuple):
    """One way to write a layer norm.

    Attributes:
        y: Its result; `slope` is `inverse * gamma`.
        of_mean: The gradient of its mean.
        distances: The gradient of `slope`, `dy * (x - mean)`.
    """

    y: Pattern
    of_mean: Pattern
    distances: Pattern


def _form(offset: Pattern, of_mean: Pattern, by_mean: Pattern) -> _Form:
    distances = ("AddN", ("Mul", "dy", "x"), by_mean)
    return _Form(("AddV2", ("Mul", "x", "slope"), offset), of_mean, distances)


_FORMS = (
    # Of Keras.
    _form(
        ("AddV2", ("Mul", ("Neg", "mean"), "slope"), "beta"),
        ("Neg", ("Reshape", ("Sum", ("Mul", "dy", "slope"), "of_mean_axes"))),
        ("Mul", ("Neg", "mean"), "dy"),
    ),
    # Of `tf.nn.batch_normalization`.
    _form(
        ("Sub", "beta", ("Mul", "mean", "slope")),
        ("Reshape", ("Sum", ("Mul", ("Neg", "dy"), "slope"), "of_mean_axes")),
        ("Mul", "mean", ("Neg", "dy")),
    ),
)


class LayerNormForward(NamedTuple):
    """A layer norm.

    Attributes:
        bindings: Its tensors, by their names in patterns.
        y: Its result.
        axes: How many last dimensions of x are columns; the others are rows.
        stops: Whether gradients of its gradients take the mean in deviations for a constant.
    """

    bindings: Bindings
    y: tf.Tensor
    axes: int
    stops: bool = True


class LayerNormGradient(NamedTuple):
    """A gradient of a layer norm: its inputs, and its results, None for those not computed."""

    dy: tf.Tensor
    terms: Sequence[tf.Tensor]
    results: Sequence[tf.Tensor | None]


def fuse_layer_norm(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a layer norm, and its gradients.

    Args:
        graph: The graph.
        op: An op of type Rsqrt.
    """
    match = _layer_norm(graph, op)
    if match is not None:
        norm, form = match
        join(graph, norm, list(_gradients(graph, norm, form)))


def join(
    graph: FusionGraph, norm: LayerNormForward, gradients: Sequence[LayerNormGradient]
) -> None:
    """Puts a joined op in the place of a layer norm, and one in that of each gradient.

    Nothing changes if others read what happens between.

    Args:
        graph: The graph.
        norm: The layer norm.
        gradients: All its gradients.
    """
    x, gamma, beta, epsilon = (norm.bindings[name] for name in ("x", "gamma", "beta", "epsilon"))
    operands, results = [x, gamma, beta, epsilon], [norm.y]
    for gradient in gradients:
        operands += [gradient.dy, *gradient.terms]
        results += [tensor for tensor in gradient.results if tensor is not None]
    if not graph.is_closed(operands, results):
        return
    attributes = {
        "axes": tf.compat.v1.AttrValue(i=norm.axes),
        "stops": tf.compat.v1.AttrValue(b=norm.stops),
    }
    moments = norm.bindings.get("mean"), norm.bindings.get("inverse")
    norm_op = graph.fuse(
        (norm.y, *moments), "IpuLayerNorm", norm.y.op, [x, gamma, beta, epsilon], **attributes
    )
    for gradient in gradients:
        graph.fuse(
            gradient.results,
            "IpuLayerNormGrad",
            norm.y.op,
            [x, gradient.dy, gamma, *norm_op.outputs[1:], *gradient.terms],
            N=tf.compat.v1.AttrValue(i=len(gradient.terms)),
            **attributes,
            rank=tf.compat.v1.AttrValue(i=x.shape.rank),
        )


def _layer_norm(graph: FusionGraph, op: tf.Operation) -> tuple[LayerNormForward, _Form] | None:
    """Returns the layer norm whose inverse deviation an op computes, and how it is written."""
    inverse = op.outputs[0]
    bindings = find(inverse, _INVERSE, {"inverse": inverse})
    bindings = None if bindings is None else find(bindings["mean"], _MEAN, bindings)
    axes = 0 if bindings is None else _normalized_axes(bindings)
    if bindings is None or not axes:
        return None
    for slope in graph.results_of(inverse, "Mul"):
        slope_bindings = find(slope, ("Mul", "inverse", "gamma"), {**bindings, "slope": slope})
        if slope_bindings is None or not are_columns(slope_bindings["gamma"], slope, axes):
            continue
        for product in graph.results_of(slope, "Mul"):
            for y, form in itertools.product(graph.results_of(product, "AddV2"), _FORMS):
                parts = find(y, form.y, slope_bindings)
                if parts is not None and parts["beta"].shape == parts["gamma"].shape:
                    return LayerNormForward(parts, y, axes), form
    return None


def _gradients(
    graph: FusionGraph, norm: LayerNormForward, form: _Form
) -> Iterator[LayerNormGradient]:
    """Yields the gradients of a layer norm."""
    slope = norm.bindings["slope"]
    products = graph.results_of(slope, "Mul")
    causes = {id(value): value for product in products for value in product.op.inputs}
    for dy in causes.values():
        if dy is not slope and dy.shape == slope.shape:
            gradient = _gradient(graph, norm._replace(bindings={**norm.bindings, "dy": dy}), form)
            if gradient is not None:
                yield gradient


def _gradient(graph: FusionGraph, norm: LayerNormForward, form: _Form) -> LayerNormGradient | None:
    """Returns the gradient of a layer norm that `dy` causes."""
    dy = norm.bindings["dy"]
    for by_values in graph.results_of(dy, "Mul"):
        for dx in graph.results_of(by_values, "AddN"):
            terms = list(dx.op.inputs)
            other_terms = [term for term in terms if not _is_term(term, norm, form)]
            if len(terms) - len(other_terms) == _TERMS:
                results = (dx, _dgamma(graph, norm, form), row_sums(graph, dy, norm))
                is_early = all(graph.is_before(term, results) for term in other_terms)
                return LayerNormGradient(dy, other_terms, results) if is_early else None
    return None


_TERMS = 3
"""The parts of the gradient of x: by its values, by their mean, by their variance."""


def _is_term(term: tf.Tensor, norm: LayerNormForward, form: _Form) -> bool:
    """Returns whether a tensor is a part of the gradient of x that the norm causes."""
    bindings = norm.bindings
    if find(term, ("Mul", "dy", "slope"), bindings) is not None:
        return True
    of_mean = _spread(term, bindings)
    if of_mean is not None:
        parts = find(of_mean, form.of_mean, bindings)
        return parts is not None and _sums_columns(parts["of_mean_axes"], norm)
    parts = find(term, ("Mul", ("Mul", 2.0, "of_variance"), _DISTANCE), bindings)
    of_variance = None if parts is None else _spread(parts["of_variance"], bindings)
    if of_variance is None:
        return False
    sums = ("Sum", ("Mul", form.distances, "gamma"), "of_inverse_axes")
    parts = find(of_variance, ("RsqrtGrad", "inverse", ("Reshape", sums)), bindings)
    return parts is not None and _sums_columns(parts["of_inverse_axes"], norm)


def _spread(tensor: tf.Tensor, bindings: Bindings) -> tf.Tensor | None:
    """Returns what the gradient of a mean of columns gives to each of them, before the division."""
    x, mean = bindings["x"], bindings["mean"]
    columns = x.shape.num_elements() / mean.shape.num_elements()
    parts = find(tensor, ("RealDiv", "tiled", columns), bindings)
    if parts is None or parts["tiled"].op.type not in {"Tile", "BroadcastTo"}:
        return None
    rows = parts["tiled"].op.inputs[0]
    fits = rows.op.type == "Reshape" and rows.shape == mean.shape and tensor.shape == x.shape
    return rows.op.inputs[0] if fits else None


def _dgamma(graph: FusionGraph, norm: LayerNormForward, form: _Form) -> tf.Tensor | None:
    for product in graph.results_of(norm.bindings["inverse"], "Mul"):
        if find(product, ("Mul", "inverse", form.distances), norm.bindings) is not None:
            return row_sums(graph, product, norm)
    return None


def row_sums(graph: FusionGraph, tensor: tf.Tensor, norm: LayerNormForward) -> tf.Tensor | None:
    """Returns the sums of a tensor's rows in the shape of gamma, None if there are none."""
    rows, _ = _long_axes(norm)
    for total in graph.results_of(tensor, "Sum"):
        if total.op.inputs[0] is tensor and _summed_axes(total.op.inputs[1], norm) == rows:
            for result in graph.results_of(total, "Reshape"):
                if result.shape == norm.bindings["gamma"].shape:
                    return result
    return None


def _sums_columns(axes: tf.Tensor, norm: LayerNormForward) -> bool:
    return _summed_axes(axes, norm) == _long_axes(norm)[1]


def _long_axes(norm: LayerNormForward) -> tuple[set[int], set[int]]:
    """Returns the axes of rows and those of columns that have more than one element."""
    shape = norm.bindings["x"].shape
    first = shape.rank - norm.axes
    long = {axis for axis, size in enumerate(shape) if size > 1}
    return {axis for axis in long if axis < first}, {axis for axis in long if axis >= first}


def _summed_axes(axes: tf.Tensor, norm: LayerNormForward) -> set[int] | None:
    """Returns those of more than one element that a sum adds up, None if they are not known."""
    value, shape = tf.get_static_value(axes), norm.bindings["x"].shape
    if value is None:
        return None
    return {axis for axis in (value % shape.rank).reshape(-1).tolist() if shape[axis] > 1}


def _normalized_axes(bindings: Bindings) -> int:
    """Returns how many last dimensions a norm reduces; 0 if it reduces others, or is not known."""
    x, mean = bindings["x"], bindings["mean"]
    is_known = x.dtype == tf.float32 and x.shape.is_fully_defined() and x.shape.num_elements() > 0
    values = [tf.get_static_value(bindings[name]) for name in ("mean_axes", "variance_axes")]
    if (
        not is_known
        or any(value is None for value in values)
        or bindings["epsilon"].shape.rank != 0
    ):
        return 0
    rank = x.shape.rank
    first, second = ({axis % rank for axis in value.reshape(-1).tolist()} for value in values)
    moments = [*x.shape[: rank - len(first)], *[1] * len(first)]
    is_last = first == second == set(range(rank - len(first), rank))
    return len(first) if is_last and moments == mean.shape == bindings["inverse"].shape else 0


def are_columns(gamma: tf.Tensor, x: tf.Tensor, axes: int) -> bool:
    """Returns whether a tensor has one value for each column of `x`."""
    shape = gamma.shape.as_list()
    leading = shape[:-axes]
    return shape[-axes:] == x.shape[-axes:].as_list() and leading == [1] * len(leading)
