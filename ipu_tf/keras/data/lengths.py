"""The use of a method's data, and checks that the data makes whole batches."""

from __future__ import annotations

import dataclasses
import math
import operator
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.internals.structures import TensorLike

KERAS_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DataUse:
    """How a method of a model is about to use its data.

    Attributes:
        model: Name of the model.
        method: Name of the method, such as "fit".
        part: The set of data, if the method has several.
        batch_size: Samples in a batch of array data, None if not given.
        steps: Batches of all replicas in an epoch, None if not given.
        epochs: Number of epochs if the data is read on from epoch to epoch.
        replicas: Replicas of the model: a step takes a batch for each.
        steps_per_execution: Steps that one call of the device runs.
    """

    model: str
    method: str
    part: str = ""
    batch_size: int | None = None
    steps: int | None = None
    epochs: int = 1
    replicas: int = 1
    steps_per_execution: int = 1

    @property
    def steps_argument(self) -> str:
        """Name of the method's argument for the steps."""
        if self.method != "fit":
            return "steps"
        return "validation_steps" if self.part else "steps_per_epoch"

    @property
    def subject(self) -> str:
        """The beginning of an error."""
        part = f", {self.part}" if self.part else ""
        return f"`{self.method}` of model '{self.model}'{part}"


def positive_integer(value: object, argument: str) -> int:
    """Returns a number that a user passed, also as a NumPy integer, a scalar tensor or a variable.

    Args:
        value: The value that was passed.
        argument: Name of the argument; an error begins with it.

    Raises:
        ValueError: It is not a positive integer.
    """
    number: Any = value.numpy() if hasattr(value, "numpy") else value
    try:
        count = 0 if isinstance(number, bool | np.bool_) else operator.index(number)
    except TypeError:
        count = 0
    if count < 1:
        hint = " Divide with `//`." if isinstance(number, float | np.floating) else ""
        raise ValueError(
            f"{argument} must be a positive integer.{hint} "
            f"Received: {value!r} of type {type(value).__name__}."
        )
    return count


def largest_divisor(number: int, limit: int) -> int:
    """Returns the largest divisor of a positive number that is not above a limit of at least 1."""
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return max(size for part in small for size in (part, number // part) if size <= limit)


def array_batch_size(count: int, use: DataUse) -> int:
    """Returns the batch size that Keras chooses for arrays of `count` samples."""
    if use.batch_size:
        return use.batch_size
    return math.ceil(count / use.steps) if use.steps else KERAS_BATCH_SIZE


def check_arrays(samples: dict[str, int], use: DataUse) -> None:
    """Checks that arrays make whole batches.

    Args:
        samples: Length of the first axis of every array, by its name.
        use: The use of the arrays.

    Raises:
        ValueError: Lengths differ, are zero, or do not divide into batches.
    """
    check_equal(samples, use)
    name, count = next(iter(samples.items()))
    batch_size = array_batch_size(count, use)
    remainder = count % batch_size
    if remainder:
        raise ValueError(
            f"{use.subject}: The provided set of data has a partial batch. All batches have the "
            f"same size on the IPU, but the {count} samples of {name} are not a multiple of "
            f"batch_size={batch_size}{'' if use.batch_size else ' (not given)'}. "
            + _advice(count, batch_size)
        )


def check_equal(samples: dict[str, int], use: DataUse) -> None:
    """Checks that all arrays have the same number of samples, and at least one.

    Raises:
        ValueError: Lengths differ or are zero.
    """
    lengths = ", ".join(f"{name}: {count}" for name, count in samples.items())
    if len(set(samples.values())) > 1:
        raise ValueError(
            f"{use.subject}: Data cardinality is ambiguous: all arrays must have the same number "
            f"of samples. Received: {lengths}."
        )
    if 0 in samples.values():
        raise ValueError(f"{use.subject}: the data is empty. Received: {lengths} samples.")


def _advice(count: int, batch_size: int) -> str:
    """Returns advice for `count` samples that `batch_size` does not divide."""
    divisor = largest_divisor(count, batch_size)
    remainder = count % batch_size
    if remainder == count:
        return f"Pass batch_size={divisor}."
    drop = f"leave out the last {remainder} samples"
    # A much smaller batch is rarely wanted.
    return f"Pass batch_size={divisor}, or {drop}." if divisor > 1 else f"{drop.capitalize()}."


def check_dataset(dataset: tf.data.Dataset, use: DataUse) -> None:
    """Checks that a dataset has batches, and that it ends or the number of steps is given.

    Args:
        dataset: Yields batches.
        use: The use of the batches.

    Raises:
        ValueError: It is empty, or it does not end and no number of steps is given.
    """
    batches = int(dataset.cardinality())
    if batches == tf.data.INFINITE_CARDINALITY and use.steps is None:
        raise ValueError(
            f"{use.subject}: Could not infer the size of the data, because the dataset repeats "
            f"for ever. Pass `{use.steps_argument}`."
        )
    if batches == 0:
        raise ValueError(
            f"{use.subject}: the data is empty: the dataset has no batch. If it was batched with "
            "`drop_remainder=True`, it has fewer samples than a batch."
        )


def axis_length(array: TensorLike) -> int:
    """Returns the length of the first axis, 1 for a scalar."""
    return int(array.shape[0]) if len(array.shape) else 1
