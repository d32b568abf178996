"""Checks that a training call holds whole weight updates."""

from __future__ import annotations

import logging

from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data.infeed import Infeed
from ipu_tf.keras.deployment.model_pipeline import (
    accumulation_of_model,
    checked_training_pipeline,
    pipeline_of_model,
    replicas_on_device,
)
from ipu_tf.keras.steps import overrides
from ipu_tf.keras.training_state import StatefulModel

logger = logging.getLogger(__name__)


def check_training(model: StatefulModel, infeed: Infeed) -> None:
    """Checks that executions hold whole weight updates, and logs the samples of an update.

    Raises:
        RuntimeError: They do not.
    """
    pipeline = pipeline_of_model(model)
    accumulated = accumulation_of_model(model).steps_per_replica
    steps, of_epoch = infeed.schedule.steps_per_execution, infeed.schedule.steps
    if steps % accumulated:
        epoch = f", and give the epoch of {of_epoch} steps such a multiple, too"
        raise RuntimeError(
            f"The {'pipelined ' if pipeline else ''}model has been configured to use gradient "
            "accumulation for training, however the current `steps_per_execution` "
            f"value (set to {steps}) is not divisible by "
            f"`gradient_accumulation_steps_per_replica` ({accumulated}). Model '{model.name}': "
            f"compile it with a multiple of {accumulated}{epoch if of_epoch % accumulated else ''}."
        )
    logger.info(
        "Model '%s': a weight update sees %d samples: batches of %d, %d micro-batches, %d "
        "replicas.",
        model.name,
        infeed.batch_size * accumulated * infeed.replicas,
        infeed.batch_size,
        accumulated,
        infeed.replicas,
    )
    if steps == 1:
        logger.info(
            "Model '%s' runs one step per call of the device. A larger `steps_per_execution` "
            "in `compile` saves time.",
            model.name,
        )


def steps_of_update(model: StatefulModel) -> int:
    """Returns the steps of a weight update on each replica."""
    return accumulation_of_model(model).steps_per_replica


def check_update(model: StatefulModel) -> None:
    """Checks that the model can train as its options say, whatever its data.

    Raises:
        ValueError: The optimizer wants to compute gradients itself, or the pipeline has no
            number of micro-batches.
    """
    if checked_training_pipeline(model) is not None or _batches_of_update(model) > 1:
        overrides.check_optimizer(adapter_of(model).optimizer, model.name)


def parts_of_batch(model: StatefulModel, samples: int) -> int | None:
    """Returns the number of steps that training splits a single batch into, None for no split.

    Args:
        model: The model.
        samples: Samples of the batch.

    Raises:
        ValueError: The micro-batches of an update would differ in size.
    """
    steps, replicas = accumulation_of_model(model).steps_per_replica, replicas_on_device(model)
    if steps * replicas == 1:
        return None
    if samples % (steps * replicas):
        raise ValueError(
            f"`train_on_batch` of model '{model.name}': a weight update takes "
            f"{steps * replicas} micro-batches of one size, {steps} on each of {replicas} "
            f"replicas. Pass a batch of a multiple of {steps * replicas} samples. Received: "
            f"{samples} samples."
        )
    return steps


def _batches_of_update(model: StatefulModel) -> int:
    """Returns the number of batches in a weight update, over all replicas."""
    return accumulation_of_model(model).steps_per_replica * replicas_on_device(model)
