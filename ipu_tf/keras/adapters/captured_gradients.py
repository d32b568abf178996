"""The captured gradients that a step hands to an optimizer."""

from __future__ import annotations

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops import grad_util_ops


def captured_for(optimizer: object) -> dict[str, TensorStructure]:
    """Returns arguments of `apply_gradients`: what was captured, for a script's optimizer.

    Args:
        optimizer: An optimizer of any Keras. It takes captured gradients if it says so by
            `supports_captured_grads`; ours takes them itself, and counts them.
    """
    takes_them = getattr(optimizer, "supports_captured_grads", False)
    if not takes_them or hasattr(optimizer, "count_captured"):
        return {}
    captured = grad_util_ops.take_captured_gradients()
    return {"captured_grads": captured} if captured else {}
