"""The vendor's name for an optimizer that sums gradients over replicas, as all of Keras do here."""

from __future__ import annotations

from typing import TypeVar

from ipu_tf.internals.keras_choice import optimizer_classes

_OptimizerT = TypeVar("_OptimizerT")


class CrossReplicaOptimizer:
    """Is the optimizer that it is given: optimizers of Keras sum gradients over replicas.

    Args:
        opt: An optimizer of Keras 3 or tf_keras.
        name: Accepted without effect.

    Raises:
        TypeError: `opt` is not a Keras optimizer.
    """

    def __new__(cls, opt: _OptimizerT, name: str = "CrossReplicaOptimizer") -> _OptimizerT:  # type: ignore[misc] # Not its own class.
        """Returns the optimizer."""
        del name
        if not isinstance(opt, optimizer_classes()):
            raise TypeError(
                "CrossReplicaOptimizer of Keras: `opt` must be a Keras optimizer; for those of "
                "TensorFlow there is ipu_tf.optimizers.CrossReplicaOptimizer. "
                f"Received: {opt!r} of type {type(opt).__name__}."
            )
        return opt
