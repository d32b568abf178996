"""Steps of the vendor's earlier releases, each a weight update of several batches.

`steps_per_epoch`, `steps` and `steps_per_run` counted updates, and every epoch read its data from
the beginning.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

from ipu_tf.keras.data.epoch_steps import WHOLE_EPOCH
from ipu_tf.keras.data.lengths import KERAS_BATCH_SIZE
from ipu_tf.keras.deployment.model_pipeline import replicas_on_device

_LOG = logging.getLogger(__name__)

_Base: Any = object  # Each Keras has models of its own, which subclasses name.


class StepsAreUpdates(_Base):
    """Counts a model's steps in weight updates, and runs each epoch with one call of the device.

    Attributes:
        gradient_accumulation_count: Micro-batches of a weight update on each replica.
    """

    gradient_accumulation_count = 1

    def compile(self, *args: object, **kwargs: object) -> None:
        """See `tf_keras.Model.compile`; a call of the device runs an epoch."""
        super().compile(*args, **{"steps_per_execution": WHOLE_EPOCH, **kwargs})

    def fit(
        self,
        x: object = None,
        y: object = None,
        batch_size: int | None = None,
        *args: object,
        **kwargs: object,
    ) -> tf_keras.callbacks.History:
        """See `tf_keras.Model.fit`; also takes `steps_per_run` and `prefetch_depth`."""
        stock = super().fit
        return self._run(stock, "steps_per_epoch", (x, y), batch_size, args, kwargs)

    def evaluate(
        self,
        x: object = None,
        y: object = None,
        batch_size: int | None = None,
        *args: object,
        **kwargs: object,
    ) -> float | list[float] | dict[str, float]:
        """See `tf_keras.Model.evaluate`; also takes `steps_per_run` and `prefetch_depth`."""
        stock = super().evaluate
        return self._run(stock, "steps", (x, y), batch_size, args, kwargs)

    def predict(
        self, x: object, batch_size: int | None = None, *args: object, **kwargs: object
    ) -> np.ndarray | list[np.ndarray]:
        """See `tf_keras.Model.predict`; also takes `steps_per_run` and `prefetch_depth`."""
        stock = super().predict
        return self._run(stock, "steps", (x,), batch_size, args, kwargs)

    def _run(
        self: Any,
        method: Any,
        steps_argument: str,
        data: tuple[Any, ...],
        batch_size: int | None,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        """Runs a method of Keras on the batches of whole weight updates."""
        of_run, depth = kwargs.pop("steps_per_run", None), kwargs.pop("prefetch_depth", None)
        if depth is not None:
            self.set_infeed_queue_options(prefetch_depth=depth)
        count, steps = self.gradient_accumulation_count, kwargs.get(steps_argument)
        if steps is not None:
            kwargs[steps_argument] = steps = steps * count
        if isinstance(data[0], tf.data.Dataset):
            data = (of_epoch(data[0], steps), *data[1:])
        elif all(hasattr(array, "shape") for array in tf.nest.flatten(_parts(data))):
            batch_size = batch_size or KERAS_BATCH_SIZE
            of_update = count * replicas_on_device(self)
            data = _update_samples(
                data, batch_size, steps, of_update, subject=f"model '{self.name}'"
            )
        compiled = self.steps_per_execution
        if of_run is not None:
            self.steps_per_execution = of_run * count
        try:
            return method(*data, batch_size, *args, **kwargs)
        finally:
            self.steps_per_execution = compiled


def of_epoch(dataset: tf.data.Dataset, batches: int | None) -> tf.data.Dataset:
    """Returns a dataset of an epoch's batches, which every epoch reads from its beginning."""
    length = int(dataset.cardinality())
    if batches is None or length == tf.data.INFINITE_CARDINALITY:
        return dataset
    epoch = dataset.take(batches)
    if length == tf.data.UNKNOWN_CARDINALITY:
        return epoch.apply(tf.data.experimental.assert_cardinality(batches))
    return epoch


def _update_samples(
    data: tuple[Any, ...], batch_size: int, batches: int | None, of_update: int, *, subject: str
) -> tuple[Any, ...]:
    """Returns the first samples of arrays that make whole weight updates; logs a warning.

    Args:
        data: The arrays; None where there are none.
        batch_size: Samples of a batch.
        batches: Batches of an epoch, None for all whole updates.
        of_update: Batches of a weight update on all replicas.
        subject: The beginning of the warning.
    """
    samples = min(len(array) for array in tf.nest.flatten(_parts(data)))
    steps = samples // batch_size // of_update * of_update if batches is None else batches
    size = steps * batch_size
    if not 0 < size < samples:
        return data  # All of them, or an error follows.
    if batches is None:
        _LOG.warning(
            "%s: the last %d of %d samples are dropped, because a weight update takes %d batches "
            "of %d samples.",
            subject,
            samples - size,
            samples,
            of_update,
            batch_size,
        )
    return tuple(tf.nest.map_structure(lambda array: array[:size], part) for part in data)


def _parts(data: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(part for part in data if part is not None)
