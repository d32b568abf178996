"""How much data there is, and whether it makes whole batches."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import tensorflow as tf

KERAS_BATCH_SIZE = 32


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """What a method of a model is about to do with its data.

    Attributes:
        model: Name of the model.
        method: Name of the method, such as "fit".
        part: Which of the method's data it is, if it has several sets.
        batch_size: Samples in a batch of array data, None if not given.
        steps: Batches in an epoch, None if not given.
        epochs: Times that the steps are run.
    """

    model: str
    method: str
    part: str = ""
    batch_size: int | None = None
    steps: int | None = None
    epochs: int = 1

    @property
    def subject(self) -> str:
        """How an error begins."""
        part = f", {self.part}" if self.part else ""
        return f"`{self.method}` of model '{self.model}'{part}"


def check_arrays(samples: dict[str, int], use: Use) -> None:
    """Checks that arrays make whole batches, and enough of them.

    Args:
        samples: Length of the first axis of every array, by its name.
        use: What they are for.

    Raises:
        ValueError: If lengths differ, are zero, or do not divide into batches.
    """
    check_equal(samples, use)
    name, count = next(iter(samples.items()))
    batch_size = use.batch_size
    if not batch_size:
        batch_size = math.ceil(count / use.steps) if use.steps else KERAS_BATCH_SIZE
    rest = count % batch_size
    if rest:
        raise ValueError(
            f"{use.subject}: The provided set of data has a partial batch. All batches have the "
            f"same size on the IPU, but the {count} samples of {name} are no multiple of "
            f"batch_size={batch_size}{'' if use.batch_size else ' (not given)'}. "
            + _advice(count, batch_size)
        )
    if use.steps and use.steps > count // batch_size:
        raise ValueError(
            f"{use.subject}: Your input does not have enough data: {use.steps} steps of "
            f"batch_size={batch_size} need {use.steps * batch_size} samples. "
            f"Received: {count} samples of {name}."
        )


def check_equal(samples: dict[str, int], use: Use) -> None:
    """Checks that all arrays have the same number of samples, and any at all.

    Raises:
        ValueError: If not.
    """
    received = ", ".join(f"{name}: {count}" for name, count in samples.items())
    if len(set(samples.values())) > 1:
        raise ValueError(
            f"{use.subject}: all arrays must have the same number of samples. Received: {received}."
        )
    if 0 in samples.values():
        raise ValueError(f"{use.subject}: there is no data. Received: {received} samples.")


def _advice(count: int, batch_size: int) -> str:
    """Returns what to do about `count` samples that `batch_size` does not divide."""
    fitting = max(size for size in range(1, batch_size + 1) if count % size == 0)
    rest = count % batch_size
    if rest == count:
        return f"Pass batch_size={fitting}."
    drop = f"leave out the last {rest} samples"
    # A much smaller batch is rarely what somebody wants.
    return f"Pass batch_size={fitting}, or {drop}." if fitting > 1 else f"{drop.capitalize()}."


def check_dataset(dataset: tf.data.Dataset, use: Use) -> None:
    """Checks that a dataset has enough batches.

    Args:
        dataset: Yields batches.
        use: What they are for.

    Raises:
        ValueError: If it is empty, ends before the last step, or does not end.
    """
    batches = int(dataset.cardinality())
    if batches == tf.data.INFINITE_CARDINALITY and not use.steps:
        steps = "steps"
        if use.method == "fit":
            steps = "validation_steps" if use.part else "steps_per_epoch"
        raise ValueError(
            f"{use.subject}: Could not infer the size of the data, because the dataset repeats "
            f"for ever. Pass `{steps}`."
        )
    if batches == 0:
        raise ValueError(
            f"{use.subject}: there is no data: the dataset has no batch. If it was batched with "
            "`drop_remainder=True`, it has fewer samples than a batch."
        )
    if use.steps and 0 < batches < use.steps * use.epochs:
        epochs = f" in each of {use.epochs} epochs" if use.epochs > 1 else ""
        raise ValueError(
            f"{use.subject}: Your input does not have enough data: {use.steps} steps{epochs} need "
            f"{use.steps * use.epochs} batches. Call `.repeat()` on the dataset or lower the "
            f"number of steps. Received: a dataset of {batches} batches."
        )


def axis_length(array: Any) -> int:
    """Returns the length of the first axis, 1 for a scalar."""
    return int(array.shape[0]) if len(array.shape) else 1
