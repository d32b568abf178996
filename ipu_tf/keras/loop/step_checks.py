"""Checks that the loop can run the step that a user's model defines.

The loop runs such a step as a whole. Pipelines split a step, and replicas that share the statistics
of batch normalization run as one batch. Gradient accumulation and replicas take the step of
training apart at its update; see `own_step_gradients.py`.
"""

from __future__ import annotations

import tensorflow as tf

from ipu_tf import config
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.deployment.model_pipeline import pipeline_of_model
from ipu_tf.keras.replication.replica_state import replication_factor
from ipu_tf.keras.steps import overrides
from ipu_tf.keras.steps.own_steps import has_own
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.processes.instances import instances
from ipu_tf.strategy import IPUStrategy

_FUNCTION_OF = {
    "train_step": "train_function",
    "test_step": "test_function",
    "predict_step": "predict_function",
}
"""The attribute that has the function which runs a step."""


def check_step(model: StatefulModel, step: str) -> None:
    """Checks that a step of a model can run on the device.

    Args:
        model: The model.
        step: Name of the step.

    Raises:
        NotImplementedError: The model has neither such a step nor a `call`.
        RuntimeError: It defines its own step, which would have to be split.
    """
    if not has_own(model, step):
        overrides.check_call(model)
        return
    obstacle = _obstacle_to_own(model, step)
    if obstacle is not None:
        overrides.check_not_overridden(
            model,
            step,
            why="The IPU runs the step of a model as it is, unless it has to compute gradients "
            "stage by stage, or of several replicas in one batch. Here it has to: the model "
            f"{obstacle}.",
        )


def is_built_for(model: StatefulModel, step: str) -> bool:
    """Returns whether the variables that a step uses exist."""
    if not has_own(model, step):
        return adapter_of(model).is_built_for(step)
    if getattr(model, _FUNCTION_OF[step]) is not None:
        return True
    # Variables that a step creates later, such as those of metrics, would not be replicated, and
    # an optimizer that only takes gradients in the step would create its own in the update.
    alone = replication_factor(model.distribute_strategy, 1) * instances().count == 1
    at_once = model.ipu_training_state.accumulation.steps_per_replica == 1
    return alone and at_once and adapter_of(model).layers_are_built


def runs_on_ipu(model: StatefulModel, *, made_in_scope: bool) -> bool:
    """Returns whether the strategy of a model is an IPU strategy.

    Args:
        model: The model.
        made_in_scope: Whether the model was made in the scope of an IPU strategy.

    Raises:
        RuntimeError: It is, but functions are to run eagerly; or it is not, but the model was
            made in the scope of an IPU strategy.
    """
    if not isinstance(model.distribute_strategy, IPUStrategy):
        if made_in_scope:
            raise RuntimeError(
                f"Model '{model.name}' was made in the scope of an IPUStrategy, but another "
                "default graph was in force there, which has no strategy: the model would not run "
                "on the IPU. Make the model in the scope, outside of any `tf.Graph().as_default()`."
                f" Received: strategy {type(model.distribute_strategy).__name__}."
            )
        return False
    for cause, eager in (
        ("`tf.config.run_functions_eagerly(True)` is set", tf.config.functions_run_eagerly()),
        ("`run_eagerly` is True", model.run_eagerly),
    ):
        if eager:
            raise RuntimeError(
                "Keras models cannot run eagerly when using `IPUStrategy`: the IPU runs "
                f"compiled programs. For model '{model.name}', {cause}. To debug a step, use "
                "`tf.print`, or make the model outside of the strategy's scope."
            )
    return True


def _obstacle_to_own(model: StatefulModel, step: str) -> str | None:
    """Returns why the model's own step cannot run, None if it can."""
    if _is_pipelined(model):
        return "is a pipeline"
    if step != "train_step":
        return None
    replicas = replication_factor(model.distribute_strategy, 1) * instances().count
    group = config.device_configuration().batch_norm_replica_group_size
    if replicas == 1 or group == 1:
        return None
    return f"has replicas that share the statistics of batch normalization, {group} in a group"


def _is_pipelined(model: StatefulModel) -> bool:
    """Returns whether the model has stages, as far as its layers show before it is built."""
    if not model.ipu_training_state.may_pipeline(model):
        return False
    has_layers = model.built or adapter_of(model).declares_layers
    return not has_layers or pipeline_of_model(model) is not None
