"""Estimates one point of a sweep."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import keras

from ipu_tf import zoo
from ipu_tf.base.user_objects import named
from ipu_tf.config import IPUConfig
from ipu_tf.estimation import estimate
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.keras.deployment.auto_pipeline import auto_pipeline
from ipu_tf.machine.link_timing import StreamingTiming
from ipu_tf.machine.system import System, system_of
from ipu_tf.profile.figures import energy
from ipu_tf.profile.figures import program_figures as figures
from ipu_tf.programs.program import TileOp
from ipu_tf.runtime.execution.placeholder_variables import placeholder_variables
from ipu_tf.sweep.point import Outcome, Point
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.errors import IPUOutOfMemoryError

_ZOO = "zoo:"
_GIB = 2**30


def model_of(source: str) -> Callable[[], keras.Model]:
    """Returns the function that makes a model.

    Args:
        source: "module:function", "file.py:function" or "zoo:network".

    Raises:
        UsageError: There is no such module or function.
        ValueError: There is no such network.
    """
    if source.startswith(_ZOO):
        return functools.partial(zoo.compiled, source.removeprefix(_ZOO))
    return cast(Callable[[], keras.Model], named(source, "function"))


def evaluate(model: Callable[[], keras.Model], point: Point, *, training: bool = True) -> Outcome:
    """Returns the figures of a point; those of one that fails have the reason.

    Args:
        model: A function that makes the model.
        point: The point.
        training: Whether to estimate a training step; otherwise a prediction.
    """
    try:
        with _policy(point.precision):
            return _estimated(model, point, training)
    except Exception as error:  # Of the user's function, too: a sweep goes on.
        return Outcome(error=f"{type(error).__name__}: {error}")


def _estimated(model: Callable[[], keras.Model], point: Point, training: bool) -> Outcome:
    config = IPUConfig()
    config.simulator.chip = _machine(point)
    config.auto_select_ipus = point.ipus
    step: dict[str, Any] = {
        "batch_size": point.batch_size,
        "training": training,
        "config": config,
        "insights": False,
    }
    if point.stages == 1:
        report = estimate(functools.partial(_accumulating, model, point, training), **step)
    else:
        if not training:
            raise ValueError("a sweep cuts models into stages for training only")
        with IPUStrategy().scope(), placeholder_variables():
            network = model()
            if point.offload:
                network.set_pipelining_options(offload_weight_update_variables=True)
            try:
                auto_pipeline(
                    network,
                    point.ipus,
                    batch_size=point.batch_size,
                    replicas=point.replicas,
                    gradient_accumulation_steps=point.accumulation,
                    config=config,
                )
            except IPUOutOfMemoryError as error:
                if error.compiled is None:
                    raise
                return _outcome(error.compiled, ())
            report = estimate(network, **step)
    (program,) = report.programs
    if program.device is None:
        raise ValueError(program.refusal or "the step has no device program")
    return _outcome(program.device, program.tile_ops)


def _accumulating(model: Callable[[], keras.Model], point: Point, training: bool) -> keras.Model:
    """Returns the model, which accumulates gradients if the point asks for it."""
    network = model()
    if training and (point.accumulation > 1 or point.offload):
        options = {"offload_weight_update_variables": True} if point.offload else {}
        network.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=point.accumulation, **options
        )
    return network


def _outcome(device: DeviceProgram, tile_ops: tuple[TileOp, ...] | list[TileOp]) -> Outcome:
    peaks = [ipu.memory.peak_tile_bytes for ipu in device.ipus]
    return Outcome(
        cycles=device.cycles,
        seconds=figures.seconds(device),
        samples_per_second=device.samples_per_second,
        memory_bytes=device.replicas * sum(int(peak.sum()) for peak in peaks),
        max_tile_bytes=max(int(peak.max()) for peak in peaks),
        tile_bytes=device.target.tile_bytes,
        streaming_bytes=device.streaming_bytes,
        flop_utilisation=figures.flop_utilisation(device, tile_ops),
        joules_per_sample=energy.joules_per_sample(device, tile_ops),
        fits=device.fits,
    )


def _machine(point: Point) -> Any:
    """Returns the chip or system of a point, with its memories."""
    chip: Any = point.chip
    if isinstance(chip, str) and ":" in chip:
        chip = named(chip, "target or system")
    if point.tile_kib is None and point.streaming is None:
        return chip
    system: System = system_of(chip, point.ipus)
    if point.tile_kib is not None:
        target = dataclasses.replace(system.target, tile_bytes=int(point.tile_kib * 1024))
        system = dataclasses.replace(system, target=target)
    if point.streaming is not None:
        timing = StreamingTiming(
            machine_bytes=int(point.streaming.gib * _GIB),
            ipu_bytes_per_second=point.streaming.gb_per_second * 1e9,
            latency_seconds=system.streaming.latency_seconds,
        )
        system = dataclasses.replace(system, streaming=timing)
    return system


@contextmanager
def _policy(name: str) -> Iterator[None]:
    """Sets the dtype policy of layers that are made inside."""
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
