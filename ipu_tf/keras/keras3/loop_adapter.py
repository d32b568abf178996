"""The loop of Keras 3, as ours sees it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping
from dataclasses import dataclass

import keras
import tensorflow as tf

from ipu_tf.internals.keras import KerasDataAdapter, keras_data_adapter


@dataclass(frozen=True, slots=True)
class Keras3Batches:
    """The batches of a data adapter; see `Batches`.

    Attributes:
        adapter: The data adapter.
        dataset: Yields batches of one replica.
    """

    adapter: KerasDataAdapter
    dataset: tf.data.Dataset

    @property
    def num_batches(self) -> int | None:
        """Batches of an epoch, None if unknown or infinite."""
        batches: int | None = self.adapter.num_batches
        return batches

    def on_epoch_begin(self) -> None:
        """Begins an epoch."""
        self.adapter.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Ends an epoch."""
        self.adapter.on_epoch_end()


@dataclass(frozen=True, slots=True)
class Keras3Loop:
    """The loop of Keras 3; see `LoopAdapter`."""

    data_class: type = KerasDataAdapter
    callback_class: type = keras.callbacks.Callback
    callback_list_class: type = keras.callbacks.CallbackList
    stepwise_list_class: type = keras.callbacks.CallbackList
    writing_callbacks: tuple[type, ...] = (
        keras.callbacks.ModelCheckpoint,
        keras.callbacks.CSVLogger,
        keras.callbacks.TensorBoard,
        keras.callbacks.RemoteMonitor,
    )
    resuming_callbacks: tuple[type, ...] = (keras.callbacks.BackupAndRestore,)

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
    ) -> Keras3Batches:
        """Returns the batches that the loop makes of data; each epoch iterates over them anew."""
        del epochs
        adapter = keras_data_adapter(
            **data,
            batch_size=batch_size,
            steps_per_epoch=steps,
            shuffle=shuffle,
            class_weight=class_weight,
        )
        return Keras3Batches(adapter, adapter.get_tf_dataset())


LOOP = Keras3Loop()


@functools.cache
def _signature(method: str) -> inspect.Signature:
    return inspect.signature(getattr(keras.Model, method))
