"""`estimate`: what a step of a Keras model costs on the machine, without running it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from ipu_tf import config as configuration
from ipu_tf.config import DeviceConfiguration, IPUConfig
from ipu_tf.config.resolve import resolve
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras import step_data
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.pipeline.extension import PipelineExtensions
from ipu_tf.keras.training_steps import DeviceStep
from ipu_tf.profile.report import Report
from ipu_tf.runtime import device_programs, pipelines
from ipu_tf.runtime.device_programs import TracedStep
from ipu_tf.runtime.untouched import untouched_variables

_RATE = 0.01
"""Learning rate of the assumed optimizer; no figure depends on it."""


def estimate(
    model: keras.Model | Callable[[], keras.Model],
    *,
    batch_size: int,
    training: bool = True,
    config: IPUConfig | None = None,
    inputs: Any = None,
    targets: Any = None,
) -> Report:
    """Returns the report of a step of a model: cycles, memory, what fits.

    A training step is all that a weight update takes: the micro-batches of every replica, where the
    model accumulates gradients or the machine has several IPUs.

    Nothing runs, and no memory is used for the weights that `model` makes or for the state of
    its optimizer. The step that is traced is the model's own `train_step` with its optimizer and
    loss, or its `predict_step`. A model that is not compiled is given SGD and a loss that suits
    its last activation; the report says so.

    A program that does not fit is reported, not raised.

    It may be called in a strategy's scope, whose `report()` does not have what is estimated.

    Args:
        model: A model, or a function that makes one. A given model is left as it is; its weights
            have been allocated by whoever made it, those of a function's model never are.
        batch_size: Samples of one micro-batch.
        training: Whether to estimate a training step; otherwise it is a prediction.
        config: The machine. By default what is configured in this process, which is left as it is
            in any case.
        inputs: `tf.TensorSpec`s of the inputs of a model that does not declare them.
        targets: `tf.TensorSpec`s of the targets where the shapes of the outputs do not tell them.

    Raises:
        TypeError: `model` is no Keras model and makes none.
        ValueError: The batch size is not positive, a shape is not static, the model is a subclass
            that is not compiled, `config` is invalid, or the call is in the scope of a strategy
            that is no IPUStrategy.
        UnsupportedOpcodeError: An operation has no cost and `cfg.simulator.unsupported` is
            "raise".

    Example:
        >>> report = estimate(lambda: keras.applications.ResNet50(weights=None), batch_size=4)
        >>> print(report.summary())
    """
    _check_batch_size(batch_size)
    with configuration.borrowed_device(_device(config)):
        strategy = _strategy()
        with contextlib.ExitStack() as stack:
            stack.enter_context(strategy.scope())
            stack.enter_context(strategy.programs_apart())
            stack.enter_context(untouched_variables())
            made = _made(model)
            specs = step_data.input_specs(made, batch_size, inputs)
            function = "train_step" if training else "predict_step"
            # Looked up here: a model that has to be compiled is replaced by one without options.
            stages = pipelines.pipeline_of(made, function)
            accumulation = _accumulation(made)
            stack.enter_context(pipelines.pipelined(stages))
            if training:
                made, notes = stack.enter_context(_trainable(made, ours=made is not model))
                data = _training_data(made, specs, targets, batch_size)
                DeviceStep(strategy, made, accumulation).trace(data)
            else:
                notes = ()
                _trace(strategy, made.predict_step, specs)
            report = strategy.report()
    return dataclasses.replace(report, notes=notes)


def trace_training(
    model: keras.Model,
    *,
    batch_size: int,
    config: IPUConfig | None = None,
    inputs: Any = None,
    targets: Any = None,
    accumulation: GradientAccumulationOptions,
) -> tuple[TracedStep, tuple[str, ...]]:
    """Returns the train step of a model as the compiler gets it, and what was assumed for it.

    The model was made in the scope of a strategy. `accumulation` is how it adds up gradients; the
    other arguments and errors are those of `estimate`.
    """
    _check_batch_size(batch_size)
    with configuration.borrowed_device(_device(config)), device_programs.capturing() as found:
        # One scope cannot be within another's, and the caller may be in that of the model.
        strategy = model.distribute_strategy
        specs = step_data.input_specs(model, batch_size, inputs)
        with strategy.scope(), untouched_variables(), _trainable(model, ours=False) as known:
            made, notes = known
            data = _training_data(made, specs, targets, batch_size)
            DeviceStep(strategy, made, accumulation).trace(data)
    return found[0], notes


def _check_batch_size(batch_size: Any) -> None:
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"`batch_size` must be a positive int. Received: {batch_size!r}.")


def _strategy() -> IPUStrategy:
    """Returns the strategy around the call, or a new one where there is none."""
    if not tf.distribute.has_strategy():
        return IPUStrategy()
    around = tf.distribute.get_strategy()
    if not isinstance(around, IPUStrategy):
        raise ValueError(
            "`estimate` is called in the scope of a strategy that is no IPUStrategy. Call it "
            f"outside of that scope. Received: {around!r}."
        )
    return around


def _device(config: IPUConfig | None) -> DeviceConfiguration:
    device = configuration.device_configuration() if config is None else resolve(config)
    return dataclasses.replace(device, out_of_memory="report")


def _made(model: Any) -> keras.Model:
    if isinstance(model, keras.Model):
        return model
    made = model() if callable(model) else model
    if not isinstance(made, keras.Model):
        origin = f", made by {model!r}" if made is not model else ""
        raise TypeError(
            "`estimate` takes a keras.Model or a function that makes one. "
            f"Received: {type(made).__name__}{origin}."
        )
    return made


@contextlib.contextmanager
def _trainable(model: keras.Model, *, ours: bool) -> Iterator[tuple[keras.Model, tuple[str, ...]]]:
    """Gives a compiled model and what was assumed for it; a user's own is put back afterwards."""
    if not model.compiled:
        yield _compiled(model)
        return
    if ours:
        yield model, ()
        return
    theirs = model.optimizer
    # A copy without state: theirs may not be built yet, and must not be built on untouched pages.
    model.optimizer = keras.optimizers.deserialize(keras.optimizers.serialize(theirs))
    try:
        yield model, ()
    finally:
        model.optimizer = theirs


def _compiled(model: keras.Model) -> tuple[keras.Model, tuple[str, ...]]:
    """Returns a compiled model of the same layers, and what was assumed for it."""
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"Model '{model.name}' is not compiled. Call its `compile` with the optimizer and the "
            "loss to estimate, or estimate a prediction with `training=False`."
        )
    loss = step_data.default_loss(model)
    output = model.outputs[0] if isinstance(model, keras.Sequential) else model.output
    compiled = keras.Model(model.inputs, output, name=model.name)
    compiled.compile(optimizer=keras.optimizers.SGD(_RATE), loss=loss)
    assumed = f"model '{model.name}' is not compiled: SGD and {loss} are assumed"
    return compiled, (assumed,)


def _accumulation(model: keras.Model) -> GradientAccumulationOptions:
    """Returns how training accumulates gradients."""
    if isinstance(model, PipelineExtensions):
        return model._accumulation()
    return GradientAccumulationOptions()


def _training_data(model: keras.Model, specs: Any, targets: Any, batch_size: int) -> Any:
    """Builds what a train step of a model needs; returns the specs of its batch."""
    if targets is None:
        outputs = model.compute_output_spec(_symbolic(specs))
        targets = step_data.target_specs(model, outputs, batch_size)
    data = (specs, targets)
    model._symbolic_build(data_batch=data)  # As `fit` does: optimizer, loss and metrics.
    return data


def _symbolic(specs: Any) -> Any:
    return keras.tree.map_structure(
        lambda spec: keras.KerasTensor(spec.shape, dtype=spec.dtype.name), specs
    )


def _trace(strategy: IPUStrategy, step: Callable[[Any], Any], data: Any) -> None:
    """Traces a step for data of these specs; the strategy keeps its program."""

    def run(data: Any) -> Any:
        return strategy.run(step, args=(data,))

    tf.function(run, autograph=False).get_concrete_function(data)
