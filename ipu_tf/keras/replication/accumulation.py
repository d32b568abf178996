"""Sums gradients, and counts captured gradients, over the micro-batches of a weight update."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.ops import grad_util_ops


class GradientAccumulator:
    """Sums the gradients of the micro-batches of all replicas for one weight update.

    The reduction method applies to the micro-batches of one replica; replicas are summed, unless
    `experimental_normalize_gradients` divides by their number. So each micro-batch is added
    straight to one sum that all replicas share.

    Args:
        variables: The trainable variables.
        options: How gradients are reduced, and the type of the sums.
        replicas: Number of replicas.
    """

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        options: GradientAccumulationOptions,
        replicas: int = 1,
    ) -> None:
        self._options = options
        self._factor = options.scale(replicas)
        self._sums = [
            tf.Variable(
                # A function, so that an estimate makes the sums without their values.
                functools.partial(tf.zeros, variable.shape, options.dtype_of(variable)),
                trainable=False,
                # Not the variable's own name: reports count that as work of the variable's layer.
                name=f"{variable.name.rpartition(':')[0] or variable.name}_gradient_accumulator",
            )
            for variable in variables
        ]
        self._present = [False] * len(self._sums)

    @property
    def sums(self) -> tuple[tf.Variable, ...]:
        """The sums, one for each variable."""
        return tuple(self._sums)

    def reset(self) -> None:
        """Sets the sums to zero."""
        for total in self._sums:
            total.assign(tf.zeros_like(total))

    def add(self, gradients: Sequence[Any], step: tf.Tensor, *, new_step: tf.Tensor | bool) -> None:
        """Adds the gradients of one micro-batch.

        Args:
            gradients: One for each variable, None if the loss does not depend on the variable.
            step: int32 scalar, number of the micro-batch within its replica's update, from 0.
            new_step: Whether no replica has added micro-batch `step` yet.
        """
        for index, (total, gradient) in enumerate(zip(self._sums, gradients, strict=True)):
            if gradient is None:
                continue
            self._present[index] = True
            self._add(total, gradient, step, new_step)

    def _add(
        self, total: tf.Variable, gradient: Any, step: tf.Tensor, new_step: tf.Tensor | bool
    ) -> None:
        method = self._options.reduction_method
        gradient = _cast(gradient, total.dtype)
        if method is Method.RUNNING_MEAN:
            count = tf.cast(step, tf.float32)
            weight = 1.0 / (count + 1.0)
            kept = tf.where(new_step, count * weight, 1.0)
            total.assign(total * tf.cast(kept, total.dtype))
            gradient = _scale(gradient, weight)
        elif method is Method.MEAN or self._factor != 1:
            gradient = _scale(gradient, tf.constant(self._factor))
        if isinstance(gradient, tf.IndexedSlices):
            total.scatter_add(gradient)
        else:
            total.assign_add(gradient)

    def gradients(self) -> list[tf.Tensor | None]:
        """Returns the reduced gradients in the types of their sums, None where there are none."""
        return [
            tf.convert_to_tensor(total) if present else None
            for total, present in zip(self._sums, self._present, strict=True)
        ]


class CapturedGradientCounts:
    """Sums an optimizer's counts of captured gradients over the micro-batches of an update.

    The captured gradients themselves do not outlive the program of their micro-batch.

    Args:
        optimizer: An optimizer that counts captured gradients, such as `ALSOptimizer`.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer
        self._counts = tf.Variable(tf.zeros((2,)), trainable=False, name="captured_gradient_counts")
        self._present = False

    def reset(self) -> None:
        """Sets the counts to zero."""
        self._counts.assign(tf.zeros_like(self._counts))

    def add(self) -> None:
        """Counts the gradients that were captured in the program being traced.

        Raises:
            NotImplementedError: The optimizer takes the gradients themselves.
        """
        captured = grad_util_ops.take_captured_gradients()
        if captured and not hasattr(self._optimizer, "count_captured"):
            raise NotImplementedError(
                f"Optimizer '{self._optimizer.name}' takes captured gradients, which do not "
                "outlive the program of their micro-batch. Train without gradient accumulation, "
                "replicas and stages, or with an ALSOptimizer, which counts them. Received: "
                f"gradients captured as {', '.join(captured)}."
            )
        if captured:
            self._present = True
            self._counts.assign_add(self._optimizer.count_captured(captured))

    def arguments(self) -> dict[str, tf.Tensor]:
        """Returns the further arguments of the optimizer's `apply_gradients`."""
        return {"captured_counts": tf.convert_to_tensor(self._counts)} if self._present else {}


def _cast(gradient: Any, dtype: tf.DType) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            tf.cast(gradient.values, dtype), gradient.indices, gradient.dense_shape
        )
    return tf.cast(gradient, dtype)


def _scale(gradient: Any, factor: tf.Tensor) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        scaled = gradient.values * tf.cast(factor, gradient.values.dtype)
        return tf.IndexedSlices(scaled, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
