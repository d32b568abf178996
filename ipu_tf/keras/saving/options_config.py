"""The options of a model that its files keep, as a plain value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod
from ipu_tf.keras.adapters.graphs import graphs_of
from ipu_tf.keras.deployment.model_pipeline import assign_stages, layer_graph, remove_stages
from ipu_tf.keras.options import (
    GradientAccumulationOptions,
    InfeedOptions,
    OutfeedOptions,
    RecomputationOptions,
    ReplicatedMetricReductionMethod,
    ReplicationOptions,
)
from ipu_tf.keras.pipeline.inner_calls import SymbolicCallError
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.keras.training_state import NO_STAGES, StatefulModel, TrainingState

_ACCUMULATION = (
    "steps_per_replica",
    "reduction_method",
    "experimental_normalize_gradients",
)
_PIPELINING = (*_ACCUMULATION, "device_mapping", "accumulate_outfeed")


def options_of(model: StatefulModel) -> dict[str, object]:
    """Returns the options of a model that files keep, as plain values by name, without defaults.

    Args:
        model: The model.
    """
    state = model.ipu_training_state
    config = {
        "gradient_accumulation": _own_values(state.accumulation, _ACCUMULATION),
        "pipelining": _own_values(state.pipelining, _PIPELINING),
        "recomputation": _own_values(state.recomputation),
        "replication": _own_values(state.replication),
        "infeed": _own_values(state.infeed),
        "outfeed": _own_values(state.outfeed),
        "asynchronous_callbacks": state.asynchronous_callbacks,
        "pipeline_stages": _stages(model),
    }
    return {name: value for name, value in config.items() if value or value == []}


def unkept_options(state: TrainingState) -> tuple[str, ...]:
    """Returns the names of the options of a state that are set but that files do not keep."""
    return (
        *_unkept(state.accumulation, _ACCUMULATION),
        *_unkept(state.pipelining, _PIPELINING),
    )


def set_options(model: StatefulModel, options: Mapping[str, object]) -> None:
    """Sets the options of a loaded model.

    Args:
        model: The model.
        options: The result of `options_of` for the saved model.

    Raises:
        ValueError: The stages do not match the model's layers, or these cannot be seen.
    """
    model.ipu_training_state = _with_options(model.ipu_training_state, options)
    config: Mapping[str, Any] = options
    if "pipeline_stages" in config:
        _set_stages(model, tuple(config["pipeline_stages"]))


def _with_options(state: TrainingState, options: Mapping[str, Any]) -> TrainingState:
    """Returns a state with the options of a file; the others stay."""
    readers: dict[str, Callable[[Any], Any]] = {
        "gradient_accumulation": lambda config: GradientAccumulationOptions(
            **_accumulation(config)
        ),
        "pipelining": _pipelining,
        "recomputation": lambda config: RecomputationOptions(
            recompute=config.get("recompute"), checkpoints=tuple(config.get("checkpoints", ()))
        ),
        "replication": lambda config: ReplicationOptions(
            metric_reduction=ReplicatedMetricReductionMethod.parse(config["metric_reduction"])
        ),
        "infeed": InfeedOptions.of,
        "outfeed": OutfeedOptions.of,
    }
    fields = {name: of(options[name]) for name, of in readers.items() if name in options}
    if "gradient_accumulation" in fields:
        fields["accumulation"] = fields.pop("gradient_accumulation")
    asynchronous = options.get("asynchronous_callbacks", False)
    return dataclasses.replace(state, **fields, asynchronous_callbacks=asynchronous)


def _pipelining(options: Mapping[str, Any]) -> PipeliningOptions:
    arguments = _accumulation(options)
    mapping = arguments.pop("device_mapping", None)
    return PipeliningOptions(
        **arguments, device_mapping=None if mapping is None else tuple(mapping)
    )


def _own_values(options: Any, names: tuple[str, ...] | None = None) -> dict[str, Any]:
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
    return [name for name in _own_values(options) if name not in names]


def _accumulation(options: Mapping[str, Any]) -> dict[str, Any]:
    arguments = dict(options)
    if "reduction_method" in arguments:
        method = arguments["reduction_method"]
        arguments["reduction_method"] = GradientAccumulationReductionMethod.parse(method)
    return arguments


def _stages(model: StatefulModel) -> list[int | None] | None:
    """Returns the stages of a model's layers, in order; None if there are none to keep.

    The list is empty if the stages were reset. The stages of `PipelineStage` scopes in a
    subclass are in its code.
    """
    state = model.ipu_training_state
    assigned = state.assigned_stages
    if assigned == NO_STAGES:
        return []
    of_layers = graphs_of(model).kind(model) in ("sequential", "functional")
    if not state.may_pipeline(model) or not (assigned is not None or of_layers):
        return None
    stages = state.stages_of(layer_graph(model))
    return None if all(stage is None for stage in stages) else list(stages)


def _set_stages(model: StatefulModel, stages: tuple[int | None, ...]) -> None:
    if not stages:
        remove_stages(model)
        return
    try:
        graph = layer_graph(model)
    except SymbolicCallError as error:
        raise ValueError(
            f"The pipeline stages of model '{model.name}' cannot be loaded, because its layers "
            "cannot be seen. Load it with the class that it was saved with, as by "
            "`custom_objects`, or load it outside of the scope."
        ) from error
    if len(graph.layer_invocations) != len(stages):
        raise ValueError(
            f"The pipeline stages of model '{model.name}' cannot be loaded: the file has stages "
            f"of {len(stages)} layers. Received: a model of {len(graph.layer_invocations)} layers. "
            "Load it with the class that it was saved with."
        )
    assign_stages(model, graph, stages)
