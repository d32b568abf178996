"""Predicts the throughput of whole models: a network of the zoo as it was configured."""

from __future__ import annotations

from typing import Any

import keras

from ipu_tf import zoo
from ipu_tf.calibration.outcome import CannotPredict, PredictionOutcome
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.config import IPUConfig
from ipu_tf.estimation import estimate
from ipu_tf.machine.target import Target
from ipu_tf.ops.pipelining_ops import RecomputationMode
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.validation.dominance import layer_classes, memory_of, parts_of
from ipu_tf.validation.model_params import ModelParams, check_ipus, model_params
from ipu_tf.zoo.pipelines import with_head_on_first_ipu
from ipu_tf.zoo.policies import dtype_policy


def model(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts the items a second that a model trains on, or predicts for.

    Raises:
        CannotPredict: The record names a network or a parameter that is unknown, or a
            configuration that does not divide.
    """
    name = str(record.params.get("network"))
    if name not in zoo.NETWORKS:
        raise CannotPredict(f"the zoo has no network {name!r}; it has {', '.join(zoo.NETWORKS)}")
    params = model_params(record, zoo.network(name).options)
    check_ipus(params, _ipus_of_stages(params))
    if params.num_io_tiles >= target.tiles:
        raise CannotPredict(
            f"'num_io_tiles' must leave some of the {target.tiles} tiles of an IPU, and is "
            f"{params.num_io_tiles}"
        )
    classes: dict[str, str] = {}

    def made() -> keras.Model:
        built = _model_of(params)
        classes.update(layer_classes(built))
        return built

    with dtype_policy(params.policy):
        report = estimate(
            made,
            batch_size=params.micro_batch,
            batch_axis=None if zoo.network(name).items else 0,
            training=params.training,
            config=_config(params, target),
            insights=False,
        )
    (program,) = report.programs
    if program.device is None:
        raise CannotPredict(program.refusal)
    return _outcome(program.device, classes)


def _ipus_of_stages(params: ModelParams) -> int:
    placement, mapping = params.placement, None
    if zoo.network(params.network).reads_embeddings:
        placement, mapping = with_head_on_first_ipu(placement)
    return len(set(mapping)) if mapping else 1 + len(placement.stages)


def _outcome(program: DeviceProgram, classes: dict[str, str]) -> PredictionOutcome:
    rate = program.samples_per_second
    if rate is None:
        raise CannotPredict("the program has no number of items")
    dominant = ", ".join(f"{part.name} {part.share:.0%}" for part in parts_of(program, classes)[:6])
    return PredictionOutcome(items_per_second=rate, explanation=f"{dominant}; {memory_of(program)}")


def _model_of(params: ModelParams) -> keras.Model:
    common: Any = {"optimizer": params.optimizer, **params.options}
    if items := zoo.network(params.network).items:
        common[items] = params.micro_batch
    if params.placement.stages:
        model: Any = zoo.pipelined(
            params.network,
            params.placement,
            micro_batches=params.accumulation,
            pipelining={"recomputation_mode": _recomputation_mode(params), **params.offload},
            **common,
        )
    else:
        model = zoo.compiled(params.network, placement=params.placement, **common)
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=params.accumulation,
            **params.offload,
        )
    if not params.training:
        model.steps_per_execution = params.accumulation
    return model


def _recomputation_mode(params: ModelParams) -> RecomputationMode:
    if not params.recompute:
        return RecomputationMode.Auto
    if params.placement.checkpoints:
        return RecomputationMode.RecomputeAndBackpropagateInterleaved
    return RecomputationMode.RecomputeThenBackpropagate


def _config(params: ModelParams, target: Target) -> IPUConfig:
    config = IPUConfig()
    config.simulator.chip = target
    config.auto_select_ipus = params.ipus
    config.allow_recompute = params.recompute
    config.io_tiles.num_io_tiles = params.num_io_tiles
    config.convolutions.poplar_options = dict(params.poplar_options)
    config.matmuls.poplar_options = dict(params.poplar_options)
    return config
