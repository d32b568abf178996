"""Sums gradients, and counts captured gradients, over the micro-batches of a weight update."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, TypeAlias

import tensorflow as tf

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.internals.structures import Gradient
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.replication.instance_sums import over_instances
from ipu_tf.keras.replication.replicas import Replicas
from ipu_tf.ops import grad_util_ops
from ipu_tf.ops.kernels import library

Carry: TypeAlias = tuple[tf.TensorArray, ...]
"""The sums of all groups of a process, one array for each variable; () of a single group."""

_Present: TypeAlias = tf.Tensor | tf.IndexedSlices


class GradientAccumulator:
    """Sums the gradients of the micro-batches of all replicas for one weight update.

    The reduction method applies to the micro-batches of one replica; replicas are summed, unless
    `experimental_normalize_gradients` divides by their number. Each replica, or group of replicas
    that runs as one batch, has sums of its own, and a balanced tree sums these. Groups take turns:
    the variables hold the sums of the one that runs, and those of all are a `Carry` of the loops.

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
        self._are_apart = replicas.groups > 1
        self._are_added = options.steps_per_replica > 1
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
        """The sums of the group that runs, one for each variable."""
        return tuple(self._sums)

    def empty(self) -> Carry:
        """Returns the sums of all groups before the first micro-batch."""
        if not self._are_apart:
            return ()
        # Elements that were not written yet are read as zeros.
        return tuple(
            tf.TensorArray(total.dtype, size=self._replicas.groups, element_shape=total.shape)
            for total in self._sums
        )

    def reset(self) -> None:
        """Sets the sums of a single group to zero."""
        if self._are_apart or not self._are_added:
            return
        for total in self._sums:
            total.assign(tf.zeros_like(total))

    def begin(self, carry: Carry, group: tf.Tensor) -> None:
        """Sets the variables to the sums of a group.

        Args:
            carry: The sums of all groups.
            group: int32 scalar, number of the group in this process.
        """
        if not self._are_apart or not self._are_added:
            return
        for total, values in zip(self._sums, carry, strict=True):
            total.assign(values.read(group))

    def end(self, carry: Carry, group: tf.Tensor) -> Carry:
        """Returns a carry that has the variables as the sums of a group.

        Args:
            carry: The sums of all groups.
            group: int32 scalar, number of the group in this process.
        """
        if not self._are_apart:
            return carry
        return tuple(
            values.write(group, tf.convert_to_tensor(total))
            for total, values in zip(self._sums, carry, strict=True)
        )

    def add(self, gradients: Sequence[Gradient], step: tf.Tensor) -> None:
        """Adds the gradients of one micro-batch.

        Args:
            gradients: One for each variable, None if the loss does not depend on the variable.
            step: int32 scalar, number of the micro-batch within its replica's update, from 0.
        """
        for index, (total, gradient) in enumerate(zip(self._sums, gradients, strict=True)):
            if gradient is None:
                continue
            self._present[index] = True
            self._add(total, gradient, step)

    def join(self, carry: Carry) -> None:
        """Sets the variables to the sums of all replicas, those of other instances as well.

        It runs on the host, between the programs that add and the one that takes the gradients.

        Args:
            carry: The sums of all groups of this process.
        """
        here = self._replicas
        are_several = here.total > here.count
        if not self._are_apart and not are_several:
            return
        present = [index for index, present in enumerate(self._present) if present]
        if not are_several:
            sums = [_tree_sum(carry[index], here.groups) for index in present]
        else:
            sums = over_instances(
                [
                    _wide(carry[index].stack() if carry else self._sums[index][tf.newaxis])
                    for index in present
                ],
                first=here.first_group,
                count=here.groups,
                group=here.all_groups,
                span=here.span,
                name=self._name,
                program=self.program,
            )
        for index, value in zip(present, sums, strict=True):
            total = self._sums[index]
            total.assign(tf.cast(value, total.dtype))

    def _add(self, total: tf.Variable, gradient: _Present, step: tf.Tensor) -> None:
        gradient = _cast(gradient, total.dtype)
        if self._options.reduction_method is Method.RUNNING_MEAN:
            count = tf.cast(step, tf.float32)
            weight = 1.0 / (count + 1.0)
            if self._are_added:
                total.assign(total * tf.cast(count * weight, total.dtype))
            gradient = _scale(gradient, weight)
        elif self._factor != 1:
            gradient = _scale(gradient, tf.constant(self._factor))
        if isinstance(gradient, tf.IndexedSlices):
            if not self._are_added:
                total.assign(tf.zeros_like(total))
            total.scatter_add(gradient)
        elif self._are_added:
            total.assign_add(gradient)
        else:
            total.assign(gradient)

    def gradients(self) -> list[tf.Tensor | None]:
        """Returns the joined gradients in the types of their sums, None where there are none."""
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


def _tree_sum(values: tf.TensorArray, count: int) -> tf.Tensor:
    """Returns the sum of the values of so many groups by a tree, as instances sum theirs."""
    summands = [_wide(values.read(group)) for group in range(count)]
    return library.load().ipu_tree_sum(summands=summands)


def _wide(values: tf.Tensor) -> tf.Tensor:
    """Returns values in float32: float16 ones are added up in it and rounded once."""
    return tf.cast(values, tf.float32)


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
