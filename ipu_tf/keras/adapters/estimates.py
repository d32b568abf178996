"""Models whose steps are traced for their figures alone, without data.

The room of each Keras registers its `EstimateAdapter` with `estimates_of`.
"""

from __future__ import annotations

import functools
from contextlib import AbstractContextManager
from typing import Protocol

from ipu_tf.compiler.equal_blocks.repetition import Repetition
from ipu_tf.internals.structures import SpecStructure
from ipu_tf.keras.adapters.graphs import GraphModel, Structure


class TrainableModel(GraphModel, Protocol):
    """A model that may be compiled."""

    @property
    def compiled(self) -> bool:
        """Whether it has an optimizer and a loss."""

    @property
    def loss(self) -> object:
        """What `compile` got as the loss."""


class EqualBlocks(Protocol):
    """Equal blocks of layers that follow each other in a model."""

    @property
    def repetition(self) -> Repetition:
        """The blocks as the compiler sees them."""

    def outer_blocks_alone(self) -> AbstractContextManager[None]:
        """Returns a context in which the model has and calls the first and the last two alone."""


class EstimateAdapter(Protocol):
    """A model whose step is traced for its figures."""

    @property
    def inputs(self) -> Structure:
        """The declared inputs, symbolic and in the structure of the model; None without any."""

    @property
    def built_inputs(self) -> SpecStructure:
        """Specs of the inputs that a model without declared ones was built for; None if unknown."""

    @property
    def last_activation(self) -> str:
        """The name of the activation of its last layer, "" without one."""

    @property
    def runs_own_code(self) -> bool:
        """Whether its step may run code of a user's, which may look at the number of samples."""

    def equal_blocks(self, *, training: bool) -> EqualBlocks | None:
        """Returns blocks of which a trace may leave out all but the outer ones; None without any.

        Args:
            training: Whether the trace is of a training step.
        """

    def outputs(self, inputs: SpecStructure) -> Structure:
        """Returns symbolic outputs, or specs of them, for inputs of these specs."""

    def with_new_optimizer(self) -> AbstractContextManager[object]:
        """Returns a context in which its optimizer is a copy without variables."""

    def compiled(self, loss: str, rate: float) -> TrainableModel:
        """Returns a model of the same layers, compiled with this loss and SGD of this rate."""

    def build_for_training(self, batch: SpecStructure, outputs: Structure) -> None:
        """Builds layers, loss, metrics and optimizer for a batch of these specs.

        Args:
            batch: The inputs and the targets.
            outputs: What `outputs` returned for the inputs, None if unknown.
        """


@functools.singledispatch
def estimates_of(model: object) -> EstimateAdapter:
    """Returns the adapter of a model.

    Raises:
        TypeError: It is no model of a Keras that estimates know.
    """
    raise TypeError(
        "Steps of models of Keras have estimates: pass a keras.Model. "
        f"Received: {model!r} of type {type(model).__name__}."
    )
