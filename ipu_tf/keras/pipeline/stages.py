"""Converts a script's assignments to the stage of every call of a layer, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn, cast

from ipu_tf.keras.adapters.graphs import GraphModel, graphs_of
from ipu_tf.keras.pipeline.assignments import (
    Assignment,
    FunctionalLayerPipelineStageAssignment,
    FunctionalNestedModelPipelineStageAssignment,
    ModelLayerPipelineStageAssignment,
    NestedModelPipelineStageAssignment,
    SequentialLayerPipelineStageAssignment,
    SequentialNestedModelPipelineStageAssignment,
)
from ipu_tf.keras.pipeline.layer_graph import Invocation, LayerGraph

Stages = tuple[int | None, ...]
"""The stage of each layer invocation of a graph, None for none."""


def assignments_of(graph: LayerGraph, stages: Stages) -> list[Assignment]:
    """Returns the assignments of a model's layers.

    Args:
        graph: The layers of the model.
        stages: Their stages.
    """
    return [_assignment(graph.model, call, stages.__getitem__) for call in graph.invocations]


def _assignment(
    model: GraphModel, call: Invocation, stage_of: Callable[[int], int | None]
) -> Assignment:
    """Returns the assignment of a call in a model; `stage_of` takes ordinals of invocations."""
    of_layer, of_nested = _classes(model)
    index = () if _is_sequential(model) else (call.node_index,)
    if call.parts is None:
        return of_layer(call.layer, *index, stage_of(call.ordinal))
    nested = cast("GraphModel", call.layer)
    parts = [_assignment(nested, part, stage_of) for part in call.parts]
    return of_nested(call.layer, *index, parts)


def _always(stage: int) -> Callable[[int], int]:
    return lambda _: stage


def stages_of(graph: LayerGraph, assignments: Sequence[Assignment | int]) -> tuple[int, ...]:
    """Returns the stages that assignments give to the layer invocations of a graph.

    Args:
        graph: The layers of the model.
        assignments: One for each of its layers, in order; for a Sequential also stage numbers.

    Raises:
        ValueError: They do not fit the model, or do not make a pipeline.
    """
    stages = tuple(_stages(graph.model, graph.invocations, assignments, _subject(graph.model)))
    check_order(graph, stages)
    return stages


def _stages(
    model: GraphModel, invocations: Sequence[Invocation], assignments: Any, subject: str
) -> Iterator[int]:
    if not isinstance(assignments, list):
        raise ValueError(
            f"{subject}: the pipeline stage assignment needs to be a list. "
            f"Received: {type(assignments).__name__}."
        )
    if len(assignments) != len(invocations):
        raise ValueError(
            f"{subject}: the size of the pipeline stage assignment list ({len(assignments)}) does "
            f"not match the number of layers in the graph ({len(invocations)}). Change what "
            "`get_pipeline_stage_assignment()` returns."
        )
    order = [call.layer.name for call in invocations]
    for call, assignment in zip(invocations, assignments, strict=True):
        if type(assignment) is int and _is_sequential(model):
            assignment = _assignment(model, call, _always(assignment))
        _check_matches(model, call, assignment, f"{subject}, layer '{call.layer.name}'", order)
        if call.parts is not None:
            nested = f"{subject}, nested model '{call.layer.name}'"
            parts = assignment.pipeline_stage_assignments
            yield from _stages(cast("GraphModel", call.layer), call.parts, parts, nested)
        elif assignment.pipeline_stage is None:
            raise ValueError(
                f"{subject}: layer '{call.layer.name}' has not been assigned a pipeline stage. Set "
                "`pipeline_stage` of its assignment."
            )
        else:
            yield assignment.pipeline_stage


def _check_matches(
    model: GraphModel, call: Invocation, assignment: Any, subject: str, order: list[str]
) -> None:
    kind = _classes(model)[call.parts is not None]
    if type(assignment) is not kind:
        raise ValueError(
            f"{subject}: the assignment must be an instance of `{kind.__name__}`. "
            f"Received: {assignment!r} of type {type(assignment).__name__}."
        )
    layer = assignment.nested_model if call.parts is not None else assignment.layer
    index = getattr(assignment, "node_index", call.node_index)
    if layer is not call.layer or index != call.node_index:
        in_order = (
            "the order of the layers" if _is_sequential(model) else "the post-order of the graph"
        )
        raise ValueError(
            f"{subject}: the order of the assignments does not match the post-order: an "
            f"assignment for layer '{layer.name}' (node index {index}) stands where one for "
            f"'{call.layer.name}' (node index {call.node_index}) is expected. Keep to "
            f"{in_order}: {', '.join(order)}."
        )


def check_complete(graph: LayerGraph, stages: Stages) -> tuple[int, ...]:
    """Returns the stages of a model after checking that every layer has one.

    Raises:
        ValueError: A layer has no stage.
    """
    for call, stage in zip(graph.layer_invocations, stages, strict=True):
        if stage is None:
            raise ValueError(
                "All layers of a pipelined model must have an associated pipeline stage. However, "
                f"{call.layer.name} has not been assigned to one. {_subject(graph.model)}: make or "
                "call the layer in a `PipelineStage` scope."
            )
    return tuple(stage for stage in stages if stage is not None)


def check_order(graph: LayerGraph, stages: Sequence[int]) -> None:
    """Checks that data flows forward from stage to stage.

    Raises:
        ValueError: A layer reads the output of a later stage, or a Sequential skips a stage.
    """
    invocations = graph.layer_invocations
    for call, stage in zip(invocations, stages, strict=True):
        late = [other for other in call.after if stages[other] > stage]
        if late and not _is_sequential(graph.model):
            raise ValueError(
                f"{_subject(graph.model)}: Layer {call.layer.name} in pipeline stage {stage} has a "
                "dependency from a pipeline stage which has not yet been executed: it takes the "
                f"output of layer {invocations[late[0]].layer.name} in pipeline stage "
                f"{stages[late[0]]}."
            )
    if _is_sequential(graph.model):
        _check_steps(graph, stages)


def check_no_gaps(graph: LayerGraph, stages: Sequence[int]) -> None:
    """Checks that there is a layer in every stage.

    Raises:
        RuntimeError: A stage has no layer.
    """
    empty = sorted(set(range(max(stages))) - set(stages))
    if empty:
        raise RuntimeError(
            "All stages in a pipeline must have at lease one layer assigned to them. "
            f"{_subject(graph.model)}: there is none in stage {', '.join(map(str, empty))} of "
            f"{max(stages) + 1}."
        )


def _check_steps(graph: LayerGraph, stages: Sequence[int]) -> None:
    subject = _subject(graph.model)
    previous = 0
    for index, (call, stage) in enumerate(zip(graph.layer_invocations, stages, strict=True)):
        if index == 0 and stage != 0:
            raise ValueError(
                f"{subject}: the first layer must be assigned to pipeline stage 0. Received: stage "
                f"{stage} for layer '{call.layer.name}'."
            )
        if stage not in (previous, previous + 1):
            raise ValueError(
                f"{subject}: layer '{call.layer.name}' must be in the pipeline stage of the layer "
                f"before it or in the next: {previous} or {previous + 1}. Received: {stage}."
            )
        previous = stage


def _classes(model: GraphModel) -> tuple[Any, Any]:
    """Returns the classes of the assignments of layers, and of nested models, in a model."""
    if _is_sequential(model):
        return (
            SequentialLayerPipelineStageAssignment,
            SequentialNestedModelPipelineStageAssignment,
        )
    if graphs_of(model).kind(model) == "functional":
        return (
            FunctionalLayerPipelineStageAssignment,
            FunctionalNestedModelPipelineStageAssignment,
        )
    return ModelLayerPipelineStageAssignment, NestedModelPipelineStageAssignment


def _is_sequential(model: GraphModel) -> bool:
    return graphs_of(model).kind(model) == "sequential"


def _subject(model: GraphModel) -> str:
    return f"Model '{model.name}'"


def raise_no_longer_valid(model: GraphModel) -> NoReturn:
    """Raises the error that the layers have changed since stages were assigned to them.

    Raises:
        RuntimeError: Always.
    """
    raise RuntimeError(
        f"The pipeline stage assignments of model '{model.name}' are no longer valid: its `call` "
        "runs other layers than when they were set. Set them again with "
        "`set_pipeline_stage_assignment`."
    )
