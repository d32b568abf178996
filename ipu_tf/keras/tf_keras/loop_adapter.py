"""The loop of tf_keras, as ours sees it."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import cast

import tensorflow as tf
import tf_keras

from ipu_tf.internals import patches
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tf_keras import (
    NAN_STOPS,
    RESUMING,
    UntimedCallbackList,
    array_batches,
    support_strategies,
    with_class_weight,
)
from ipu_tf.keras.adapters.loops import Logs
from ipu_tf.keras.data.infeed import InfeedIterator
from ipu_tf.keras.loop.nan_cause import with_cause
from ipu_tf.keras.training_state import LoopFunction
from ipu_tf.strategy import IPUStrategyV1


@dataclass(frozen=True, slots=True)
class TfKerasBatches:
    """The batches of data; see `Batches`.

    Attributes:
        dataset: Yields batches of one replica: of one epoch for a dataset, of all for arrays.
        num_batches: Batches of an epoch, None if unknown or infinite.
        begins_again: Whether each epoch reads the dataset from its beginning.
    """

    dataset: tf.data.Dataset
    num_batches: int | None
    begins_again: bool

    def on_epoch_begin(self) -> None:
        """Begins an epoch."""

    def on_epoch_end(self) -> None:
        """Ends an epoch."""


@dataclass(frozen=True, slots=True)
class TfKerasLoop:
    """The loop of tf_keras; see `LoopAdapter`."""

    data_class: type = tf.distribute.DistributedDataset
    callback_class: type = tf_keras.callbacks.Callback
    callback_list_class: type = tf_keras.callbacks.CallbackList
    stepwise_list_class: type = UntimedCallbackList
    writing_callbacks: tuple[type, ...] = (
        tf_keras.callbacks.ModelCheckpoint,
        tf_keras.callbacks.CSVLogger,
        tf_keras.callbacks.TensorBoard,
        tf_keras.callbacks.RemoteMonitor,
    )
    resuming_callbacks: tuple[type, ...] = (tf_keras.callbacks.BackupAndRestore,)

    def signature(self, method: str) -> inspect.Signature:
        """Returns the signature of a method of models."""
        return _signature(method)

    def batches(
        self,
        data: Mapping[str, object],
        *,
        batch_size: int | None,
        steps: int | None,
        epochs: int,
        shuffle: bool,
        class_weight: Mapping[int, float] | None,
    ) -> TfKerasBatches:
        """Returns the batches that the loop makes of data."""
        x = data["x"]
        if isinstance(x, tf.data.Dataset):
            cardinality = int(x.cardinality())
            count = cardinality if cardinality >= 0 else None
            batches, begins_again = x, steps is None or steps == count
        else:
            batches, count = array_batches(
                dict(data), batch_size=batch_size, steps=steps, epochs=epochs, shuffle=shuffle
            )
            begins_again = False
        if class_weight:
            batches = with_class_weight(batches, class_weight)
        return TfKerasBatches(batches, count, begins_again)


LOOP = TfKerasLoop()


class EpochReader:
    """A function of the loop, which reads the epochs of an infeed one after the other.

    tf_keras makes one iterator for all epochs of such data.

    Args:
        function: Runs an execution, given an iterator.
        steps: Returns the steps of an execution.
        counter: Counts the batches, for callbacks.
    """

    def __init__(
        self, function: LoopFunction, steps: Callable[[], int], counter: tf.Variable
    ) -> None:
        self._function = function
        self._steps = steps
        self._counter = counter
        self._iterator: weakref.ref[InfeedIterator] | None = None
        self._steps_of_epoch = 0

    def __call__(self, iterator: object) -> TensorStructure:
        """Runs an execution; returns its logs or its predictions."""
        steps = self._steps()
        if isinstance(iterator, InfeedIterator):
            self._begin_epoch(iterator)
            self._steps_of_epoch += steps
        results = self._function(iterator)
        self._counter.assign_add(steps, read_value=False)
        return results

    def _begin_epoch(self, iterator: InfeedIterator) -> None:
        if self._iterator is None or self._iterator() is not iterator:
            self._iterator, self._steps_of_epoch = weakref.ref(iterator), 0
        infeed = iterator.infeed
        batches = cast("TfKerasBatches", infeed.batches)
        if (
            self._steps_of_epoch
            and batches.begins_again
            and self._steps_of_epoch % infeed.schedule.steps == 0
        ):
            iterator.restart()


def _resuming(stock: Callable[..., None]) -> Callable[..., None]:
    """Makes `BackupAndRestore` resume runs of IPU strategies; it knows those of TensorFlow."""

    def on_train_begin(callback: tf_keras.callbacks.BackupAndRestore, logs: Logs = None) -> None:
        support_strategies(callback, IPUStrategyV1)
        stock(callback, logs)

    return on_train_begin


IN_METHODS: Mapping[patches.Patch, patches.Wrap] = MappingProxyType(
    {RESUMING: _resuming, NAN_STOPS: with_cause}
)
"""What is replaced while a method of a model runs on the IPU."""


@functools.cache
def _signature(method: str) -> inspect.Signature:
    return inspect.signature(getattr(tf_keras.Model, method))
