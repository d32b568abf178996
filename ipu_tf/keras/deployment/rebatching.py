"""Traces the train step of a Keras model for other batch sizes than that of its data."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import tensorflow as tf
from keras import tree

from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.keras.deployment.model_pipeline import accumulation_of_model
from ipu_tf.keras.steps.own_steps import has_own
from ipu_tf.keras.steps.step_tracing import trace_training
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.runtime.programs import rebatching


@rebatching.register
def retracer(
    model: StatefulModel, function: str, batch: object
) -> Callable[[int], TracedStep | None] | None:
    """Returns a function that traces a model's train step for another number of samples.

    The function returns None once the model is gone. There is none for other steps, for a model's
    own step, and for batches of other things than tensors of inputs and targets.

    Args:
        model: The model; it is not kept alive.
        function: Name of the step.
        batch: The batch that it was traced for.
    """
    own = has_own(model, "train_step")
    if function != "train_step" or own or not isinstance(batch, tuple) or len(batch) != 2:
        return None
    if not all(map(_has_samples, tree.flatten(batch))):
        return None
    alive = weakref.ref(model)
    shapes = tree.map_structure(_without_samples, batch)

    def traced(samples: int) -> TracedStep | None:
        model = alive()
        if model is None:
            return None
        inputs, targets = tree.map_structure(lambda spec: _with(samples, spec), shapes)
        step, _ = trace_training(
            model,
            batch_size=samples,
            inputs=inputs,
            targets=targets,
            accumulation=accumulation_of_model(model),
        )
        return step

    return traced


def _has_samples(leaf: object) -> bool:
    return isinstance(leaf, tf.Tensor) and bool(leaf.shape.rank)


def _without_samples(tensor: tf.Tensor) -> tf.TensorSpec:
    return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)


def _with(samples: int, spec: tf.TensorSpec) -> tf.TensorSpec:
    return tf.TensorSpec([samples, *spec.shape[1:]], spec.dtype)
