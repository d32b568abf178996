"""What Keras keeps private of the training of models: losses, metrics, loops."""

from __future__ import annotations

from collections.abc import Callable

import keras
import tensorflow as tf

# What `fit` reads batches from, which is no argument of public functions.
from keras.src.trainers.epoch_iterator import EpochIterator as KerasEpochIterator

from ipu_tf.internals.structures import SpecStructure, TensorStructure


def compute_loss(model: keras.Model, **arguments: TensorStructure | bool) -> tf.Tensor:
    """Returns the loss of a model, also of one whose `compute_loss` takes no `training`.

    Keras' own train step calls it so. Relies on `Trainer._compute_loss`.
    """
    return model._compute_loss(**arguments)


def loss_tracker_of(model: keras.Model) -> keras.metrics.Mean:
    """Returns the mean of a compiled model's loss.

    The public `Model.metrics` has it among others. Relies on `Trainer._loss_tracker`.
    """
    return model._loss_tracker


def build_for_training(model: keras.Model, batch: TensorStructure | SpecStructure) -> None:
    """Builds the layers, optimizer, loss and metrics of a model for a batch, as `fit` does.

    No public method builds loss and metrics. Relies on `Trainer._symbolic_build`.

    Args:
        model: A compiled model.
        batch: A structure of data or of its specs.
    """
    model._symbolic_build(data_batch=batch)


def build_missing_parts(model: keras.Model, batch: TensorStructure | SpecStructure) -> None:
    """Builds what `fit` would build of a model for a batch, unless it is built already.

    No public method builds loss and metrics. Relies on `Trainer._maybe_symbolic_build`.

    Args:
        model: A model.
        batch: A structure of data or of its specs.
    """
    model._maybe_symbolic_build(data_batch=batch)


def element_spec_of(epoch_iterator: KerasEpochIterator) -> SpecStructure:
    """Returns the specification of the batches of the iterator that `fit` reads.

    Reading a batch would lose it. Relies on `EpochIterator._get_iterator`, which gives TensorFlow's
    dataset.
    """
    return epoch_iterator._get_iterator().element_spec


def set_validation_steps(model: keras.Model, steps_per_execution: int) -> None:
    """Sets how many steps at once the validation data is read in, which `fit` reads.

    `fit` takes it from the training. Relies on `Trainer._eval_epoch_iterator`.
    """
    model._eval_epoch_iterator.steps_per_execution = steps_per_execution


def function_of(loss_or_metric: object) -> Callable[..., object] | None:
    """Returns the function that a loss or a metric wraps, None if it wraps none.

    The public classes of wrapped functions do not tell the function. Relies on
    `LossFunctionWrapper.fn` and `MeanMetricWrapper._fn`.
    """
    return getattr(loss_or_metric, "fn", None) or getattr(loss_or_metric, "_fn", None)
