"""Runs the stage functions of a pipeline on one micro-batch, in the graph that is being built."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.feeds.element_arguments import arguments_of
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph, get_resource_handle_data
from ipu_tf.ops import internal_ops
from ipu_tf.ops.kernels import replica_context
from ipu_tf.pipelining.arguments import PipelineArguments
from ipu_tf.planner.stage_planning import StagePlanning
from ipu_tf.scopes import stage_planning

_HANDLES = frozenset({tf.resource, tf.variant})


@dataclass(frozen=True, slots=True, kw_only=True)
class StageResults:
    """The results of the last stage.

    Attributes:
        tensors: They, one by one.
        packed: They, in the structure that an outfeed takes: a tensor and a dict remain one.
        scopes: Name scope of each function of a stage, stage after stage.
    """

    tensors: list[object]
    packed: TensorStructure
    scopes: tuple[str, ...]


def run_stages(
    arguments: PipelineArguments,
    inputs: Sequence[tf.Tensor],
    element: Sequence[TensorStructure],
    name: str,
    index: tf.Tensor | None = None,
) -> StageResults:
    """Returns the results of the last stage; each stage takes those of the stage before it.

    All functions of a stage take the same, and the next stage takes the results of all of them.

    Args:
        arguments: Those of the pipeline.
        inputs: The first arguments of the first stage.
        element: An element of the infeed for the first stage; empty without an infeed.
        name: Name of the pipeline.
        index: int32 scalar, the number of the micro-batch, which all stages may read; None where
            it is that of the loop around.

    Raises:
        ValueError: A stage reads a tensor that it did not get, or a variable of another IPU, or
            returns operations before tensors.
    """
    values, by_name = _first_arguments(inputs, element)
    graph = tf.compat.v1.get_default_graph()
    scopes: list[str] = []
    users = _Users(arguments.ipus)
    packed: Any = None
    for number, functions in enumerate(arguments.stages):
        part_results = []
        for part, function in enumerate(functions):
            first = len(graph.get_operations())
            label = f"{name}_stage_{number}" + (f"_{part}" if len(functions) > 1 else "")
            with (
                tf.name_scope(label) as scope,
                internal_ops.numbered(index),
                stage_planning(_planning(arguments.planning, number)),
            ):
                # A stage may change a dict that it gets.
                arguments_of_part = tf.nest.flatten((values, by_name, index))
                results = function(*values, **by_name)
                part_results.append(_as_tensors(results, number))
            operations = graph.get_operations()[first:]
            _check_sources(operations, arguments_of_part, number)
            users.check(operations, number, arguments.ipus[len(scopes)])
            scopes.append(scope.rstrip("/"))
        packed = part_results[0] if len(part_results) == 1 else tf.nest.flatten(part_results)
        values, by_name = _as_list(packed), {}
    return StageResults(tensors=values, packed=packed, scopes=tuple(scopes))


def _planning(
    stages: Sequence[StagePlanning] | None, number: int
) -> Mapping[str, StagePlanning] | None:
    """Returns what the options of a stage say of the planners, for all of its layers."""
    return None if stages is None else {"": stages[number]}


def check_captures(graph: FuncGraph) -> None:
    """Checks that a traced micro-batch reads nothing from outside but variables and its arguments.

    It also knows the replica that runs it.

    Raises:
        ValueError: It reads a tensor.
    """
    trace = replica_context.current()
    replica = None if trace is None else trace.index
    for outer, inner in graph.captures:
        if inner.dtype not in _HANDLES and outer is not replica:
            raise ValueError(_capture_error(outer))


def _capture_error(tensor: Any) -> str:
    name = getattr(tensor, "name", None) if not hasattr(tensor, "numpy") else None
    label = f"'{name}'" if name else f"of shape {tensor.shape} and type {tensor.dtype.name}"
    return (
        f"Trying to capture the tensor {label} which is not a resource. Pass it to the pipeline "
        "among its `inputs` or through its `infeed_queue`, and from stage to stage as a result."
    )


def _first_arguments(
    inputs: Sequence[tf.Tensor], elements: Sequence[Any]
) -> tuple[list[Any], Mapping[str, Any]]:
    """Returns the arguments of the first stage: a dict of the infeed is given by name."""
    values = list(inputs)
    by_name: dict[str, Any] = {}
    for element in elements:
        positional, keywords = arguments_of(element)
        values += positional
        by_name |= keywords
    return values, by_name


def _as_tensors(results: Any, number: int) -> Any:
    """Returns the results of a stage as tensors, without operations.

    Raises:
        ValueError: An operation comes before a tensor.
    """
    if results is None or isinstance(results, tf.Operation):
        return []
    if not isinstance(results, list | tuple):
        return tf.nest.map_structure(tf.convert_to_tensor, results)
    tensors = [value for value in results if not isinstance(value, tf.Operation)]
    if any(isinstance(value, tf.Operation) for value in results[: len(tensors)]):
        raise ValueError(
            f"Stage {number} returns an operation before a tensor: tensors come first. "
            f"Received: {results!r}."
        )
    return [tf.nest.map_structure(tf.convert_to_tensor, tensor) for tensor in tensors]


def _as_list(packed: Any) -> list[Any]:
    return packed if isinstance(packed, list) else [packed]


def _check_sources(
    operations: Sequence[tf.Operation], arguments: Sequence[Any], number: int
) -> None:
    """Checks that the ops of a stage read its arguments, each other, and variables alone.

    Raises:
        ValueError: One reads a tensor of another stage.
    """
    sources = {id(tensor) for tensor in arguments}
    own = {op.name for op in operations}
    # `check_captures` checks those from outside of the micro-batch.
    graph = tf.compat.v1.get_default_graph()
    sources |= {id(inner) for _, inner in graph.captures}
    for op in operations:
        for tensor in op.inputs:
            if id(tensor) in sources or tensor.op.name in own or tensor.dtype in _HANDLES:
                continue
            raise ValueError(f"Stage {number}, op '{op.name}': {_capture_error(tensor)}")


class _Users:
    """The stages that use each variable.

    Args:
        ipus: IPU of each function, stage after stage.
    """

    def __init__(self, ipus: Sequence[int]) -> None:
        self._ipus = ipus
        self._first: dict[int, tuple[int, int]] = {}

    def check(self, operations: Sequence[tf.Operation], number: int, ipu: int) -> None:
        """Checks that the variables of a stage's function are on no other IPU.

        Args:
            operations: The ops of the function.
            number: The number of the stage.
            ipu: The IPU of the function.

        Raises:
            ValueError: One is on another IPU.
        """
        for handle in {id(t): t for op in operations for t in op.inputs}.values():
            if not _is_number_variable(handle):
                continue
            first, home = self._first.setdefault(id(handle), (number, ipu))
            if home != ipu:
                raise ValueError(
                    f"The variable '{handle.op.name}' is used by stages {first} and {number}, "
                    "which are on different IPUs. Use it in one stage, or map both stages to one "
                    f"IPU with `device_mapping`. Received: device_mapping={list(self._ipus)}."
                )


def _is_number_variable(tensor: tf.Tensor) -> bool:
    """Returns whether a tensor is the handle of a variable of floating point numbers."""
    data = get_resource_handle_data(tensor) if tensor.dtype == tf.resource else None
    if data is None or not data.is_set:
        return False
    return any(tf.as_dtype(part.dtype).is_floating for part in data.shape_and_type)
