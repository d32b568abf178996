"""Traces the train step of a Keras model for its figures alone."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

from ipu_tf import config as configuration
from ipu_tf.base.batch_size import check_batch_size
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.config import DeviceConfiguration, IPUConfig
from ipu_tf.config.resolve import resolve
from ipu_tf.internals.structures import SpecStructure
from ipu_tf.keras.adapters.estimates import TrainableModel, estimates_of
from ipu_tf.keras.adapters.models import adapter_of
from ipu_tf.keras.data import step_specs
from ipu_tf.keras.options import GradientAccumulationOptions
from ipu_tf.keras.steps import overrides
from ipu_tf.keras.steps.block_tracing import trace_equal_blocks_once
from ipu_tf.keras.steps.own_steps import build_by_tracing, has_own
from ipu_tf.keras.steps.training_steps import DeviceStep
from ipu_tf.keras.training_state import StatefulModel
from ipu_tf.runtime.execution.placeholder_variables import placeholder_variables
from ipu_tf.runtime.programs import device_programs

_RATE = 0.01
"""Learning rate of the assumed optimizer; no figure depends on it."""


def trace_training(
    model: StatefulModel,
    *,
    batch_size: int,
    config: IPUConfig | None = None,
    inputs: SpecStructure = None,
    targets: SpecStructure = None,
    accumulation: GradientAccumulationOptions,
) -> tuple[TracedStep, tuple[str, ...]]:
    """Returns the train step of a model as the compiler gets it, and the assumptions made for it.

    The model was made in the scope of a strategy. `accumulation` is the model's gradient
    accumulation; the other arguments and errors are those of `estimate`.
    """
    if isinstance(model, StatefulModel):
        overrides.check_not_overridden(
            model,
            "train_step",
            why="The stages of a pipeline compute gradients apart, and the weights are updated "
            "once for many micro-batches.",
        )
    check_batch_size(batch_size)
    with (
        configuration.borrowed_device(estimated_device(config)),
        device_programs.capturing() as steps,
    ):
        # A scope cannot be inside another one, and the caller may be in the model's.
        strategy = model.distribute_strategy
        specs = step_specs.input_specs(model, batch_size, inputs)
        with strategy.scope(), placeholder_variables(), trainable(model, ours=False) as step:
            traced_model, notes = step

            def trace() -> None:
                data = training_data(traced_model, specs, targets, batch_size)
                DeviceStep(strategy, adapter_of(traced_model), accumulation).trace(data)

            trace_equal_blocks_once(traced_model, trace, training=True)
    return steps[0], notes


def check_batch_axis(batch_axis: object) -> None:
    """Raises a ValueError unless a batch axis is 0 or None."""
    if batch_axis is not None and (isinstance(batch_axis, bool) or batch_axis != 0):
        raise ValueError(
            "`batch_axis` must be 0, or None where no axis counts samples. "
            f"Received: {batch_axis!r}."
        )


def estimated_device(config: IPUConfig | None) -> DeviceConfiguration:
    """Returns the machine of an estimate; it refuses nothing for lack of memory."""
    device = configuration.device_configuration() if config is None else resolve(config)
    return dataclasses.replace(device, out_of_memory="report")


@contextlib.contextmanager
def trainable(
    model: TrainableModel, *, ours: bool
) -> Iterator[tuple[TrainableModel, tuple[str, ...]]]:
    """Yields a compiled model and the assumptions made for it; restores a user's own optimizer."""
    if not model.compiled:
        yield _with_assumptions(model)
        return
    if ours:
        yield model, ()
        return
    # A stateless copy: the user's may not be built yet, and must not be built on untouched pages.
    with estimates_of(model).with_new_optimizer():
        yield model, ()


def _with_assumptions(model: TrainableModel) -> tuple[TrainableModel, tuple[str, ...]]:
    """Returns a compiled model of the same layers, and the assumptions made for it."""
    if not getattr(model, "inputs", None):
        raise ValueError(
            f"Model '{model.name}' is not compiled. Call its `compile` with the optimizer and the "
            "loss to estimate, or estimate a prediction with `training=False`."
        )
    loss = step_specs.default_loss(model)
    compiled = estimates_of(model).compiled(loss, _RATE)
    assumption = f"model '{model.name}' is not compiled: SGD and {loss} are assumed"
    return compiled, (assumption,)


def training_data(
    model: TrainableModel, specs: SpecStructure, targets: SpecStructure, batch_size: int | None
) -> SpecStructure:
    """Builds the parts of a model that a train step needs; returns the specs of its batch.

    A model's own step gets the inputs alone if the model has no `call` to infer the targets from.
    `batch_size` is None where the first axis of outputs does not count samples.
    """
    own = isinstance(model, StatefulModel) and has_own(model, "train_step")
    outputs = None
    if targets is None and own and not adapter_of(model).has_call:
        build_by_tracing(model, "train_step", specs)
        return specs
    if targets is None:
        outputs = estimates_of(model).outputs(specs)
        targets = step_specs.target_specs(model, outputs, model.loss, batch_size)
    data = (specs, targets)
    if own:
        build_by_tracing(model, "train_step", data)
    else:
        estimates_of(model).build_for_training(data, outputs)
    return data
