"""Exports a step of prediction as a SavedModel.

A SavedModel holds the step in stock TensorFlow ops, so it runs with and without `ipu_tf`; in
`strategy.run` its contractions become tile ops again. The work before and after the step on the
host is part of the exported function.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ipu_tf.ops.pipelining_ops import PipelineSchedule, PipelineStageOptions
from ipu_tf.serving import signatures
from ipu_tf.serving.program_files import ProgramParts, export_parts
from ipu_tf.serving.serving_step import ServedStep, served_function
from ipu_tf.serving.signatures import StepSignature
from ipu_tf.serving.staged_step import served_stages

if TYPE_CHECKING:
    import keras

Step = Callable[..., object]
Signature = Sequence[tf.TensorSpec]
Names = str | Sequence[str]


def export_single_step(
    predict_step: Step,
    export_dir: str | os.PathLike[str],
    iterations: int,
    predict_step_signature: Signature | None = None,
    input_dataset: tf.data.Dataset | None = None,
    output_names: Names | None = None,
    preprocessing_step: Step | None = None,
    preprocessing_step_signature: Signature | None = None,
    postprocessing_step: Step | None = None,
    postprocessing_step_signature: Signature | None = None,
    purge_export_dir: bool = False,
) -> tf.types.experimental.GenericFunction:
    """Writes a SavedModel of a step of prediction.

    Args:
        predict_step: The step, which the device runs.
        export_dir: Folder of the SavedModel; it must be empty or not exist.
        iterations: Steps of one execution of the device.
        predict_step_signature: Shapes and dtypes of the inputs of the step, unless it is a
            tf.function with an `input_signature`, or follows from the other arguments.
        input_dataset: A dataset whose elements are inputs of the step, in place of a signature.
        output_names: Names of the outputs in the signature of the SavedModel; by default those of
            a dict, else "output_0", "output_1" and so on.
        preprocessing_step: Makes the inputs of the step, on the host.
        preprocessing_step_signature: Shapes and dtypes of its inputs, which are then those of the
            SavedModel, unless it is a tf.function with an `input_signature`.
        postprocessing_step: Takes the outputs of the step, on the host.
        postprocessing_step_signature: Shapes and dtypes of these outputs.
        purge_export_dir: Whether to empty the folder first.

    Returns:
        A tf.function of the exported signature that runs the step as a program of the device. It
        returns a list of outputs, a dict if they have names, or the results of
        `postprocessing_step`.

    Raises:
        TypeError: A signature is no list of `tf.TensorSpec`, or the dataset is none.
        ValueError: The folder is not empty, there is no signature or more than one, a shape is not
            static, steps do not fit each other, or names are not those of the outputs.
    """
    before = signature_before(preprocessing_step, preprocessing_step_signature)
    signature = predict_signature(
        predict_step, predict_step_signature, input_dataset, preprocessing_step, before
    )
    return export_step(
        served_function(predict_step, signature, iterations),
        export_dir,
        output_names=output_names,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=preprocessing_step_signature,
        postprocessing_step=postprocessing_step,
        postprocessing_step_signature=postprocessing_step_signature,
        purge_export_dir=purge_export_dir,
    )


def export_pipeline(
    computational_stages: Sequence[Step],
    export_dir: str | os.PathLike[str],
    iterations: int,
    inputs: Sequence[tf.Tensor] | None = None,
    device_mapping: Sequence[int] | None = None,
    pipeline_schedule: PipelineSchedule | None = None,
    poplar_options: Sequence[PipelineStageOptions] | None = None,
    name: str | None = None,
    predict_step_signature: Signature | None = None,
    input_dataset: tf.data.Dataset | None = None,
    output_names: Names | None = None,
    preprocessing_step: Step | None = None,
    preprocessing_step_signature: Signature | None = None,
    postprocessing_step: Step | None = None,
    postprocessing_step_signature: Signature | None = None,
    purge_export_dir: bool = False,
) -> tf.types.experimental.GenericFunction:
    """Writes a SavedModel of stage functions that the device runs as a pipeline.

    In the file the stages run one after the other, as one function.

    Args:
        computational_stages: A function for each stage; the first one takes `inputs` and the inputs
            of the SavedModel, each later one the results of the stage before it.
        export_dir: See `export_single_step`, as for all that are not described.
        iterations: Micro-batches of one execution of the pipeline.
        inputs: Values for the first stage, the same for every micro-batch.
        device_mapping: IPU of each stage; stage i is on IPU i by default.
        pipeline_schedule: Order of the stages; Grouped by default.
        poplar_options: Options of each stage.
        name: Name of the pipeline.
        predict_step_signature: See there; of the first stage, without `inputs`.

    Returns:
        A tf.function of the exported signature that runs a micro-batch on the device.

    Raises:
        TypeError: See `export_single_step`, or an argument of the pipeline is of another type.
        ValueError: See there, or an argument of the pipeline is out of its range.
        tf.errors.FailedPreconditionError: The iterations do not fill the schedule.
    """
    if not isinstance(computational_stages, list | tuple) or len(computational_stages) < 2:
        raise ValueError(
            "`export_pipeline` takes a list of at least two computational stages. "
            f"Received: computational_stages={computational_stages!r}."
        )
    signature = predict_signature(
        computational_stages[0],
        predict_step_signature,
        input_dataset,
        preprocessing_step,
        signature_before(preprocessing_step, preprocessing_step_signature),
        skipped=len(inputs or ()),
    )
    served = served_stages(
        computational_stages,
        signature,
        iterations,
        inputs=inputs,
        device_mapping=device_mapping,
        pipeline_schedule=pipeline_schedule,
        poplar_options=poplar_options,
        name=name,
    )
    return export_step(
        served,
        export_dir,
        output_names=output_names,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=preprocessing_step_signature,
        postprocessing_step=postprocessing_step,
        postprocessing_step_signature=postprocessing_step_signature,
        purge_export_dir=purge_export_dir,
    )


def export_keras(
    model: keras.Model,
    export_dir: str | os.PathLike[str],
    batch_size: int | None = None,
    output_names: Names | None = None,
    preprocessing_step: Step | None = None,
    preprocessing_step_signature: Signature | None = None,
    postprocessing_step: Step | None = None,
    postprocessing_step_signature: Signature | None = None,
    purge_export_dir: bool = False,
) -> tf.types.experimental.GenericFunction:
    """Writes a SavedModel of a Keras model; see `export_for_ipu_serving` of the model.

    Raises:
        ValueError: The model was not made in the scope of an IPUStrategy; and as the method.
    """
    if not hasattr(model, "export_for_ipu_serving"):
        raise ValueError(
            "`export_keras` takes a Keras model that was made in the scope of an IPU strategy. "
            f"Received: {model!r}."
        )
    return model.export_for_ipu_serving(
        export_dir,
        batch_size=batch_size,
        output_names=output_names,
        preprocessing_step=preprocessing_step,
        preprocessing_step_signature=preprocessing_step_signature,
        postprocessing_step=postprocessing_step,
        postprocessing_step_signature=postprocessing_step_signature,
        purge_export_dir=purge_export_dir,
    )


def export_step(
    served: ServedStep,
    export_dir: str | os.PathLike[str],
    *,
    output_names: Names | None,
    preprocessing_step: Step | None,
    preprocessing_step_signature: Signature | None,
    postprocessing_step: Step | None,
    postprocessing_step_signature: Signature | None,
    purge_export_dir: bool,
    strategy: tf.distribute.Strategy | None = None,
) -> tf.types.experimental.GenericFunction:
    """Writes a SavedModel of a step of the device; see `export_single_step`.

    Args:
        served: The step with its inputs.
        export_dir: See there, as for all that are not described.
        strategy: The strategy that runs the returned function; None for that in force.
    """
    signatures.check_static("predict_step", served.signature)
    after = _signature_after(postprocessing_step, postprocessing_step_signature)
    parts = ProgramParts(
        served=served,
        preprocessing=preprocessing_step,
        before=signature_before(preprocessing_step, preprocessing_step_signature),
        postprocessing=postprocessing_step,
        after=after,
        output_names=_names(output_names),
    )
    return export_parts(parts, export_dir, purge=purge_export_dir, strategy=strategy)


def predict_signature(
    predict_step: Step,
    signature: Signature | None,
    dataset: tf.data.Dataset | None,
    preprocessing_step: Step | None,
    before: StepSignature | None,
    *,
    skipped: int = 0,
) -> StepSignature:
    """Returns the signature of a step of the device: given, declared, or that of other arguments.

    Args:
        predict_step: The step.
        signature: Its signature, or None.
        dataset: A dataset of its inputs, or None.
        preprocessing_step: The step before it, or None.
        before: The signature of the step before it.
        skipped: Number of first parameters of the step that are no inputs.

    Raises:
        TypeError: See `export_single_step`.
        ValueError: See `export_single_step`.
    """
    if signature is not None and dataset is not None:
        raise ValueError(
            "Both `predict_step_signature` and `input_dataset` are given: pass one of them."
        )
    of_step = signatures.step_signature("predict_step", predict_step, signature, skipped=skipped)
    if dataset is not None:
        of_dataset = signatures.dataset_signature(predict_step, dataset, skipped=skipped)
        return of_dataset if of_step is None else of_step
    if of_step is not None:
        return of_step
    if preprocessing_step is None or before is None:
        raise ValueError(
            "The inputs of `predict_step` are unknown: pass `predict_step_signature` or "
            "`input_dataset`, or make it a tf.function with an input_signature."
        )
    step = tf.function(lambda *inputs: signatures.call_step(preprocessing_step, inputs))
    results = step.get_concrete_function(*before.specs).structured_outputs
    return signatures.signature_of_results(predict_step, results, skipped)


def signature_before(step: Step | None, signature: Signature | None) -> StepSignature | None:
    """Returns the signature of the step before that of the device, None for no such step.

    Raises:
        TypeError: See `export_single_step`.
        ValueError: The step is given without its signature, or the signature without the step.
    """
    if step is None:
        _refuse_lonely("preprocessing_step", signature)
        return None
    of_step = signatures.step_signature("preprocessing_step", step, signature)
    if of_step is None:
        raise ValueError(
            "The inputs of `preprocessing_step` are unknown: pass `preprocessing_step_signature`, "
            "or make it a tf.function with an input_signature."
        )
    return of_step


def _signature_after(step: Step | None, signature: Signature | None) -> StepSignature | None:
    if step is None:
        _refuse_lonely("postprocessing_step", signature)
        return None
    return signatures.step_signature("postprocessing_step", step, signature)


def _refuse_lonely(argument: str, signature: Signature | None) -> None:
    if signature is not None:
        raise ValueError(f"`{argument}_signature` is given without a `{argument}`.")


def _names(names: Any) -> tuple[str, ...] | None:
    if names is None:
        return None
    all_names = [names] if isinstance(names, str) else names
    if not isinstance(all_names, list | tuple) or not all(
        isinstance(name, str) for name in all_names
    ):
        raise TypeError(f"`output_names` must be a name or a list of names. Received: {names!r}.")
    return tuple(all_names)
