"""From checked data to an infeed."""

from __future__ import annotations

import logging
from typing import Any

import keras
import tensorflow as tf

from ipu_tf._private import keras_data_adapter
from ipu_tf.keras import lengths
from ipu_tf.keras.data import Data
from ipu_tf.keras.infeed import Infeed
from ipu_tf.keras.lengths import Use

logger = logging.getLogger(__name__)


def infeed(data: Data, use: Use, *, shuffle: Any, class_weight: Any, prefetch_depth: int) -> Infeed:
    """Returns the data of a method as the device reads it.

    Args:
        data: As `data.prepare` returns it.
        use: What it is for.
        shuffle: Whether arrays are shuffled anew in every epoch, as in `keras.Model.fit`.
        class_weight: Weights of the classes, as in `keras.Model.fit`.
        prefetch_depth: Steps that are prepared ahead of the device.

    Raises:
        ValueError: Keras does not know data of this kind, or it makes no whole executions.
    """
    is_dataset = isinstance(data.x, tf.data.Dataset)
    batch_size = None
    if not is_dataset:
        first = next((leaf for leaf in keras.tree.flatten(data.x) if leaf is not None), None)
        if hasattr(first, "shape"):
            batch_size = lengths.array_batch_size(lengths.axis_length(first), use)
            logger.info(
                "%s: a `tf.data.Dataset` feeds the device faster than arrays do.", use.subject
            )
    adapter = keras_data_adapter(
        x=data.x,
        y=data.y,
        sample_weight=data.sample_weight,
        batch_size=batch_size,
        steps_per_epoch=use.steps,
        shuffle=shuffle,
        class_weight=class_weight,
    )
    return Infeed(
        adapter,
        lengths.schedule(adapter.num_batches, use),
        subject=use.subject,
        replicas=use.replicas,
        prefetch_depth=prefetch_depth,
    )
