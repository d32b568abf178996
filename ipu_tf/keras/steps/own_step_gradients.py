"""Gradients of steps that a user's model defines, for accumulation and replicas.

Such a step computes its gradients itself and asks an optimizer to update the weights. While it is
traced here, optimizers keep the gradients and leave the weights as they are; the program of the
update applies what all micro-batches and replicas add up to.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from ipu_tf.internals.structures import Gradient, TensorStructure
from ipu_tf.keras.adapters.models import ModelAdapter, OptimizerAdapter, Weight
from ipu_tf.keras.steps import step_scopes
from ipu_tf.keras.steps.device_function import Step
from ipu_tf.keras.steps.overrides import SWITCH_OFF


@dataclass(slots=True)
class _Updates:
    """The updates that optimizers were asked for.

    Attributes:
        optimizers: The optimizer of each update.
        pairs: The gradients of each update with their weights.
    """

    optimizers: list[OptimizerAdapter] = field(default_factory=list)
    pairs: list[Sequence[tuple[Gradient, Weight]]] = field(default_factory=list)


def gradients_of_own_step(
    model: ModelAdapter, step: Step, batch: TensorStructure
) -> tuple[list[Gradient], TensorStructure]:
    """Returns the gradients that a step of the model's own would update weights by, and its logs.

    The gradients are in the order of the trainable weights, None where the step has none.

    Args:
        model: A built and compiled model.
        step: Its train step.
        batch: A batch.

    Raises:
        RuntimeError: The step does not update weights once, by the optimizer of the model.
    """
    compiled = step_scopes.optimizer_of(model)
    updates = _Updates()

    def holding(optimizer: OptimizerAdapter) -> contextlib.AbstractContextManager[None]:
        def hold(pairs: Sequence[tuple[Gradient, Weight]]) -> None:
            updates.optimizers.append(optimizer)
            updates.pairs.append(pairs)

        return optimizer.holding_updates(hold)

    with contextlib.ExitStack() as stack:
        for optimizer in model.optimizers:
            stack.enter_context(holding(optimizer))
        logs = step(batch)
    if [optimizer.stock for optimizer in updates.optimizers] != [compiled.stock]:
        names = [type(optimizer.stock).__name__ for optimizer in updates.optimizers]
        raise _not_once(model, f"updates by {', '.join(names)}" if names else "no update")
    return _in_order(model, updates.pairs[0]), logs


def _in_order(model: ModelAdapter, pairs: Sequence[tuple[Gradient, Weight]]) -> list[Gradient]:
    values = model.variables_of(model.trainable_weights)
    gradients: dict[int, Gradient] = {}
    for gradient, weight in pairs:
        (value,) = model.variables_of([weight])
        if id(value) in gradients or all(value is not other for other in values):
            times = "twice" if id(value) in gradients else "which the model does not train"
            raise _not_once(model, f"an update of '{weight.name}', {times}")
        gradients[id(value)] = gradient
    return [gradients.get(id(value)) for value in values]


def _not_once(model: ModelAdapter, calls: str) -> RuntimeError:
    return RuntimeError(
        f"The function `train_step` for the model {model.name} has been overridden. With gradient "
        "accumulation or replicas its gradients are added up before the weights change, so it has "
        "to update the trainable weights of the model once, by `apply_gradients`, `apply` or "
        "`minimize` of the optimizer that the model is compiled with. "
        f"Received: {calls}. Train without gradient accumulation and replicas. {SWITCH_OFF}"
    )
