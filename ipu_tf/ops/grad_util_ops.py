"""Captures gradients inside a model, beside the gradients of the variables."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.base import call_path
from ipu_tf.internals.structures import TensorStructure

open_contexts: ContextVar[int] = ContextVar("ipu_tf.gradient_capture_contexts", default=0)
"""The number of open contexts that keep captured gradients."""

# Captured gradients wait on the graph of their program until its optimizer takes them; so they
# end with that graph and never reach another one.
_COLLECTION = "ipu_tf.captured_gradients"


@tf.autograph.experimental.do_not_convert
def capture_upstream_gradients(args: object, tag: str = "") -> TensorStructure:
    """Returns `args` unchanged, and captures the gradients that flow into them.

    Eager mode captures nothing: there is no program to capture from. In a Keras model the optimizer
    takes what is captured.

    Args:
        args: A tensor, or a structure of tensors.
        tag: Name under which the gradients are captured.

    Returns:
        Tensors of the structure, shapes and dtypes of `args`.

    Raises:
        RuntimeError: It is in a program without Keras, and no context keeps captured gradients.
    """
    if scopes.runs_on_ipu() and not open_contexts.get() and not call_path.current().path:
        raise RuntimeError(
            "capture_upstream_gradients may only be used within the context of a "
            "GradientCaptureTape or a GradientCaptureContext, which keeps the gradients: open one "
            f"of `ipu_tf.eager.backprop` around it. Received: tag={tag!r}."
        )

    @tf.custom_gradient
    def identity(*tensors: tf.Tensor) -> tuple[Any, Any]:
        def gradient(*upstream: tf.Tensor) -> Any:
            if tf.inside_function():
                graph = tf.compat.v1.get_default_graph()
                graph.add_to_collection(_COLLECTION, (tag, tuple(upstream)))
            return upstream if len(upstream) > 1 else upstream[0]

        outputs = tuple(tf.identity(tensor) for tensor in tensors)
        return outputs if len(outputs) > 1 else outputs[0], gradient

    outputs = identity(*tf.nest.flatten(args))
    return tf.nest.pack_sequence_as(args, tf.nest.flatten(outputs))


def take_captured_gradients() -> dict[str, list[tf.Tensor]]:
    """Returns the gradients captured in the program being traced since the last call, by tag.

    The gradients of one tag are in the order in which they flowed; a later use of a tag adds to
    the earlier ones. In eager mode there are none.
    """
    if not tf.inside_function():
        return {}
    captured = tf.compat.v1.get_default_graph().get_collection_ref(_COLLECTION)
    gradients: dict[str, list[tf.Tensor]] = {}
    for tag, upstream in captured:
        gradients.setdefault(tag, []).extend(upstream)
    captured.clear()
    return gradients
