"""The options of a model that its files keep, as a plain value."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import keras

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.internals.keras import KerasFunctional
from ipu_tf.keras.options import (
    GradientAccumulationOptions,
    InfeedOptions,
    OutfeedOptions,
    ReplicatedMetricReductionMethod,
    ReplicationOptions,
)
from ipu_tf.keras.pipeline.extension import NO_STAGES, PipelineExtensions
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions

_ACCUMULATION = ("steps_per_replica", "reduction_method")
_PIPELINING = (*_ACCUMULATION, "device_mapping", "accumulate_outfeed")


def options_of(model: PipelineExtensions) -> dict[str, Any]:
    """Returns the options of a model that files keep, as plain values by name, without defaults.

    Args:
        model: The model.
    """
    kept = {
        "gradient_accumulation": _changed(model._gradient_accumulation_options, _ACCUMULATION),
        "pipelining": _changed(model._pipelining_options, _PIPELINING),
        "replication": _changed(model._replication_options),
        "infeed": _changed(model._infeed_options),
        "outfeed": _changed(model._outfeed_options),
        "asynchronous_callbacks": model._asynchronous_callbacks,
        "pipeline_stages": _stages(model),
    }
    return {name: value for name, value in kept.items() if value or value == []}


def unkept_options(model: PipelineExtensions) -> tuple[str, ...]:
    """Returns the names of the options of a model that are set but that files do not keep."""
    return (
        *_unkept(model._gradient_accumulation_options, _ACCUMULATION),
        *_unkept(model._pipelining_options, _PIPELINING),
    )


def set_options(model: PipelineExtensions, options: Mapping[str, Any]) -> None:
    """Sets the options of a loaded model.

    Args:
        model: The model.
        options: The result of `options_of` for the saved model.

    Raises:
        ValueError: The stages do not match the model's layers.
    """
    if "gradient_accumulation" in options:
        model._gradient_accumulation_options = GradientAccumulationOptions(
            **_accumulation(options["gradient_accumulation"])
        )
    if "pipelining" in options:
        given = _accumulation(options["pipelining"])
        mapping = given.pop("device_mapping", None)
        model._pipelining_options = PipeliningOptions(
            **given, device_mapping=None if mapping is None else tuple(mapping)
        )
    if "replication" in options:
        method = ReplicatedMetricReductionMethod.parse(options["replication"]["metric_reduction"])
        model._replication_options = ReplicationOptions(metric_reduction=method)
    if "infeed" in options:
        model._infeed_options = InfeedOptions.of(options["infeed"])
    if "outfeed" in options:
        model._outfeed_options = OutfeedOptions.of(options["outfeed"])
    model._asynchronous_callbacks = options.get("asynchronous_callbacks", False)
    if "pipeline_stages" in options:
        _set_stages(model, tuple(options["pipeline_stages"]))


def _changed(options: Any, names: tuple[str, ...] | None = None) -> dict[str, Any]:
    """Returns the options that differ from their defaults, enums by their names."""
    values = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if getattr(options, field.name) != field.default
    }
    return {
        name: getattr(value, "value", value)
        for name, value in values.items()
        if names is None or name in names
    }


def _unkept(options: Any, names: tuple[str, ...]) -> list[str]:
    return [name for name in _changed(options) if name not in names]


def _accumulation(options: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(options)
    if "reduction_method" in given:
        method = given["reduction_method"]
        given["reduction_method"] = GradientAccumulationReductionMethod.parse(method)
    return given


def _stages(model: PipelineExtensions) -> list[int | None] | None:
    """Returns the stages of a model's layers, in order; None if there are none to keep.

    The list is empty if the stages were reset. The stages of `PipelineStage` scopes in a
    subclass are in its code.
    """
    if model._set_stages == NO_STAGES:
        return []
    of_layers = isinstance(model, keras.Sequential | KerasFunctional)
    if not model._may_be_pipelined() or not (model._set_stages is not None or of_layers):
        return None
    stages = model._stages(model._layer_graph())
    return None if all(stage is None for stage in stages) else list(stages)


def _set_stages(model: PipelineExtensions, stages: tuple[int | None, ...]) -> None:
    if not stages:
        model.reset_pipeline_stage_assignment()
        return
    graph = model._layer_graph()
    if len(graph.layer_invocations) != len(stages):
        raise ValueError(
            f"The pipeline stages of model '{model.name}' cannot be loaded: the file has stages "
            f"of {len(stages)} layers. Received: a model of {len(graph.layer_invocations)} layers. "
            "Load it with the class that it was saved with."
        )
    model._keep_stages(graph, stages)
