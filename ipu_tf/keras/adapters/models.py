"""Models and optimizers, as the steps, the loop and the replicas see them.

The room of each Keras registers its `ModelAdapter` with `adapter_of`. An adapter has no state of
its own: it is made where it is needed, once for a trace or a call of `fit`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias

import tensorflow as tf

from ipu_tf.internals.structures import Gradient, SpecStructure, TensorStructure
from ipu_tf.keras.adapters.loops import LoopAdapter

Weight: TypeAlias = tf.Variable
"""A weight as its Keras holds it: Keras 3 has variables of its own around TensorFlow's."""

HoldUpdate: TypeAlias = Callable[[Sequence[tuple[Gradient, Weight]]], None]
"""Takes the gradients of an update, each with its weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBatch:
    """The tensors that losses and metrics of a step compare.

    Attributes:
        x: The inputs.
        y: The targets, None without any.
        y_pred: The outputs of the model.
        sample_weight: Weights of the samples, None without any.
    """

    x: TensorStructure
    y: TensorStructure
    y_pred: TensorStructure
    sample_weight: TensorStructure


class OptimizerAdapter(Protocol):
    """An optimizer of a compiled model."""

    @property
    def counts_captured_gradients(self) -> bool:
        """Whether it counts the gradients that are captured in a step."""

    @property
    def stock(self) -> object:
        """The optimizer itself."""

    @property
    def class_that_updates_in_minimize(self) -> str | None:
        """The class of the optimizer, or of one that it wraps, whose own `minimize` updates weights
        other than its `apply_gradients`; None if there is none."""

    def scaled(self, loss: tf.Tensor) -> tf.Tensor:
        """Returns the loss to differentiate, in the scope of losses."""

    def gradients(
        self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Weight]
    ) -> list[Gradient]:
        """Returns the gradients of a scaled loss, as `apply` takes them.

        Args:
            tape: Recorded the loss.
            loss: The scaled loss.
            weights: Weights of the model, or their variables.
        """

    def apply(self, pairs: Iterable[tuple[Gradient, Weight]], **captured: TensorStructure) -> None:
        """Updates weights, and the count of updates, in the optimizer's scope.

        Args:
            pairs: Gradients and their weights.
            **captured: Captured gradients, for an optimizer that takes them.
        """

    def update(self, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Weight]) -> None:
        """Updates weights by the gradients of a scaled loss; see `gradients`."""

    def holding_updates(self, hold: HoldUpdate) -> AbstractContextManager[None]:
        """Returns a context in which a script's calls of the optimizer update nothing.

        Args:
            hold: Gets the gradients and weights of each call.
        """


class ModelAdapter(Protocol):
    """A model of some Keras."""

    @property
    def stock(self) -> object:
        """The model itself."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def optimizer(self) -> OptimizerAdapter | None:
        """The optimizer, None before `compile`."""

    @property
    def optimizers(self) -> Sequence[OptimizerAdapter]:
        """The optimizers that are attributes of it, and those that they wrap."""

    @property
    def has_call(self) -> bool:
        """Whether its class defines the computation of outputs."""

    @property
    def trainable_weights(self) -> list[Weight]:
        """The weights that training updates."""

    def variables_of(self, weights: Iterable[Weight]) -> list[tf.Variable]:
        """Returns the variables of TensorFlow that hold weights."""

    @property
    def state_variables(self) -> list[tf.Variable]:
        """The variables that steps change beside weights and metrics."""

    @property
    def metric_variables(self) -> list[tf.Variable]:
        """The variables of metrics."""

    @property
    def seed_states(self) -> list[tf.Variable]:
        """The states of the random generators of layers, which are state variables."""

    def step(self, name: str) -> Callable[[TensorStructure], TensorStructure]:
        """Returns the step of this name, such as "train_step", as a method of the model."""

    def unpacked(
        self, data: TensorStructure
    ) -> tuple[TensorStructure, TensorStructure, TensorStructure]:
        """Returns inputs, targets and weights of samples from an element of a dataset."""

    def outputs(self, x: TensorStructure, *, training: bool) -> TensorStructure:
        """Returns the outputs of the model, called for training or for inference."""

    def loss(self, batch: StepBatch, *, training: bool) -> tf.Tensor:
        """Returns the loss, that of layers included, in the scope of losses."""

    def track_loss(self, loss: tf.Tensor, x: TensorStructure) -> None:
        """Adds a loss to the mean that logs show, weighted with the samples of `x`."""

    def metrics(self, batch: StepBatch) -> TensorStructure:
        """Returns the logs of a step, computed in the scope of metrics."""

    @property
    def loop(self) -> LoopAdapter:
        """The loop that runs its methods."""

    @property
    def declares_layers(self) -> bool:
        """Whether its layers are known before it is built."""

    @property
    def layers_are_built(self) -> bool:
        """Whether all layers in it have their variables."""

    def note_inputs(self, batch: SpecStructure) -> None:
        """Keeps the shapes of inputs of a batch that the model is built for."""

    def note_validation_steps(self, steps: int) -> None:
        """Sets the steps of an execution on the validation data that `fit` is reading."""

    def adopt_optimizers(self) -> None:
        """Makes the optimizers of the model belong to its strategy, also those made outside of it.

        The variables of an IPU strategy are plain ones, so the variables that an optimizer has
        made so far stay valid.
        """

    def making_variables(self) -> AbstractContextManager[None]:
        """Returns a context for a trace that makes variables, with the gradients of an update."""

    def is_built_for(self, step: str) -> bool:
        """Returns whether the variables exist that a step, such as "train_step", uses."""

    def build_missing_parts(self, step: str, batch: SpecStructure) -> None:
        """Builds what a step needs for batches of these shapes, unless it is built."""


def optimizers_held_by(model: object, kinds: type | tuple[type, ...]) -> Iterator[object]:
    """Yields the optimizers that are attributes of a model, or in its lists and dicts.

    Those that they wrap follow them.

    Args:
        model: A model of any Keras.
        kinds: The classes of optimizers of this Keras.
    """
    for value in vars(model).values():
        items = list(value.values()) if isinstance(value, dict) else value
        # Symbolic tensors of Keras cannot be iterated over.
        for item in items if isinstance(items, Sequence) else [items]:
            while isinstance(item, kinds):
                yield item
                item = getattr(item, "inner_optimizer", None)


@contextlib.contextmanager
def replaced_methods(owner: object, **methods: Callable[..., object]) -> Iterator[None]:
    """Replaces methods of one object while the context is open.

    Args:
        owner: An object of some Keras, which would track what is set as an attribute.
        **methods: The functions to call, without the object.
    """
    attributes = vars(owner)
    around = {name: attributes[name] for name in methods if name in attributes}
    for name, method in methods.items():
        attributes[name] = tf.autograph.experimental.do_not_convert(method)
    try:
        yield
    finally:
        for name in methods:
            attributes.pop(name, None)
        attributes.update(around)


@functools.singledispatch
def adapter_of(model: object) -> ModelAdapter:
    """Returns the adapter of a model of any Keras that is loaded.

    Raises:
        TypeError: It is no model of a Keras that the IPU's loop knows.
    """
    raise TypeError(
        "The loop of the IPU runs models of Keras: pass a keras.Model that was made in the scope "
        f"of an IPUStrategy. Received: {model!r} of type {type(model).__name__}."
    )
