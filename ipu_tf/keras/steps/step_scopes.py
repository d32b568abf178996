"""The steps of Keras' training loop, with scopes for the work that belongs to no layer.

Reports list work by the scope of the Keras object that requests it. Keras opens no scope for
losses of a model and for metrics, nor for operations such as `x + y` in a functional model: here
the scopes are "loss", "metrics" and the name of the operation. A user's layer of the same name
shares the scope.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals.keras_layers import takes_training
from ipu_tf.internals.keras_training import compute_loss, loss_tracker_of
from ipu_tf.ops import grad_util_ops
from ipu_tf.programs.op_names import LOSS, METRICS


def loss_of(model: keras.Model, *, training: bool, **batch: Any) -> tf.Tensor:
    """Returns the loss of a model, in its scope.

    Args:
        model: A compiled model.
        training: Whether the step trains.
        **batch: `x`, `y`, `y_pred` and `sample_weight`.
    """
    with keras.name_scope(LOSS):
        return compute_loss(model, **batch, training=training)


def track_loss(model: keras.Model, loss: tf.Tensor, x: Any) -> None:
    """Adds a loss to the mean that logs show, weighted with the samples of `x`."""
    first = next(leaf for leaf in keras.tree.flatten(x) if leaf is not None)
    with keras.name_scope(METRICS):
        loss_tracker_of(model).update_state(loss, sample_weight=tf.shape(first)[0])


def metrics_of(model: keras.Model, **batch: Any) -> Any:
    """Returns the logs of a step, computed in the scope of metrics; see `loss_of`."""
    with keras.name_scope(METRICS):
        return model.compute_metrics(**batch)


def scaled(model: keras.Model, loss: tf.Tensor) -> tf.Tensor:
    """Returns the loss to differentiate: the loss scaled by the optimizer."""
    if model.optimizer is None:
        return loss
    with keras.name_scope(LOSS):
        return model.optimizer.scale_loss(loss)


def gradients_of(
    model: keras.Model, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Any]
) -> list[Any]:
    """Returns the gradients of a loss, those of the optimizer's `gradients_on_tape` if it has one.

    Args:
        model: A compiled model.
        tape: Recorded the loss.
        loss: The loss to differentiate.
        weights: Weights of the model.
    """
    own = getattr(model.optimizer, "gradients_on_tape", None)
    gradients: list[Any] = tape.gradient(loss, weights) if own is None else own(tape, loss, weights)
    return gradients


def apply_gradients(model: keras.Model, pairs: Iterable[Any], **arguments: Any) -> None:
    """Updates the weights, and the optimizer's count of updates, in the optimizer's scope.

    Args:
        model: A compiled model.
        pairs: Gradients and their weights.
        **arguments: Further arguments of the optimizer's `apply_gradients`.
    """
    with keras.name_scope(model.optimizer.name, caller=model.optimizer):
        model.optimizer.apply_gradients(pairs, **arguments)


def update(
    model: keras.Model, tape: tf.GradientTape, loss: tf.Tensor, weights: Sequence[Any]
) -> None:
    """Updates weights by the gradients of a loss, or lets the optimizer's `minimize_on_tape` do it.

    Args:
        model: A compiled model.
        tape: Recorded the loss.
        loss: The loss to differentiate.
        weights: Weights of the model.
    """
    own = getattr(model.optimizer, "minimize_on_tape", None)
    with keras.name_scope(model.optimizer.name, caller=model.optimizer):
        if own is not None and own(tape, loss, weights):
            return
    pairs = zip(gradients_of(model, tape, loss, weights), weights, strict=True)
    apply_gradients(model, pairs, **_captured_for(model.optimizer))


def _captured_for(optimizer: Any) -> dict[str, Any]:
    """Returns the captured gradients for an optimizer of a script that says that it takes them."""
    takes = getattr(optimizer, "supports_captured_grads", False)
    if not takes or hasattr(optimizer, "count_captured"):  # It takes them itself.
        return {}
    captured = grad_util_ops.take_captured_gradients()
    return {"captured_grads": captured} if captured else {}


def in_own_scope(operation: Any, call: Callable[..., Any]) -> Callable[..., Any]:
    """Returns a call of an operation, in a scope of its name unless it is a layer, which has one.

    Args:
        operation: A Keras operation.
        call: The function that calls it.
    """
    if isinstance(operation, keras.Layer):
        return call

    def call_in_scope(*args: Any, **kwargs: Any) -> Any:
        # Keras builds the layers of functional models at top level, too, not in the model's scope.
        with keras.name_scope(operation.name, override_parent=""):
            return call(*args, **kwargs)

    return call_in_scope


def train_step(model: keras.Model, data: Any) -> Any:
    """Returns the logs of a training step; see `keras.Model.train_step`."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    with tf.GradientTape() as tape:
        y_pred = model(x, training=True) if takes_training(model) else model(x)
        batch = {"x": x, "y": y, "y_pred": y_pred, "sample_weight": sample_weight}
        loss = loss_of(model, training=True, **batch)
        track_loss(model, loss, x)
        loss = scaled(model, loss)
    weights = model.trainable_weights
    if weights:
        update(model, tape, loss, weights)
    else:
        warnings.warn("The model does not have any trainable weights.", stacklevel=2)
    return metrics_of(model, **batch)


def test_step(model: keras.Model, data: Any) -> Any:
    """Returns the logs of a step of evaluation; see `keras.Model.test_step`."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    y_pred = model(x, training=False) if takes_training(model) else model(x)
    batch = {"x": x, "y": y, "y_pred": y_pred, "sample_weight": sample_weight}
    track_loss(model, loss_of(model, training=False, **batch), x)
    return metrics_of(model, **batch)
