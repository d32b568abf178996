"""The steps of the training loop; the adapters open the scopes for work that belongs to no layer.

Reports list work by the scope of the object that requests it: losses are in "loss", metrics in
"metrics", an update is in the scope of its optimizer.
"""

from __future__ import annotations

import warnings

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.models import ModelAdapter, OptimizerAdapter, StepBatch


def optimizer_of(model: ModelAdapter) -> OptimizerAdapter:
    """Returns the optimizer of a model that is about to be updated.

    Raises:
        RuntimeError: It is compiled without one.
    """
    optimizer = model.optimizer
    if optimizer is None:
        raise RuntimeError(
            f"Model '{model.name}' cannot train: it is compiled without an optimizer. Compile it "
            'with one, for example model.compile(optimizer="adam", loss="mse"). '
            "Received: optimizer=None."
        )
    return optimizer


def scaled(model: ModelAdapter, loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss to differentiate: the loss scaled by the optimizer."""
    optimizer = model.optimizer
    return loss if optimizer is None else optimizer.scaled(loss)


def train_step(model: ModelAdapter, data: TensorStructure) -> TensorStructure:
    """Returns the logs of a training step; see `keras.Model.train_step`."""
    x, y, sample_weight = model.unpacked(data)
    with tf.GradientTape() as tape:
        y_pred = model.outputs(x, training=True)
        batch = StepBatch(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
        loss = model.loss(batch, training=True)
        model.track_loss(loss, x)
        loss = scaled(model, loss)
    weights = model.trainable_weights
    if weights:
        optimizer_of(model).update(tape, loss, weights)
    else:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)
    return model.metrics(batch)


def test_step(model: ModelAdapter, data: TensorStructure) -> TensorStructure:
    """Returns the logs of a step of evaluation; see `keras.Model.test_step`."""
    x, y, sample_weight = model.unpacked(data)
    y_pred = model.outputs(x, training=False)
    batch = StepBatch(x=x, y=y, y_pred=y_pred, sample_weight=sample_weight)
    model.track_loss(model.loss(batch, training=False), x)
    return model.metrics(batch)
