"""Sums gradients, and counts captured gradients, over the micro-batches of a weight update."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.internals.structures import Gradient
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.replication.instance_sums import over_instances, tree_sum
from ipu_tf.keras.replication.replicas import Replicas
from ipu_tf.ops import grad_util_ops

_Present: TypeAlias = tf.Tensor | tf.IndexedSlices


class GradientAccumulator:
    """Sums the gradients of the micro-batches of all replicas for one weight update.

    The reduction method applies to the micro-batches of one replica; replicas are summed, unless
    `experimental_normalize_gradients` divides by their number. Each replica, or group of replicas
    that runs as one batch, has sums of its own, and a balanced tree sums these. Where the bits are
    the same, neighbours, or all replicas of a process, share one sum.

    Args:
        variables: The trainable variables.
        options: How gradients are reduced, and the type of the sums.
        replicas: How the model is replicated.
        name: What is summed, for errors.

    Attributes:
        program: The fingerprint of the program that adds to the sums, "" where it is not known.
    """

    def __init__(
        self,
        variables: Sequence[tf.Variable],
        options: GradientAccumulationOptions,
        replicas: Replicas | None = None,
        name: str = "gradients",
    ) -> None:
        self._options = options
        self._replicas = replicas = replicas or Replicas()
        self._name = name
        self.program = ""
        self._factor = options.scale(replicas.total)
        self._sharing = _groups_of_a_sum(options.steps_per_replica, replicas)
        sums = -(-replicas.groups // self._sharing)
        self._are_apart = sums > 1
        sum_axis = [sums] if self._are_apart else []
        self._sums = [
            tf.Variable(
                # A function, so that an estimate makes the sums without their values.
                functools.partial(
                    tf.zeros, [*sum_axis, *variable.shape], options.dtype_of(variable)
                ),
                trainable=False,
                # Not the variable's own name: reports count that as work of the variable's layer.
                name=f"{variable.name.rpartition(':')[0] or variable.name}_gradient_accumulator",
            )
            for variable in variables
        ]
        self._present = [False] * len(self._sums)

    @property
    def sums(self) -> tuple[tf.Variable, ...]:
        """The sums, one for each variable, with a first axis where not all replicas share one."""
        return tuple(self._sums)

    def reset(self) -> None:
        """Sets the sums to zero."""
        for total in self._sums:
            total.assign(tf.zeros_like(total))

    def add(self, gradients: Sequence[Gradient], step: tf.Tensor, group: tf.Tensor) -> None:
        """Adds the gradients of one micro-batch.

        Args:
            gradients: One for each variable, None if the loss does not depend on the variable.
            step: int32 scalar, number of the micro-batch within its replica's update, from 0.
            group: int32 scalar, number of the replica or of its group in this process.
        """
        row = group // self._sharing if self._are_apart else group
        for index, (total, gradient) in enumerate(zip(self._sums, gradients, strict=True)):
            if gradient is None:
                continue
            self._present[index] = True
            self._add(total, gradient, step, row)

    def join(self) -> None:
        """Sums the sums of all replicas, those of other instances as well.

        It runs on the host, between the programs that add and the one that takes the gradients.
        """
        here = self._replicas
        are_several = here.total > here.count
        if not self._are_apart and not are_several:
            return
        totals = [
            total for total, present in zip(self._sums, self._present, strict=True) if present
        ]
        # float16 values are added up in float32 and rounded once.
        values = [tf.cast(total, tf.float32) for total in totals]
        if not are_several:
            sums = [tree_sum(value) for value in values]
        else:
            # Replicas that share a sum are a node of the tree, as one replica is.
            sums = over_instances(
                values if self._are_apart else [value[tf.newaxis] for value in values],
                first=here.first_group // self._sharing,
                count=here.groups // self._sharing,
                group=here.all_groups // self._sharing,
                span=here.span,
                name=self._name,
                program=self.program,
            )
        for total, value in zip(totals, sums, strict=True):
            value = tf.cast(value, total.dtype)
            if self._are_apart:
                total.scatter_update(tf.IndexedSlices(value[tf.newaxis], tf.constant([0])))
            else:
                total.assign(value)

    def _add(self, total: tf.Variable, gradient: _Present, step: tf.Tensor, row: tf.Tensor) -> None:
        method = self._options.reduction_method
        gradient = _cast(gradient, total.dtype)
        if method is Method.RUNNING_MEAN:
            count = tf.cast(step, tf.float32)
            weight = 1.0 / (count + 1.0)
            if self._options.steps_per_replica > 1:
                self._multiply(total, count * weight, row)
            gradient = _scale(gradient, weight)
        elif method is Method.MEAN or self._factor != 1:
            gradient = _scale(gradient, tf.constant(self._factor))
        if isinstance(gradient, tf.IndexedSlices):
            self._add_rows(total, gradient, row)
        elif self._are_apart:
            total.scatter_add(tf.IndexedSlices(gradient[tf.newaxis], row[tf.newaxis]))
        else:
            total.assign_add(gradient)

    def _multiply(self, total: tf.Variable, factor: tf.Tensor, row: tf.Tensor) -> None:
        factor = tf.cast(factor, total.dtype)
        if self._are_apart:
            product = tf.gather(total, row) * factor
            total.scatter_update(tf.IndexedSlices(product[tf.newaxis], row[tf.newaxis]))
        else:
            total.assign(total * factor)

    def _add_rows(self, total: tf.Variable, gradient: tf.IndexedSlices, row: tf.Tensor) -> None:
        if not self._are_apart:
            total.scatter_add(gradient)
            return
        rows = tf.fill(tf.shape(gradient.indices), tf.cast(row, gradient.indices.dtype))
        total.scatter_nd_add(tf.stack([rows, gradient.indices], axis=-1), gradient.values)

    def gradients(self) -> list[tf.Tensor | None]:
        """Returns the joined gradients in the types of their sums, None where there are none."""
        return [
            (tf.gather(total, 0) if self._are_apart else tf.convert_to_tensor(total))
            if present
            else None
            for total, present in zip(self._sums, self._present, strict=True)
        ]


class CapturedGradientCounts:
    """Sums an optimizer's counts of captured gradients over the micro-batches of an update.

    The captured gradients themselves do not outlive the program of their micro-batch.

    Args:
        optimizer: An optimizer that counts captured gradients, such as `ALSOptimizer`.
    """

    def __init__(self, optimizer: object) -> None:
        self._optimizer: Any = optimizer
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
        gradients = grad_util_ops.take_captured_gradients()
        if gradients and not hasattr(self._optimizer, "count_captured"):
            raise NotImplementedError(
                f"{type(self._optimizer).__name__} takes captured gradients, which do not outlive "
                "the program of their micro-batch. Train without gradient accumulation, "
                "replicas and stages, or with an ALSOptimizer, which counts them. Received: "
                f"gradients captured as {', '.join(gradients)}."
            )
        if gradients:
            self._present = True
            self._counts.assign_add(self._optimizer.count_captured(gradients))

    def arguments(self) -> dict[str, tf.Tensor]:
        """Returns the further arguments of the optimizer's `apply_gradients`."""
        return {"captured_counts": tf.convert_to_tensor(self._counts)} if self._present else {}


def _groups_of_a_sum(steps: int, replicas: Replicas) -> int:
    """Returns how many groups one after the other add to one sum in the order of the tree."""
    groups = replicas.groups
    if steps > 1 or groups == 1:
        return 1
    if replicas.total == replicas.count:
        return 3 if groups == 3 else 2  # A tree over three begins with 0 and 1, too.
    return 1 if groups % 2 else 2  # Else the pairs of other instances begin elsewhere.


def _cast(gradient: _Present, dtype: tf.DType) -> _Present:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            tf.cast(gradient.values, dtype), gradient.indices, gradient.dense_shape
        )
    return tf.cast(gradient, dtype)


def _scale(gradient: _Present, factor: tf.Tensor) -> _Present:
    if isinstance(gradient, tf.IndexedSlices):
        scaled = gradient.values * tf.cast(factor, gradient.values.dtype)
        return tf.IndexedSlices(scaled, gradient.indices, gradient.dense_shape)
    return gradient * tf.cast(factor, gradient.dtype)
