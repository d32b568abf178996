"""The loop of a Keras: how it takes data and callbacks."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import tensorflow as tf

Logs: TypeAlias = Mapping[str, object] | None
"""The metrics of a batch or of an epoch by their names, None where there are none yet."""


class Batches(Protocol):
    """The batches that a Keras makes of the data of a method."""

    @property
    def dataset(self) -> tf.data.Dataset:
        """Yields batches of one replica."""

    @property
    def num_batches(self) -> int | None:
        """Batches of an epoch, None if unknown or infinite."""

    def on_epoch_begin(self) -> None:
        """Begins an epoch."""

    def on_epoch_end(self) -> None:
        """Ends an epoch."""


class Callback(Protocol):
    """A callback of some Keras."""

    def set_model(self, model: object) -> None:
        """Takes the model that is trained."""

    def on_train_begin(self, logs: Logs = None) -> None:
        """Is called when training begins."""


class CallbackList(Protocol):
    """The list of the callbacks of a method."""

    callbacks: Sequence[object]


class LoopAdapter(Protocol):
    """The loop that runs epochs: `fit`, `evaluate`, `predict`, and the methods for one batch."""

    @property
    def data_class(self) -> type:
        """The class of data that the loop iterates over as it is."""

    @property
    def callback_class(self) -> type:
        """The class of callbacks."""

    @property
    def callback_list_class(self) -> type:
        """The class of the list that the loop makes of callbacks."""

    @property
    def stepwise_list_class(self) -> type:
        """The class of a list of callbacks that are called once a step, beside the device."""

    @property
    def writing_callbacks(self) -> tuple[type, ...]:
        """The classes of callbacks that write files, or send logs."""

    @property
    def resuming_callbacks(self) -> tuple[type, ...]:
        """The classes of callbacks that also read what they have written, as training begins."""

    def signature(self, method: str) -> inspect.Signature:
        """Returns the signature of a method of models."""

    def batches(
        self,
        data: Mapping[str, object],
        *,
        batch_size: int | None,
        steps: int | None,
        epochs: int,
        shuffle: bool,
        class_weight: Mapping[int, float] | None,
    ) -> Batches:
        """Returns the batches that the loop makes of data.

        Args:
            data: `x`, `y` and `sample_weight`: arrays, or a dataset as `x`.
            batch_size: Samples of a batch of arrays, None for a dataset.
            steps: Batches in an epoch, None if not given.
            epochs: Epochs on this data.
            shuffle: Whether arrays are shuffled again in every epoch.
            class_weight: Weights of the classes, as in `fit`.

        Raises:
            ValueError: This Keras does not know the kind of data.
        """


@functools.cache
def in_keras(own: type, base: type) -> type:
    """Returns a class of ours as one that a Keras takes for its own.

    Args:
        own: The class; its `super()` is the base.
        base: The class of the Keras.
    """
    body = {"__module__": own.__module__, "__doc__": own.__doc__}
    return type(own.__name__, (own, base), body)
