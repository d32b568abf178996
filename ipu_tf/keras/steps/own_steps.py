"""Steps that a user's model defines: `train_step`, `test_step` and `predict_step`."""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals.keras import layers_within, set_strategy_of
from ipu_tf.keras.pipeline.extension import PipelineExtensions
from ipu_tf.keras.replication.replica_state import replication_factor
from ipu_tf.keras.replication.replicas import Step
from ipu_tf.keras.steps import overrides
from ipu_tf.keras.steps.scoped_steps import ScopedSteps

_FUNCTION_OF = {
    "train_step": "train_function",
    "test_step": "test_function",
    "predict_step": "predict_function",
}
"""The attribute that has the function which runs a step."""


class OwnSteps(ScopedSteps, PipelineExtensions):
    """Runs the steps of a user's model in place of Keras', if the step runs as a whole.

    Pipelines split a step. So do gradient accumulation and replicas with the step of training:
    they compute gradients and update the weights in separate programs.
    """

    _step_about_to_run: str | None = None

    def _has_own(self, step: str) -> bool:
        """Returns whether the model or a user's class defines the step of this name."""
        return overrides.is_overridden(self, OwnSteps, step)

    def _step_of_loop(self, name: str) -> Step:
        """Returns the step of this name: the model's own, or that of the IPU's loop."""
        step: Step = own_step(self, name) if self._has_own(name) else getattr(self, name)
        return step

    def _check_step(self, step: str) -> None:
        """Checks that the step of this name can run on the device.

        Raises:
            NotImplementedError: The model has neither such a step nor a `call`.
            RuntimeError: It defines its own step, which would have to be split.
        """
        if not self._has_own(step):
            overrides.check_call(self)
            return
        obstacle = self._obstacle_to_own(step)
        if obstacle is not None:
            overrides.check_not_overridden(
                self,
                OwnSteps,
                step,
                why="The IPU runs the step of a model as it is, unless it has to compute gradients "
                "and update weights apart, or stage by stage. Here it has to: the model "
                f"{obstacle}.",
            )

    def _obstacle_to_own(self, step: str) -> str | None:
        """Returns why the model's own step cannot run, None if it can."""
        if self._is_pipelined():
            return "is a pipeline"
        if step != "train_step":
            return None
        accumulated = self._gradient_accumulation_options.steps_per_replica
        if accumulated > 1:
            return f"accumulates the gradients of {accumulated} micro-batches"
        replicas = replication_factor(self.distribute_strategy, 1)
        return f"has {replicas} replicas" if replicas > 1 else None

    def _is_pipelined(self) -> bool:
        """Returns whether the model has stages, as far as its layers show before it is built."""
        if not self._may_be_pipelined():
            return False
        known = self.built or isinstance(self, keras.Sequential)
        return not known or self._pipeline() is not None

    def _is_built_for(self, step: str) -> bool:
        """Returns whether the variables that a step uses exist."""
        if not self._has_own(step):
            return bool(self.built)
        if getattr(self, _FUNCTION_OF[step]) is not None:
            return True
        # Variables that a step creates later, such as those of metrics, would not be replicated.
        alone = replication_factor(self.distribute_strategy, 1) == 1
        return alone and all(layer.built for layer in layers_within(self))

    @contextlib.contextmanager
    def _about_to_run(self, step: str) -> Iterator[None]:
        """Notes which step a call runs, for the time of the call."""
        around, self._step_about_to_run = self._step_about_to_run, step
        try:
            yield
        finally:
            self._step_about_to_run = around

    def _builds_as_it_runs(self) -> bool:
        """Returns whether the step that is about to run defines how the model is called."""
        return self._step_about_to_run is not None and self._has_own(self._step_about_to_run)


def own_step(model: keras.Model, name: str) -> Step:
    """Returns a step of a user's model as a method of the model that returns tensors.

    Args:
        model: The model; its class or the model itself defines the step.
        name: "train_step", "test_step" or "predict_step".
    """

    def step(model: keras.Model, batch: Any) -> Any:
        results = getattr(model, name)(batch)
        if name != "predict_step" and not isinstance(results, dict):
            raise TypeError(
                f"The `{name}` of model '{model.name}' must return a dict from names to values, "
                "which become the logs: for example {'loss': self.loss_tracker.result()}. "
                f"Received: {results!r}."
            )
        return _tensors(model, name, results)

    step.__name__ = name  # Reports name programs after the methods of models.
    return types.MethodType(step, model)


def build_by_tracing(model: keras.Model, name: str, batch: Any) -> None:
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
    adopt_optimizers(model)

    def trace(batch: Any) -> Any:
        # Optimizers update weights only in a replica context.
        return strategy.extended.call_for_each_replica(getattr(model, name), args=(batch,))

    with strategy.scope():
        tf.function(trace, autograph=False).get_concrete_function(batch)


def adopt_optimizers(model: keras.Model) -> None:
    """Makes the optimizers of a model belong to its strategy, also those made outside of it.

    An optimizer keeps the strategy that it was made under. The variables of an IPU strategy are
    plain ones, so the variables that the optimizer has made so far stay valid.
    """
    for optimizer in _optimizers_of(model):
        inner: Any = optimizer
        while inner is not None:
            set_strategy_of(inner, model.distribute_strategy)
            inner = getattr(inner, "inner_optimizer", None)


def _optimizers_of(model: keras.Model) -> Iterator[keras.optimizers.Optimizer]:
    """Yields the optimizers that are attributes of a model, or in its lists and dicts."""
    for value in vars(model).values():
        held = list(value.values()) if isinstance(value, dict) else value
        # Keras' symbolic tensors cannot be iterated over.
        for item in held if isinstance(held, Sequence) else [held]:
            if isinstance(item, keras.optimizers.Optimizer):
                yield item


def _tensors(model: keras.Model, name: str, results: Any) -> Any:
    """Returns the results of a step as tensors, numbers included."""
    tensors = []
    for path, leaf in keras.tree.flatten_with_path(results):
        try:
            tensors.append(tf.convert_to_tensor(leaf))
        except (TypeError, ValueError) as error:
            where = "".join(f"[{key!r}]" for key in path)
            raise TypeError(
                f"The `{name}` of model '{model.name}' must return tensors or numbers. "
                f"Received: {leaf!r} as its result{where}."
            ) from error
    return keras.tree.pack_sequence_as(results, tensors)
