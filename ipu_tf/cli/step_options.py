"""The options of `ipu-tf estimate` that change how a model trains: precision, replicas, stages."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from ipu_tf.base.model_names import is_of_zoo
from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.models import is_packed

if TYPE_CHECKING:
    import keras

    from ipu_tf.config import IPUConfig
    from ipu_tf.profile.report import Report

_OF_MODEL = ("precision", "accumulation", "stages", "optimizer")
"""The options that need a function that makes the model."""

_EVERYTHING = ""
"""Stands for `--recompute` without a value."""

OPTIMIZERS = (
    "adadelta", "adafactor", "adagrad", "adam", "adamax", "adamw", "ftrl", "lamb", "lion",
    "lossscaleoptimizer", "multioptimizer", "muon", "nadam", "optimizer", "optimizermap", "rmsprop",
    "schedulefreeadamw", "sgd",
)  # fmt: skip
"""The names of Keras' own optimizers, known before Keras is loaded."""

PRECISIONS = ("float32", "mixed_float16", "float16")


def add_step_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options."""
    parser.add_argument(
        "--precision", choices=PRECISIONS, help="the dtype policy with which the model is made"
    )
    parser.add_argument(
        "--replicas", type=int, help="copies of the model; with --stages, of the pipeline"
    )
    parser.add_argument(
        "--accumulation", type=int, help="micro-batches of a weight update on each replica"
    )
    parser.add_argument(
        "--stages", type=int, help="stages of a pipeline, as `auto_pipeline` cuts the model"
    )
    parser.add_argument("--optimizer", help="a Keras optimizer by its name, such as adam")
    parser.add_argument(
        "--recompute",
        nargs="?",
        const=_EVERYTHING,
        metavar="LAYERS",
        help="compute activations again in the backward pass; auto: as far as memory needs it; or "
        "the layers after which activations are kept, separated by commas",
    )


def ipus_of(options: argparse.Namespace, ipus: int) -> int:
    """Returns the number of IPUs that the options need.

    Args:
        options: The command line.
        ipus: The number of the machine's arguments.

    Raises:
        UsageError: The options contradict each other.
    """
    _check(options)
    if options.replicas is None and options.stages is None:
        return ipus
    replicas, stages = options.replicas or 1, options.stages or 1
    if options.ipus is None and options.system is None:
        return replicas * stages
    if options.replicas is None and ipus % stages == 0:
        return ipus
    if replicas * stages != ipus:
        raise UsageError(
            f"{replicas} replicas of {stages} stages need {replicas * stages} IPUs: leave out "
            f"--ipus, or make them agree. Received: {ipus} IPUs."
        )
    return ipus


def _check(options: argparse.Namespace) -> None:
    name = options.optimizer
    if name is not None and name.lower() not in OPTIMIZERS and is_of_zoo(options.model):
        raise _no_optimizer(name)  # Files of users may add their own.
    for name in ("replicas", "accumulation", "stages"):
        value = getattr(options, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name} must be at least 1. Received: {value}.")
    if options.inference:
        for name in ("accumulation", "stages", "optimizer", "recompute"):
            if getattr(options, name) is not None:
                raise UsageError(f"--{name} is about training: leave out --inference.")


def _no_optimizer(name: str) -> UsageError:
    return UsageError(
        f"--optimizer takes the name of a Keras optimizer, such as sgd, adam or lamb. "
        f"Received: {name!r}."
    )


def estimated(
    options: argparse.Namespace,
    model: keras.Model | Callable[[], keras.Model],
    config: IPUConfig,
    ipus: int,
) -> Report:
    """Returns the report of a model with these options.

    Args:
        options: The command line.
        model: The model, or the function that makes it.
        config: The machine.
        ipus: Its number of IPUs.

    Raises:
        UsageError: The model is already made, or there is no such optimizer.
    """
    import keras

    from ipu_tf import estimate

    model_options = [name for name in _OF_MODEL if getattr(options, name) is not None]
    if model_options and isinstance(model, keras.Model):
        raise UsageError(
            f"--{model_options[0]} changes how the model is made: name a function that makes it. "
            f"Received: the model '{model.name}'."
        )
    step = {
        "batch_size": options.batch_size,
        "batch_axis": None if options.packed or is_packed(options.model) else 0,
        "training": not options.inference,
        "config": config,
        "insights": options.insights,
        "recompute": _recompute(options),
    }
    if not model_options:
        return estimate(model, **step)
    notes: list[str] = []

    def make() -> Any:
        return _with_options(model(), options, notes)

    with _policy(options.precision):
        report = _pipelined(make, options, step, ipus) if options.stages else estimate(make, **step)
    return dataclasses.replace(report, notes=(*report.notes, *notes))


def _recompute(options: argparse.Namespace) -> Any:
    """Returns the argument of `estimate`: None without the option."""
    option = options.recompute
    values = {None: None, _EVERYTHING: True, "auto": "auto"}
    return values[option] if option in values else option.split(",")


def _with_options(model: Any, options: argparse.Namespace, notes: list[str]) -> Any:
    """Returns a model with the optimizer and the accumulation of the options."""
    import keras

    from ipu_tf.keras.data import step_specs

    if options.optimizer is not None:
        try:
            optimizer = keras.optimizers.get(options.optimizer)
        except ValueError as error:
            raise _no_optimizer(options.optimizer) from error
        if model.compiled:
            model.optimizer = optimizer
        else:
            loss = step_specs.default_loss(model)
            model.compile(optimizer=optimizer, loss=loss)
            notes.append(f"model '{model.name}' is not compiled: {loss} is assumed")
    if options.accumulation is not None and not options.stages:
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=options.accumulation
        )
    return model


def _pipelined(
    make_model: Callable[[], Any], options: argparse.Namespace, step: dict[str, Any], ipus: int
) -> Report:
    """Returns the report of a model that `auto_pipeline` cuts into stages."""
    from ipu_tf import IPUOutOfMemoryError, IPUStrategy, Report, estimate
    from ipu_tf.keras import auto_pipeline
    from ipu_tf.programs.program import Program
    from ipu_tf.runtime.execution.placeholder_variables import placeholder_variables

    with IPUStrategy().scope(), placeholder_variables():
        model = make_model()
        try:
            auto_pipeline(
                model,
                ipus,
                batch_size=step["batch_size"],
                replicas=ipus // options.stages,
                gradient_accumulation_steps=options.accumulation or (1, 64),
                recompute=None if step["recompute"] in (None, "auto") else True,
                config=step["config"],
            )
        except IPUOutOfMemoryError as error:
            if error.compiled is None:
                raise UsageError(error) from error
            # The closest candidate: its report says what fills memory.
            program = Program(name=f"{model.name}.train_step", device=error.compiled)
            return Report(programs=(program,))
        # Of the choice, unless the command line names layers.
        names = step["recompute"] if isinstance(step["recompute"], list) else None
        report: Report = estimate(model, **step | {"recompute": names})
        return report


@contextlib.contextmanager
def _policy(name: str | None) -> Iterator[None]:
    """Sets the dtype policy of layers that are made inside; None leaves it."""
    import keras

    before = keras.config.dtype_policy()
    if name is not None:
        keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
