"""What Keras keeps private of the training of models: losses, metrics, loops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import keras
import tensorflow as tf

# What `compile` keeps: the losses and the metrics of all outputs, which Keras does not export.
from keras.src.trainers.compile_utils import CompileLoss as KerasCompiledLoss
from keras.src.trainers.compile_utils import CompileMetrics as KerasCompiledMetrics

# What `fit` reads batches from, which is no argument of public functions.
from keras.src.trainers.epoch_iterator import EpochIterator as KerasEpochIterator

from ipu_tf.internals.structures import SpecStructure, TensorStructure

Metrics: TypeAlias = (
    "str | Callable[..., tf.Tensor] | Sequence[Metrics] | Mapping[str, Metrics] | None"
)
"""Metrics, by name or as functions or objects, or those of the outputs."""


def compute_loss(model: keras.Model, **arguments: TensorStructure | bool) -> tf.Tensor:
    """Returns the loss of a model, also of one whose `compute_loss` takes no `training`.

    Keras' own train step calls it so. Relies on `Trainer._compute_loss`.
    """
    return model._compute_loss(**arguments)


def has_loss(model: keras.Model) -> bool:
    """Returns whether a model is compiled with a loss, or its layers add one.

    Relies on `Trainer._compile_loss`.
    """
    return model._compile_loss is not None or bool(model.losses)


def added_losses_of(model: keras.Model) -> list[tf.Tensor]:
    """Returns the losses of a model's layers, as a step adds them to the compiled loss.

    Relies on `Trainer._aggregate_additional_loss`.
    """
    return [model._aggregate_additional_loss(loss) for loss in model.losses]


def forget_loss_and_metrics(model: keras.Model) -> None:
    """Removes the loss and the metrics that a model is compiled with.

    `compile` keeps those that it does not get. Relies on `Trainer._compile_loss` and
    `Trainer._compile_metrics`.
    """
    model.loss = model._compile_loss = model._compile_metrics = None


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


def result_names_of(model: keras.Model) -> list[str]:
    """Returns the names of a model's results: the loss, those of outputs, metrics.

    Those of an output stand together: its metrics, then its weighted ones. The public
    `metrics_names` has one name for all metrics of `compile`. Relies on the attributes
    of `Trainer` that hold them. Empty before the metrics are built.
    """
    compiled, losses = model._compile_metrics, model._compile_loss
    if compiled is not None and not compiled.built:
        return []
    of_trainer = [model._loss_tracker, compiled, *(losses.metrics if losses is not None else ())]
    others = [metric for metric in model.metrics if not any(metric is own for own in of_trainer)]
    names = [metric.name for metric in of_trainer if metric not in (None, compiled)]
    names += [] if compiled is None else _compiled_names_by_output(compiled)
    return names + [metric.name for metric in others]


def _compiled_names_by_output(compiled: KerasCompiledMetrics) -> list[str]:
    """Returns the names of the metrics of `compile`, output by output.

    Relies on the lists of `CompileMetrics`: one of metrics and one of weighted metrics, each with
    an entry an output; its results have the order of their metrics.
    """
    outputs = [
        output
        for of_outputs in (compiled._flat_metrics, compiled._flat_weighted_metrics)
        for output, entry in enumerate(of_outputs)
        for _ in (entry.metrics if entry else ())
    ]
    numbered = sorted(zip(outputs, compiled.result(), strict=True), key=lambda pair: pair[0])
    return [name for _, name in numbered]


def change_unbuilt_metrics(
    compiled: KerasCompiledMetrics, change: Callable[[Metrics], Metrics]
) -> None:
    """Changes the metrics that a script gave `compile`, unless Keras has made them already.

    Relies on `CompileMetrics._user_metrics` and `_user_weighted_metrics`.

    Args:
        compiled: The metrics of a compiled model.
        change: Returns the metrics to use in place of those given.
    """
    if not compiled.built:
        compiled._user_metrics = change(compiled._user_metrics)
        compiled._user_weighted_metrics = change(compiled._user_weighted_metrics)
