"""The number of an epoch's steps on each replica, and their split into executions."""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import NoReturn

from ipu_tf.base import trial
from ipu_tf.keras.data.lengths import DataUse, largest_divisor

logger = logging.getLogger(__name__)

WHOLE_EPOCH = sys.maxsize
"""The `steps_per_execution` of a model that runs each epoch with one call of the device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochSteps:
    """How an epoch runs.

    Attributes:
        steps: Steps of an epoch on each replica.
        steps_per_execution: Steps that one call of the device runs, a divisor of `steps`.
    """

    steps: int
    steps_per_execution: int


SINGLE_STEP = EpochSteps(steps=1, steps_per_execution=1)
"""A single batch."""


def epoch_steps(
    batches: int | None, use: DataUse, *, restarts: bool, of_update: int = 1
) -> EpochSteps:
    """Returns the number of steps of an epoch, and their split into executions.

    Args:
        batches: Batches in the data, None if unknown or infinite.
        use: The use of the data.
        restarts: Whether the data is read from its beginning again once an epoch ends with the
            last batch that makes a step. A dataset as long as an epoch always is.
        of_update: Steps of a weight update, or those that fill a pipeline; for the advice of errors
            alone.

    Raises:
        ValueError: The number of steps is unknown, zero, more than the data has, or not a
            multiple of the steps of an execution.
    """
    steps = _steps_of_replica(batches, use)
    if use.steps is not None and batches is not None:
        restarts = restarts or batches == use.steps
        _check_whole_epochs(batches, steps, use, restarts=restarts)
    per_execution = use.steps_per_execution
    if per_execution > steps:
        if per_execution != WHOLE_EPOCH:
            logger.warning(
                "%s: `steps_per_execution` (%d) is more than the %d steps of an epoch, so an "
                "execution runs %d steps.",
                use.subject,
                per_execution,
                steps,
                steps,
            )
        per_execution = steps
    if steps % per_execution:
        raise ValueError(
            f"{use.subject}: `steps_per_execution` ({per_execution}) must be a divisor of the "
            f"number of batches ({steps}) in the dataset provided"
            f"{f' to each of {use.replicas} replicas' if use.replicas > 1 else ''}. "
            + _advice(steps, per_execution, use, of_update=of_update)
        )
    return EpochSteps(steps=steps, steps_per_execution=per_execution)


def largest_execution(steps: int, limit: int, *, of_update: int) -> int:
    """Returns the most steps of an execution of whole updates that divide an epoch, 0 for none.

    Args:
        steps: Steps of an epoch.
        limit: No execution has more steps than this.
        of_update: Steps of a weight update, or those that fill a pipeline.
    """
    if steps % of_update or limit < of_update:
        return 0
    return of_update * largest_divisor(steps // of_update, limit // of_update)


def _advice(steps: int, per_execution: int, use: DataUse, *, of_update: int) -> str:
    """Returns what to change so that executions of whole updates divide an epoch."""
    largest = largest_execution(steps, max(per_execution, of_update), of_update=of_update)
    if largest:
        return (
            f"Compile with steps_per_execution={largest}, or pass another `{use.steps_argument}`."
        )
    return (
        f"Executions of this model have a multiple of {of_update} steps: provide a multiple of "
        f"{of_update * use.replicas} batches, or pass one as `{use.steps_argument}`."
    )


def within_limit(schedule: EpochSteps, use: DataUse, *, of_update: int) -> tuple[EpochSteps, int]:
    """Returns how an epoch runs, and the epochs, within the limit of `ipu_tf.base.trial`.

    A shorter epoch has executions of whole updates that divide it.

    Args:
        schedule: How an epoch would run.
        use: The use of the data.
        of_update: Steps of a weight update, or those that fill a pipeline.
    """
    limit = trial.step_limit()
    longest = schedule.steps_per_execution
    if limit is None or longest % of_update:  # The error is that of a run without a limit.
        return schedule, use.epochs
    steps = trial.limited_steps(schedule.steps, of_update=of_update)
    epochs = min(use.epochs, max(1, limit // steps))
    if (steps, epochs) != (schedule.steps, use.epochs):
        run, all_steps = steps * epochs, schedule.steps * use.epochs
        trial.note_cut(logger, f"{use.subject} runs {run} of {all_steps} steps", limit)
    largest = largest_execution(steps, longest, of_update=of_update)
    return EpochSteps(steps=steps, steps_per_execution=largest), epochs


def _steps_of_replica(batches: int | None, use: DataUse) -> int:
    """Returns the steps of an epoch on each replica; leftover batches are dropped.

    Raises:
        ValueError: Their number is unknown or zero.
    """
    epoch_batches = batches if use.steps is None else use.steps
    if epoch_batches is None:
        raise ValueError(
            f"{use.subject}: Could not infer the size of the data. Pass `{use.steps_argument}`, or "
            "say how many batches the dataset has with `tf.data.experimental.assert_cardinality`."
        )
    steps, remainder = divmod(epoch_batches, use.replicas)
    if not steps:
        _raise_no_step(batches, use)
    if remainder:
        logger.warning(
            "%s: the last %d of %d batches%s are dropped, because every step takes a batch for "
            "each of %d replicas.",
            use.subject,
            remainder,
            epoch_batches,
            "" if use.steps is None else f" of `{use.steps_argument}`",
            use.replicas,
        )
    return steps


def _raise_no_step(batches: int | None, use: DataUse) -> NoReturn:
    contained = "an unknown number of" if batches is None else batches
    if use.steps is None:
        share, advice = "", "Provide more data, a smaller batch size, or fewer IPUs."
    else:
        share = f", of which `{use.steps_argument}` takes {use.steps}"
        advice = (
            f"`{use.steps_argument}` counts the batches of all replicas: pass at least "
            f"{use.replicas}, or use fewer IPUs."
        )
    raise ValueError(
        f"{use.subject}: The provided dataset contains {contained} items{share}, but all "
        f"{use.replicas} replicas are requested to run at least one batch. {advice}"
    )


def _check_whole_epochs(batches: int, steps: int, use: DataUse, *, restarts: bool) -> None:
    """Checks that the data of every epoch lasts to its last step.

    Raises:
        ValueError: It does not.
    """
    available = batches // use.replicas
    restarts = restarts and available % steps == 0
    if available < steps or (available < steps * use.epochs and not restarts):
        epochs = f" in each of {use.epochs} epochs" if use.epochs > 1 else ""
        replicas = f" on each of {use.replicas} replicas" if use.replicas > 1 else ""
        raise ValueError(
            f"{use.subject}: Your input does not have enough data: {steps} steps{epochs}{replicas} "
            f"need {steps * use.epochs * use.replicas} batches. Call `.repeat()` on a dataset, or "
            f"lower the number of steps. Received: {batches} batches."
        )
