"""The methods of Keras' training loop that models of Keras 2 and 3 replace alike.

Each delegates: to `loop` and `steps` for an IPU strategy, to Keras for any other.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.extensions import IPUExtensions
from ipu_tf.keras.loop.step_checks import runs_on_ipu
from ipu_tf.keras.loop.training_loop import TrainingLoop
from ipu_tf.keras.steps import step_scopes
from ipu_tf.keras.steps.overrides import of_loop
from ipu_tf.keras.training_state import LoopFunction, strategy_in_force
from ipu_tf.strategy import IPUStrategy

LoopFunctionKind = Literal["train", "test", "predict"]


class TrainingHooks(IPUExtensions):
    """A base, before Keras' `Model`, of models whose loop runs on the IPU."""

    _made_in_scope = False

    @property
    def distribute_strategy(self) -> tf.distribute.Strategy:
        """The strategy of the open scope if it is one with that of the model, else the latter."""
        return strategy_in_force(self._of_keras("distribute_strategy"))

    @functools.cached_property
    def ipu_training_loop(self) -> TrainingLoop:
        """Runs Keras' methods of the model on the IPU."""
        return TrainingLoop()

    @of_loop
    def make_train_function(self, force: bool = False) -> LoopFunction:
        """Returns the function that runs one execution of training, made if needed or forced."""
        return self._loop_function("train", force)

    @of_loop
    def make_test_function(self, force: bool = False) -> LoopFunction:
        """Returns the function that runs one execution of evaluation, made if needed or forced."""
        return self._loop_function("test", force)

    @of_loop
    def make_predict_function(self, force: bool = False) -> LoopFunction:
        """Returns the function that runs one execution of prediction, made if needed or forced."""
        return self._loop_function("predict", force)

    @of_loop
    def train_step(self, data: TensorStructure) -> TensorStructure:
        """Returns the logs of a training step; see `keras.Model.train_step`."""
        if not isinstance(self.distribute_strategy, IPUStrategy):
            return self._of_keras("train_step")(data)
        return step_scopes.train_step(adapter_of(self), data)

    @of_loop
    def test_step(self, data: TensorStructure) -> TensorStructure:
        """Returns the logs of a step of evaluation; see `keras.Model.test_step`."""
        if not isinstance(self.distribute_strategy, IPUStrategy):
            return self._of_keras("test_step")(data)
        return step_scopes.test_step(adapter_of(self), data)

    def reset_metrics(self) -> None:
        """Resets the metrics of every replica."""
        self._of_keras("reset_metrics")()
        self.ipu_training_loop.functions.reset_metrics()

    def _of_keras(self, name: str) -> Any:
        """Returns Keras' own method or property of that name."""
        return getattr(super(), name)

    def _loop_function(self, kind: LoopFunctionKind, force: bool) -> LoopFunction:
        """Returns the function of Keras' loop, kept where Keras keeps it."""
        if not self._runs_functions_on_ipu():
            return self._of_keras(f"make_{kind}_function")(force)
        name = f"{kind}_function"
        if getattr(self, name) is None or force:
            setattr(self, name, self._device_function(kind))
        return getattr(self, name)

    def _device_function(self, kind: LoopFunctionKind) -> LoopFunction:
        """Returns a new function that runs one execution on the IPU."""
        functions = self.ipu_training_loop.functions
        make: Callable[[TrainingHooks], LoopFunction] = getattr(functions, f"{kind}_function")
        return make(self)

    def _runs_functions_on_ipu(self) -> bool:
        """Returns whether the IPU runs the functions of the loop; drops those that are stale."""
        if not runs_on_ipu(self, made_in_scope=self._made_in_scope):
            return False
        self._refresh_functions()
        return True

    def _refresh_functions(self) -> None:
        """Drops the functions of the loop that are stale."""
        self.ipu_training_loop.functions.drop_stale(self)


def mark_as_made_in_scope(model: TrainingHooks) -> None:
    """Marks a model as made in the scope of an IPU strategy, before its constructor runs."""
    object.__setattr__(model, "_made_in_scope", True)  # Keras' __setattr__ is not ready yet.
