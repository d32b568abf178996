"""What the optimizer function of a pipeline returns: an optimizer, a loss, and the variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import keras
import tensorflow as tf

from ipu_tf.feeds.outfeed_queue import IPUOutfeedQueue
from ipu_tf.internals.keras_choice import optimizer_classes

V1Optimizer = tf.compat.v1.train.Optimizer


@dataclass(frozen=True)
class OptimizerFunctionOutput:
    """The optimizer and the loss of a pipeline, as its optimizer function returns them.

    Attributes:
        opt: An optimizer of Keras 3 or tf_keras, or one of TensorFlow 1.
        loss: The loss of a micro-batch.
        compute_gradients_args: Further arguments of a TensorFlow 1 optimizer's `compute_gradients`.
        compute_gradients_kwargs: The same by name.
        apply_gradients_args: Further arguments of `apply_gradients`.
        apply_gradients_kwargs: The same by name.
        variables: The variables that a Keras optimizer updates.
        tape: A tape that has watched these variables, in place of `variables`.
        gradient_capture_context: The context that captures gradients for the optimizer.
        captured_gradient_outfeed: The outfeed that takes the captured gradients.

    Raises:
        TypeError: `opt` is no optimizer, or an outfeed or a tape is of another type.
        ValueError: Arguments do not suit the kind of optimizer, or exclude each other.
    """

    opt: keras.optimizers.Optimizer | tf.compat.v1.train.Optimizer
    loss: tf.Tensor
    compute_gradients_args: Sequence[object] | None = None
    compute_gradients_kwargs: Mapping[str, object] | None = None
    apply_gradients_args: Sequence[object] | None = None
    apply_gradients_kwargs: Mapping[str, object] | None = None
    variables: Sequence[tf.Variable] | None = None
    tape: tf.GradientTape | None = None
    gradient_capture_context: object = None
    captured_gradient_outfeed: IPUOutfeedQueue | None = None
    is_of_keras: bool = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.opt, (V1Optimizer, *optimizer_classes())):
            raise TypeError(
                "OptimizerFunctionOutput.opt must be a Keras optimizer or a tf.compat.v1.train."
                f"Optimizer. Received: {self.opt!r} of type {type(self.opt).__name__}."
            )
        object.__setattr__(self, "is_of_keras", not isinstance(self.opt, V1Optimizer))
        self._check_kind()
        if self.tape is not None and not isinstance(self.tape, tf.GradientTape):
            raise TypeError(
                f"OptimizerFunctionOutput.tape must be a tf.GradientTape. Received: {self.tape!r}."
            )
        for one, other in (("variables", "tape"), ("tape", "gradient_capture_context")):
            if getattr(self, one) is not None and getattr(self, other) is not None:
                raise ValueError(
                    f"OptimizerFunctionOutput takes either `{one}` or `{other}`. Received both."
                )
        for name, empty in (
            ("compute_gradients_args", ()),
            ("compute_gradients_kwargs", {}),
            ("apply_gradients_args", ()),
            ("apply_gradients_kwargs", {}),
        ):
            if getattr(self, name) is None:
                object.__setattr__(self, name, empty)

    def _check_kind(self) -> None:
        """Checks that each argument suits the kind of the optimizer."""
        unsuited = (
            ("compute_gradients_args", "compute_gradients_kwargs")
            if self.is_of_keras
            else ("variables", "tape")
        )
        for name in unsuited:
            if getattr(self, name):
                kind = "TensorFlow 1" if self.is_of_keras else "Keras"
                raise ValueError(
                    f"OptimizerFunctionOutput.{name} may only be used with an optimizer of {kind}. "
                    f"Received: opt={self.opt!r}."
                )
