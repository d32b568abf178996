"""Exports a model's step of prediction as a SavedModel."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypedDict, Unpack

import tensorflow as tf
from keras import tree

from ipu_tf.internals.structures import DType, SpecStructure, TensorStructure
from ipu_tf.keras.adapters.estimates import estimates_of
from ipu_tf.keras.adapters.graphs import Structure
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data.lengths import positive_integer
from ipu_tf.keras.data.narrowing import NARROWER
from ipu_tf.keras.data.step_specs import input_specs
from ipu_tf.keras.steps.own_steps import step_of_loop
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.serving.export import Names, Signature, Step, export_step
from ipu_tf.serving.serving_step import Arguments, ServedStep
from ipu_tf.serving.signatures import StepSignature


class StepsAndNames(TypedDict):
    """The arguments of `export_for_ipu_serving` that are those of `export_single_step`, too."""

    output_names: Names | None
    preprocessing_step: Step | None
    preprocessing_step_signature: Signature | None
    postprocessing_step: Step | None
    postprocessing_step_signature: Signature | None
    purge_export_dir: bool


def export_model(
    model: StatefulModel,
    export_dir: str | os.PathLike[str],
    batch_size: int | None,
    **steps_and_names: Unpack[StepsAndNames],
) -> tf.types.experimental.GenericFunction:
    """Writes a SavedModel of a model; see `IPUExtensions.export_for_ipu_serving`.

    Args:
        model: The model.
        export_dir: Folder of the SavedModel.
        batch_size: Samples of a batch, or None.
        **steps_and_names: The further arguments of `export_for_ipu_serving`.
    """
    # A model that is never called, as its steps are its own, is not built, but its layers are.
    if not (model.built or (model.layers and adapter_of(model).layers_are_built)):
        raise RuntimeError(
            f"Weights for model '{model.name}' have not yet been created: call or build the model "
            "before it is exported."
        )
    structure = _specs(model, batch_size)
    flat = tree.flatten(structure)
    names = _input_names(model, len(flat))
    specs = tuple(
        tf.TensorSpec(spec.shape, spec.dtype, name) for spec, name in zip(flat, names, strict=True)
    )

    def arguments(inputs: Sequence[TensorStructure]) -> Arguments:
        batch = tree.pack_sequence_as(structure, list(inputs))
        # As `predict` gives it: in a tuple, structures are not taken for inputs and targets.
        return ((batch,) if tree.is_nested(structure) else batch,), {}

    step = ServedStep(
        step=step_of_loop(model, "predict_step"),
        arguments=arguments,
        signature=StepSignature(specs=specs),
        iterations=model.steps_per_execution,
        resources=(model,),
    )
    strategy = model.distribute_strategy
    with strategy.scope():  # The `call` of a model may open pipeline stages.
        return export_step(step, export_dir, strategy=strategy, **steps_and_names)


def _specs(model: StatefulModel, batch_size: int | None) -> SpecStructure:
    """Returns the specs of a batch of a model's inputs, in the model's structure."""
    estimate = estimates_of(model)
    inputs, specs = estimate.inputs, None
    if inputs is None:
        specs = model.ipu_layer_calls.seen_inputs  # They have types, too.
        specs = estimate.built_inputs if specs is None else specs
    if batch_size is None:
        batch_size = _known_batch_size(model, inputs if specs is None else specs)
    positive_integer(batch_size, "`export_for_ipu_serving`: `batch_size`")
    if specs is None:
        return input_specs(model, batch_size)
    return tree.map_structure(
        lambda spec: _narrow_spec((batch_size, *spec.shape[1:]), spec.dtype), specs
    )


def _narrow_spec(shape: Sequence[int], dtype: DType) -> tf.TensorSpec:
    name = tf.as_dtype(dtype).name
    return tf.TensorSpec(shape, NARROWER.get(name, name))


def _known_batch_size(model: StatefulModel, inputs: Structure) -> int:
    shapes = [tuple(one.shape) for one in tree.flatten(inputs) if one is not None]
    if not shapes or not shapes[0] or shapes[0][0] is None:
        raise ValueError(
            f"The batch size of model '{model.name}' is undefined: pass `batch_size` to "
            "`export_for_ipu_serving`, or make the model with a batch size, as by "
            "keras.Input(shape, batch_size=8)."
        )
    return int(shapes[0][0])


def _input_names(model: StatefulModel, count: int) -> list[str]:
    try:
        names = [tensor.name.replace("/", "_") for tensor in tree.flatten(model.inputs)]
    except (AttributeError, ValueError):
        names = []
    if len(names) == count and len(set(names)) == count:
        return names
    return ["input"] if count == 1 else [f"input_{number}" for number in range(count)]
