"""Functions of neural networks, by the vendor's names, and its CTC losses and decoders."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.ops.functions.candidate_losses import nce_loss, sampled_softmax_loss
from ipu_tf.ops.functions.ctc_ops import (
    ctc_beam_search_decoder,
    ctc_beam_search_decoder_with_log_probs,
    ctc_loss_v2,
    ctc_loss_with_log_probs,
)

__all__ = [
    "ctc_beam_search_decoder",
    "ctc_beam_search_decoder_with_log_probs",
    "ctc_loss_v2",
    "ctc_loss_with_log_probs",
    "gelu",
    "hard_sigmoid",
    "multi_conv",
    "nce_loss",
    "sampled_softmax_loss",
    "softmax",
    "swish",
]


_CONVOLUTIONS = ("Conv2D", "Conv3D", "DepthwiseConv2dNative")


def gelu(x: tf.Tensor, approximate: bool = True, name: str | None = None) -> tf.Tensor:
    """Returns x times the share of a normal distribution below x (Hendrycks, Gimpel, 2016).

    Args:
        x: A float tensor.
        approximate: Whether the share is approximated with tanh.
        name: Name of the operation.
    """
    return tf.nn.gelu(tf.convert_to_tensor(x), approximate=approximate, name=name)


def hard_sigmoid(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns 0.2 x + 0.5, at least 0 and at most 1."""
    x = tf.convert_to_tensor(x)
    with tf.name_scope(name or "hard_sigmoid"):
        return tf.clip_by_value(x * 0.2 + 0.5, 0, 1)


def swish(x: tf.Tensor, name: str | None = None) -> tf.Tensor:
    """Returns x times its sigmoid."""
    with tf.name_scope(name or "swish"):
        return tf.nn.silu(tf.convert_to_tensor(x))


def softmax(x: tf.Tensor, stable: bool = False, name: str | None = None) -> tf.Tensor:
    """Returns the softmax over the last axis.

    Args:
        x: A float tensor.
        stable: Accepted; the largest value is always subtracted first, as the stable form does.
        name: Name of the operation.
    """
    return tf.nn.softmax(tf.convert_to_tensor(x), name=name)


def multi_conv(
    func: Callable[..., object] | None = None, options: Mapping[str, str] | None = None
) -> Callable[..., object]:
    """Marks a function whose convolutions do not depend on each other; a decorator.

    The machine may run them side by side. Here they run, and are charged, one after the other.

    Args:
        func: The function; None returns a decorator with the options.
        options: Options of the convolutions, by the names of the machine's library; accepted
            without effect.

    Raises:
        TypeError: `options` does not map strings to strings.
        tf.errors.FailedPreconditionError: A convolution reads the result of another one, when the
            function is traced.
    """
    if options is not None and not (
        isinstance(options, Mapping)
        and all(isinstance(part, str) for item in options.items() for part in item)
    ):
        raise TypeError(
            "multi_conv: `options` must map names of options to their values, both strings. "
            f"Received: {options!r}."
        )
    if func is None:
        return functools.partial(multi_conv, options=options)

    @functools.wraps(func)
    def marked(*args: Any, **kwargs: Any) -> Any:
        with tf.name_scope("multi_conv"):
            if tf.executing_eagerly():
                return func(*args, **kwargs)
            graph = tf.compat.v1.get_default_graph()
            begin = len(graph.get_operations())
            results = func(*args, **kwargs)
            _check_independent(graph.get_operations()[begin:])
            return results

    return marked


def _check_independent(operations: Sequence[tf.Operation]) -> None:
    """Checks that no convolution of a function depends on another one."""
    depends_on: dict[str, str] = {}  # The convolution before each operation, itself included.
    for operation in operations:  # In order of creation: inputs come first.
        before = {depends_on.get(tensor.op.name, "") for tensor in operation.inputs} - {""}
        is_convolution = operation.type.removeprefix("Ipu") in _CONVOLUTIONS
        if is_convolution and before:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                "multi_conv: the convolutions of a function must not depend on each other. "
                f"Received: '{operation.name}' reads the result of '{before.pop()}'. Call them "
                "in functions of their own.",
            )
        if is_convolution:
            depends_on[operation.name] = operation.name
        elif before:
            depends_on[operation.name] = before.pop()
