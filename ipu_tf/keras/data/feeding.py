"""From checked data to an infeed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import tensorflow as tf
from keras import tree

from ipu_tf.keras.adapters.loops import Batches, LoopAdapter, in_keras
from ipu_tf.keras.data import lengths
from ipu_tf.keras.data.epoch_steps import epoch_steps, within_limit
from ipu_tf.keras.data.infeed import Infeed
from ipu_tf.keras.data.lengths import DataUse
from ipu_tf.keras.data.preparation import Data

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSource:
    """The batches of a method, before the number of replicas is known.

    Attributes:
        batches: The batches that Keras makes of the data.
        restarts: See `epoch_steps`.
    """

    batches: Batches
    restarts: bool


def source(
    loop: LoopAdapter,
    data: Data,
    use: DataUse,
    *,
    shuffle: bool | None,
    class_weight: Mapping[int, float] | None,
) -> BatchSource:
    """Returns the batches of a method.

    Args:
        loop: The loop that reads them.
        data: As `data.prepare` returns it.
        use: The use of the data; replicas and executions do not matter yet.
        shuffle: Whether arrays are shuffled again in every epoch, as in `keras.Model.fit`; None for
            its default. Keras warns if it is set for a dataset.
        class_weight: Weights of the classes, as in `keras.Model.fit`.

    Raises:
        ValueError: Keras does not know this kind of data.
    """
    is_dataset = isinstance(data.x, tf.data.Dataset)
    batch_size = None
    if not is_dataset:
        first = next((leaf for leaf in tree.flatten(data.x) if leaf is not None), None)
        if hasattr(first, "shape"):
            batch_size = lengths.array_batch_size(lengths.axis_length(first), use)
            logger.info(
                "%s: a `tf.data.Dataset` feeds the device faster than arrays do.", use.subject
            )
    batches = loop.batches(
        data.arguments,
        batch_size=batch_size,
        steps=use.steps,
        epochs=use.epochs,
        shuffle=not is_dataset if shuffle is None else shuffle,
        class_weight=class_weight,
    )
    return BatchSource(batches=batches, restarts=not is_dataset)


def infeed(
    loop: LoopAdapter,
    source: BatchSource,
    use: DataUse,
    *,
    prefetch_depth: int,
    of_update: int = 1,
) -> Infeed:
    """Returns the infeed through which the device reads the batches of a method.

    Args:
        loop: The loop that iterates over it.
        source: The batches.
        use: The use of the batches.
        prefetch_depth: Steps that are prepared ahead of the device.
        of_update: Steps of a weight update, or those that fill a pipeline.

    Raises:
        ValueError: The batches do not fill whole executions.
    """
    batches = source.batches
    schedule_of_data = epoch_steps(
        batches.num_batches, use, restarts=source.restarts, of_update=of_update
    )
    schedule, epochs = within_limit(schedule_of_data, use, of_update=of_update)
    feed: Infeed = in_keras(Infeed, loop.data_class)(
        batches,
        schedule,
        subject=use.subject,
        replicas=use.replicas,
        prefetch_depth=prefetch_depth,
        epochs=epochs,
    )
    return feed
