"""What to do about a value that is not finite, by the operation that made it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ipu_tf.programs.op_names import LOSS, is_gradient

_LARGEST_FLOAT16 = 65504
_LARGE = 1e4
"""Operands of products from this size on are taken for weights or values that diverge."""

_OF_LOSS = "compute the loss in float32, such as by `dtype='float32'` of the last layer"
_SMALLER_STEPS = (
    "lower the learning rate, or clip the gradients (`clipnorm` or `global_clipnorm` of the "
    "optimizer)"
)
_AWAY_FROM_ZERO = (
    "keep what it divides by away from 0: add an epsilon, as norms do, or use "
    "`tf.math.divide_no_nan`; in float16 an epsilon below 6e-8 is 0"
)
_LOGARITHM = (
    "keep its operand above 0, such as by `keras.ops.maximum(x, keras.config.epsilon())`; for "
    "losses of probabilities take `from_logits=True`"
)
_ROOT = "keep its operand at or above 0, such as by `keras.ops.maximum(x, 0.0)`"
_ROOT_GRADIENT = "add an epsilon under the root: its gradient is infinite at 0"
_MASK = (
    "mask with a large negative number, such as -3e4, in place of -inf, so that no row consists of "
    "infinities"
)
_EXPONENTIAL = "subtract the largest value first, or clip its operand"
_DIFFERENCE = (
    "infinities minus infinities and infinities times 0 are NaN: look for what made its operands "
    "infinite"
)
_RANGE = "clip its operand to the range in which it is defined"

_UNDEFINED: Mapping[str, str] = MappingProxyType(
    {
        "Log": _LOGARITHM, "Log1p": _LOGARITHM, "Xlogy": _LOGARITHM, "Xlog1py": _LOGARITHM,
        "Sqrt": _ROOT, "Rsqrt": _AWAY_FROM_ZERO, "SqrtGrad": _ROOT_GRADIENT,
        "RsqrtGrad": _ROOT_GRADIENT, "RealDiv": _AWAY_FROM_ZERO, "Div": _AWAY_FROM_ZERO,
        "Reciprocal": _AWAY_FROM_ZERO, "Inv": _AWAY_FROM_ZERO, "Xdivy": _AWAY_FROM_ZERO,
        "FloorDiv": _AWAY_FROM_ZERO, "TruncateDiv": _AWAY_FROM_ZERO,
        "Softmax": _MASK, "LogSoftmax": _MASK, "Sub": _DIFFERENCE, "AddV2": _DIFFERENCE,
        "Add": _DIFFERENCE, "AddN": _DIFFERENCE, "Sum": _DIFFERENCE, "Mean": _DIFFERENCE,
        "Acos": _RANGE, "Asin": _RANGE, "Acosh": _RANGE, "Atanh": _RANGE, "Pow": _RANGE,
    }
)  # fmt: skip
"""Ways out by the type of an operation that is not defined for its operands, or divides by 0."""

_EXPONENTIALS = frozenset({"Exp", "Expm1", "Sinh", "Cosh"})
_SQUARES = frozenset({"Square", "SquaredDifference", "Sum", "Mean", "Prod", "Cumsum", "L2Loss"})


def advice(
    fault: str,
    *,
    op: str,
    op_type: str,
    layer: str,
    dtype: str,
    largest: float,
    infinities: bool,
) -> str:
    """Returns what to do, as one clause.

    Args:
        fault: What happened, as `NonFinite.fault` has it.
        op: Name of the operation.
        op_type: Its TensorFlow type.
        layer: Path of its layer.
        dtype: Type of its first result.
        largest: The largest size of the finite values that it read.
        infinities: Whether it read infinities.
    """
    if fault == "from outside":
        return (
            "look at the data of this run and at the initial weights, such as by "
            "`tf.debugging.check_numerics`"
        )
    is_float16 = dtype == "float16"
    if fault != "overflow" and op_type in _UNDEFINED:
        return _UNDEFINED[op_type]
    if infinities:
        return _DIFFERENCE
    if is_float16 and is_gradient(op):
        return "lower the loss scale, or compute this layer in float32"
    if is_float16 and layer == LOSS:
        return _OF_LOSS
    if op_type in _EXPONENTIALS:
        return _EXPONENTIAL
    if is_float16 and (op_type == "Cast" or op_type in _SQUARES):
        return f"hold it in float32: the largest float16 is {_LARGEST_FLOAT16:,}"
    if op_type in ("SqrtGrad", "RsqrtGrad"):
        return _ROOT_GRADIENT
    if largest >= _LARGE or not is_float16:
        return f"its operands grew too large: {_SMALLER_STEPS}"
    return f"compute this layer in float32: the largest float16 is {_LARGEST_FLOAT16:,}"
