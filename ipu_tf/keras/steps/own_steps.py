"""Steps that a user's model defines: `train_step`, `test_step` and `predict_step`.

The loop runs such a step in place of its own, as it is.
"""

from __future__ import annotations

import types

import tensorflow as tf
from keras import tree

from ipu_tf.internals.structures import SpecStructure, TensorStructure
from ipu_tf.keras.adapters.graphs import GraphModel
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.steps import overrides
from ipu_tf.keras.steps.device_function import Step
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.runtime.tracing import hooks


def has_own(model: StatefulModel, step: str) -> bool:
    """Returns whether a model or a user's class defines the step of this name."""
    return overrides.is_overridden(model, step)


def step_of_loop(model: StatefulModel, name: str) -> Step:
    """Returns the step of this name: the model's own, or that of the IPU's loop."""
    step: Step = own_step(model, name) if has_own(model, name) else getattr(model, name)
    return step


def own_step(model: StatefulModel, name: str) -> Step:
    """Returns a step of a user's model as a method of the model that returns tensors.

    Args:
        model: The model; its class or the model itself defines the step.
        name: "train_step", "test_step" or "predict_step".
    """

    def step(model: StatefulModel, batch: TensorStructure) -> TensorStructure:
        results = adapter_of(model).step(name)(_copy(batch))
        if name != "predict_step" and not isinstance(results, dict):
            raise TypeError(
                f"The `{name}` of model '{model.name}' must return a dict from names to values, "
                "which become the logs: for example {'loss': self.loss_tracker.result()}. "
                f"Received: {results!r}."
            )
        return _tensors(model, name, results)

    step.__name__ = name  # Reports name programs after the methods of models.
    return types.MethodType(step, model)


def build_by_tracing(model: GraphModel, name: str, batch: SpecStructure) -> None:
    """Creates those variables that a step of a model uses and that do not exist yet.

    Only the step shows how the layers of a model are called: it is traced, and does not run.

    Args:
        model: The model.
        name: Name of the step.
        batch: Shapes and types of its batch.
    """
    strategy = model.distribute_strategy
    if tf.distribute.has_strategy():  # A scope cannot be inside another strategy's.
        strategy = tf.distribute.get_strategy()
    adapter = adapter_of(model)
    adapter.adopt_optimizers()

    def trace(batch: TensorStructure) -> object:
        # Optimizers update weights only in a replica context.
        step = adapter.step(name)
        return strategy.extended.call_for_each_replica(step, args=(_copy(batch),))

    with strategy.scope(), hooks.building(), adapter.making_variables():
        tf.function(trace, autograph=False).get_concrete_function(batch)


def _copy(batch: TensorStructure) -> TensorStructure:
    """Returns a batch in dictionaries and lists of its own, which a step may change."""
    return tree.map_structure(lambda leaf: leaf, batch)


def _tensors(model: StatefulModel, name: str, results: object) -> TensorStructure:
    """Returns the results of a step as tensors, numbers included."""
    tensors = []
    for path, leaf in tree.flatten_with_path(results):
        try:
            tensors.append(tf.convert_to_tensor(leaf))
        except (TypeError, ValueError) as error:
            where = "".join(f"[{key!r}]" for key in path)
            raise TypeError(
                f"The `{name}` of model '{model.name}' must return tensors or numbers. "
                f"Received: {leaf!r} as its result{where}."
            ) from error
    return tree.pack_sequence_as(results, tensors)
