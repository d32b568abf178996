"""`estimate`: the cost of a Keras model's step on the machine, without running it."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from ipu_tf import config as configuration
from ipu_tf.base.batch_size import check_batch_size
from ipu_tf.compiler.batch_axes.extents import NotInferable
from ipu_tf.compiler.batch_axes.resizing import resized
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.config import IPUConfig
from ipu_tf.internals.structures import SpecStructure
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras.adapters.estimates import estimates_of
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data import step_specs
from ipu_tf.keras.data.input_shapes import Shapes
from ipu_tf.keras.deployment.model_pipeline import accumulation_of_model
from ipu_tf.keras.loop.step_checks import check_step
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.steps.block_tracing import trace_equal_blocks_once
from ipu_tf.keras.steps.recompute_argument import (
    Recompute,
    check_recompute,
    keeping,
    with_recomputation,
)
from ipu_tf.keras.steps.step_tracing import (
    check_batch_axis,
    estimated_device,
    trainable,
    training_data,
)
from ipu_tf.keras.steps.training_steps import DeviceStep
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.profile.report import Report
from ipu_tf.programs.checkpoints import with_cheapest_checkpoints
from ipu_tf.programs.insights import has_insights
from ipu_tf.runtime.execution.placeholder_variables import placeholder_variables
from ipu_tf.runtime.extraction import deployments
from ipu_tf.runtime.programs import device_programs


def estimate(
    model: keras.Model | Callable[[], keras.Model],
    *,
    batch_size: int,
    training: bool = True,
    config: IPUConfig | None = None,
    inputs: SpecStructure = None,
    targets: SpecStructure = None,
    batch_axis: int | None = 0,
    input_shapes: Shapes | None = None,
    insights: bool | None = None,
    recompute: Recompute = None,
) -> Report:
    """Returns the report of a model's step: cycles, memory, and whether it fits.

    A training step is the work of a whole weight update: the micro-batches of every replica if the
    model accumulates gradients or the machine has several IPUs.

    Nothing runs, and no memory is used for the weights that `model` makes or for the state of
    its optimizer. The traced step is the model's own `train_step` with its optimizer and loss, or
    its `predict_step`. A model that is not compiled gets SGD and a loss that suits its last
    activation; the report says so.

    A program that does not fit is reported, not raised.

    It may be called in a strategy's scope, whose `report()` does not include the estimate.

    Args:
        model: A model, or a function that makes one. A given model stays as it is; its weights are
            already allocated, whereas those of a function's model never are.
        batch_size: Samples of one micro-batch.
        training: Whether to estimate a training step; otherwise it is a prediction.
        config: The machine; by default the configuration of this process. Either way the
            configuration stays as it is.
        inputs: `tf.TensorSpec`s of the inputs of a model that does not declare them.
        targets: `tf.TensorSpec`s of the targets if the shapes of the outputs do not give them.
        batch_axis: The axis of inputs and outputs that counts samples: 0, or None where none does,
            as for packed graphs. Their shapes are then those of the whole batch, and `batch_size`
            is the number of graphs in it.
        input_shapes: Shapes of inputs that the model leaves open, by name, or that of its only
            input: `{"pixels": (None, 480, 640, 3)}`. They are whole, with None for the batch size.
        insights: Whether the report holds the changes that would gain most, each checked by
            planning again. By default it does, except those of very large programs, which a note
            names; True plans all of them, False none. Other batch sizes are among them unless
            shapes are given, or no axis counts samples.
        recompute: Whether the backward pass recomputes activations; None leaves it to the model
            and the configuration. "auto" finds the checkpoints with which the step fits at the
            fewest cycles, and none if it fits without. A sequence names the layers after which
            activations are kept while others are recomputed.

    Raises:
        NotImplementedError: `model` is a subclass without a `call`.
        RuntimeError: `model` defines its own step that `fit` or `predict` would refuse.
        TypeError: `model` is not a Keras model and makes none, or `config` is not an IPUConfig.
        ValueError: The batch size is not positive or too large, `batch_axis` is neither 0 nor
            None, `recompute` is unknown or names a layer that does not exist, a shape is not static
            or contradicts the model's, the model is a subclass that is
            not compiled, `config` is invalid, or the call is in the scope of a strategy other than
            an IPUStrategy.
        UnsupportedOpcodeError: An operation has no cost and `cfg.simulator.unsupported` is
            "raise".

    Example:
        >>> report = estimate(lambda: keras.applications.ResNet50(weights=None), batch_size=4)
        >>> print(report.summary())
    """
    check_batch_size(batch_size)
    check_batch_axis(batch_axis)
    check_recompute(recompute)
    batched = batch_axis is not None
    with configuration.borrowed_device(estimated_device(config)):
        strategy = _strategy()
        with contextlib.ExitStack() as stack:
            stack.enter_context(strategy.scope())
            stack.enter_context(strategy.programs_apart())
            stack.enter_context(placeholder_variables())
            stack.enter_context(keeping(recompute))
            keras_model = _model_of(model)
            function = "train_step" if training else "predict_step"
            if isinstance(keras_model, StatefulModel):
                check_step(keras_model, function)
            specs_of = functools.partial(
                step_specs.input_specs, keras_model, batched=batched, shapes=input_shapes
            )
            specs = specs_of(batch_size, inputs)
            if not batched:
                stack.enter_context(device_programs.samples_a_run(batch_size))
            # Looked up here: an uncompiled model is replaced by one without options.
            stages = with_recomputation(deployments.deployment_of(keras_model, function), recompute)
            accumulation = _accumulation(keras_model)
            stack.enter_context(deployments.deployment_scope(stages))
            notes: tuple[str, ...] = ()
            if training:
                keras_model, notes = stack.enter_context(
                    trainable(keras_model, ours=keras_model is not model)
                )

            def trace_batch(samples: int, specs: Any) -> None:
                if training:
                    data = training_data(keras_model, specs, targets, samples if batched else None)
                    DeviceStep(strategy, adapter_of(keras_model), accumulation).trace(data)
                else:
                    # In a tuple, as in `predict`: the second item of a list would be the targets.
                    _trace(strategy, keras_model.predict_step, (specs,))

            def trace(samples: int, specs: Any) -> None:
                whole = functools.partial(trace_batch, samples, specs)
                trace_equal_blocks_once(keras_model, whole, training=training)

            def retrace(samples: int) -> None:
                trace(samples, specs_of(samples))

            trace(batch_size, specs)
            report = strategy.report(insights=False)
            if recompute == "auto":
                programs = tuple(map(with_cheapest_checkpoints, report.programs))
                report = dataclasses.replace(report, programs=programs)
            resizable = batched and inputs is targets is input_shapes is None
            if has_insights(insights):
                other_sizes = retrace if resizable else None
                derives = training and not estimates_of(keras_model).runs_own_code
                report = _with_insights(
                    report, other_sizes, all_changes=insights is True, derives=derives
                )
    return dataclasses.replace(report, notes=notes)


def _with_insights(
    report: Report,
    trace: Callable[[int], None] | None,
    *,
    all_changes: bool,
    derives: bool,
) -> Report:
    """Returns a report with insights.

    Args:
        report: The report.
        trace: Traces the step for another number of samples; None if that is not possible.
        all_changes: Whether every change is planned, however long that takes.
        derives: Whether the step for another number of samples may follow from that of the report.
    """
    steps = [program.source.step for program in report.programs if program.source is not None]

    def at_batch_size(samples: int) -> TracedStep:
        assert trace is not None
        if derives and len(steps) == 1:
            with contextlib.suppress(NotInferable, PlanDoesNotFit):
                return resized(steps[0], samples)
        with device_programs.capturing() as devices:
            trace(samples)
        return devices[0]

    at = at_batch_size if trace is not None else None
    with_batches = _with_sources(report, at).with_insights(all_changes=all_changes)
    return _with_sources(with_batches, None)  # Lets go of the model.


def _with_sources(report: Report, at: Callable[[int], TracedStep] | None) -> Report:
    """Returns a report whose programs know how to trace their step for other batch sizes."""
    programs = tuple(
        dataclasses.replace(
            program,
            source=program.source and dataclasses.replace(program.source, at_batch_size=at),
        )
        for program in report.programs
    )
    return dataclasses.replace(report, programs=programs)


def _strategy() -> IPUStrategy:
    """Returns the strategy around the call, or a new one if there is none."""
    if not tf.distribute.has_strategy():
        return IPUStrategy()
    around = tf.distribute.get_strategy()
    if not isinstance(around, IPUStrategy):
        raise ValueError(
            "`estimate` is called in the scope of a strategy that is not an IPUStrategy. Call it "
            f"outside of that scope. Received: {around!r}."
        )
    return around


def _model_of(model: Any) -> keras.Model:
    if isinstance(model, StatefulModel | keras.Model):
        return model
    keras_model = model() if callable(model) else model
    if not isinstance(keras_model, StatefulModel | keras.Model):
        origin = f", made by {model!r}" if keras_model is not model else ""
        raise TypeError(
            "`estimate` takes a keras.Model or a function that makes one. "
            f"Received: {type(keras_model).__name__}{origin}."
        )
    return keras_model


def _accumulation(model: keras.Model) -> GradientAccumulationOptions:
    """Returns how training accumulates gradients."""
    if isinstance(model, StatefulModel):
        return accumulation_of_model(model)
    return GradientAccumulationOptions()


def _trace(strategy: IPUStrategy, step: Callable[[Any], Any], data: Any) -> None:
    """Traces a step for data of these specs; the strategy keeps its program."""

    def run(data: Any) -> Any:
        return strategy.run(step, args=(data,))

    with device_programs.for_figures():
        tf.function(run, autograph=False).get_concrete_function(data)
