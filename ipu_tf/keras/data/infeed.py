"""The infeed: the batches of an epoch, as read by the device's loop.

Keras takes it for data of its own (`LoopAdapter.data_class`) and passes its iterator to the
functions of the loop, which read a step or a whole execution at a time. Keras itself never sees a
batch.
"""

from __future__ import annotations

import tensorflow as tf
from keras import tree

from ipu_tf.internals.structures import (
    ArrayStructure,
    SpecStructure,
    TensorLike,
    TensorStructure,
)
from ipu_tf.keras.adapters.loops import Batches
from ipu_tf.keras.data.epoch_steps import EpochSteps


class Infeed:
    """The data of one method of a model, to be read by the device.

    Args:
        batches: The batches that Keras makes of the data.
        schedule: How an epoch runs.
        subject: The beginning of an error about the data.
        replicas: Batches in a step, one for each replica.
        prefetch_depth: Steps that are prepared ahead of the device.
        epochs: Epochs of the method on this data.
    """

    def __init__(
        self,
        batches: Batches,
        schedule: EpochSteps,
        *,
        subject: str,
        replicas: int = 1,
        prefetch_depth: int = 1,
        epochs: int = 1,
    ) -> None:
        self.schedule = schedule
        self._subject = subject
        self.batches = batches
        self.replicas = replicas
        self.prefetch_depth = prefetch_depth
        self.epochs = epochs
        self.steps_of_all_epochs = schedule.steps * epochs

    @property
    def element_spec(self) -> SpecStructure:
        """The shapes and types that one replica reads in one step."""
        return self.batches.dataset.element_spec

    @property
    def batch_size(self) -> int:
        """Samples that one replica reads in one step."""
        shapes = [leaf.shape for leaf in tree.flatten(self.element_spec) if leaf is not None]
        return int(shapes[0][0]) if shapes[0].rank else 1

    @property
    def num_batches(self) -> int | None:
        """Steps that the data suffices for, None if unknown or infinite."""
        batches = self.batches.num_batches
        return None if batches is None else batches // self.replicas

    def get_tf_dataset(self) -> Infeed:
        """Returns the object that Keras iterates over: the infeed itself."""
        return self

    def on_epoch_begin(self) -> None:
        """Tells Keras' batches that an epoch begins."""
        self.batches.on_epoch_begin()

    def on_epoch_end(self) -> None:
        """Tells Keras' batches that an epoch ended."""
        self.batches.on_epoch_end()

    def end_of_data(self) -> ValueError:
        """Returns the error for data that ended before all requested steps had run."""
        replicas = f" of each of {self.replicas} replicas" if self.replicas > 1 else ""
        return ValueError(
            f"{self._subject}: Your input does not have enough data: it ended before the "
            f"{self.schedule.steps} steps{replicas} of an epoch had run. Call `.repeat()` on the "
            "dataset, or lower the number of steps or of epochs."
        )

    def __iter__(self) -> InfeedIterator:
        return InfeedIterator(self)

    def steps(self) -> tf.data.Iterator:
        """Returns an iterator over steps.

        With several replicas, elements have a leading axis of replicas.
        """
        return iter(self._steps().prefetch(self.prefetch_depth))

    def executions(self, steps: int) -> tf.data.Iterator:
        """Returns an iterator over executions: elements of `steps()` stacked on a new first axis.

        Args:
            steps: Steps of an execution.
        """
        ahead = -(-self.prefetch_depth // steps)
        return iter(self._steps().batch(steps, drop_remainder=True).prefetch(ahead))

    def _steps(self) -> tf.data.Dataset:
        if self.replicas == 1:
            return self.batches.dataset
        return self.batches.dataset.batch(self.replicas, drop_remainder=True)


class InfeedIterator:
    """One pass over an infeed, read either step by step or by executions.

    It is an iterator over itself for Keras' `predict`, which draws the batches of an execution one
    after the other: each object that Keras draws stands for a batch that is still in the infeed.

    Args:
        infeed: The infeed.
    """

    def __init__(self, infeed: Infeed) -> None:
        self.infeed = infeed
        self._steps: tf.data.Iterator | None = None
        self._executions: tf.data.Iterator | None = None

    def __iter__(self) -> InfeedIterator:
        return self

    def __next__(self) -> InfeedIterator:
        return self

    @property
    def steps(self) -> tf.data.Iterator:
        """The iterator over steps."""
        if self._steps is None:
            self._steps = self.infeed.steps()
        return self._steps

    def restart(self) -> None:
        """Reads the infeed from its beginning again."""
        self._steps = self._executions = None

    def next_execution(self, steps: int) -> TensorStructure:
        """Returns the next steps, stacked.

        Args:
            steps: Number of steps; the same in every call.

        Raises:
            StopIteration: The infeed has fewer steps left.
        """
        if self._executions is None:
            self._executions = self.infeed.executions(steps)
        return next(self._executions)


def stack_batch(batch: ArrayStructure, replicas: int) -> TensorStructure:
    """Returns a batch as an execution of one step, the same batch for every replica."""
    axes = [1] if replicas == 1 else [1, replicas]

    def stacked(leaf: TensorLike | None) -> tf.Tensor | None:
        if leaf is None:
            return None
        tensor = tf.convert_to_tensor(leaf)
        return tf.broadcast_to(tensor, [*axes, *tensor.shape])

    return tree.map_structure(stacked, batch)


def split_batch(batch: ArrayStructure, steps: int, replicas: int) -> TensorStructure:
    """Returns a batch as an execution of several steps.

    The first rows are those of step 0 on every replica, then those of step 1 and so on.

    Args:
        batch: A batch whose rows can be divided into `steps * replicas` parts.
        steps: Steps of the execution.
        replicas: Number of replicas.
    """
    axes = [steps] if replicas == 1 else [steps, replicas]

    def split(leaf: TensorLike | None) -> tf.Tensor | None:
        if leaf is None:
            return None
        tensor = tf.convert_to_tensor(leaf)
        rows = tensor.shape[0] // (steps * replicas)
        return tf.reshape(tensor, [*axes, rows, *tensor.shape[1:]])

    return tree.map_structure(split, batch)
