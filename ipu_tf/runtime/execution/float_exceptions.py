"""What floating-point exceptions say: where the device computes the operation, and its values.

The message of an exception has a `NonFinite`, as the report of the program has.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.ops.kernels import library
from ipu_tf.programs.device_places import DevicePlaces, Neighbours
from ipu_tf.programs.nonfinite import Fault, NonFinite
from ipu_tf.programs.op_names import LayerScopes
from ipu_tf.programs.program import Program
from ipu_tf.runtime.execution.value_findings import place_of, summary
from ipu_tf.runtime.tracing import float_checks
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.tile_program.device_program import DeviceProgram


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Trace:
    """What the messages of a program need.

    Attributes:
        program: Keeps the first fault.
        layers: The layers of its operations.
        places: Where the device computes them.
        graph: The graph that it is in.
    """

    program: Program
    layers: LayerScopes
    places: DevicePlaces
    graph: weakref.ref[tf.Graph]

    def place(self, op: str, shape: Sequence[int], position: Sequence[int]) -> dict[str, Any]:
        """Returns the fields of a `NonFinite` that say where the device computes an operation."""
        place = self.places.of_neighbour(op, shape, position, self._neighbours)
        return {} if place is None else dataclasses.asdict(place)

    def _neighbours(self) -> tuple[Neighbours, Neighbours] | None:
        graph = self.graph()
        if graph is None:
            return None
        return functools.partial(_readers, graph), functools.partial(_sources, graph)


_traces: dict[int, _Trace] = {}


def name_places(tracer: Tracer, graph: tf.Graph, device: DeviceProgram | None) -> None:
    """Lets floating-point exceptions of a program say where it computes their operation.

    Args:
        tracer: The tracer of the program.
        graph: The graph that it is in; what is known ends with the outermost one around it.
        device: The program that was compiled for the machine.
    """
    if not float_checks.are_on(tracer.configuration):
        return
    program = weakref.ref(graph)
    while isinstance(outer := getattr(graph, "outer_graph", None), FuncGraph):
        graph = outer
    library.describe_exceptions(_description)
    _traces[tracer.number] = _Trace(
        program=tracer.program,
        layers=LayerScopes(paths=tracer.layers),
        places=DevicePlaces(device),
        graph=program,
    )
    weakref.finalize(graph, _traces.pop, tracer.number, None).atexit = False


def _description(
    number: int,
    op_name: str,
    op_type: str,
    what: str,
    operands: Sequence[NDArray[Any]],
    results: Sequence[NDArray[Any]],
) -> str:
    """Returns the rest of the message of an exception, and keeps it for the report."""
    trace = _traces.get(number)
    if trace is None:
        return ""
    fault = _fault(trace, op_name, op_type, cast("Fault", what), operands, results)
    if not trace.program.nonfinite:
        trace.program.nonfinite.append(fault)
    return f" {fault}"


def _fault(
    trace: _Trace,
    op_name: str,
    op_type: str,
    kind: Fault,
    operands: Sequence[NDArray[Any]],
    results: Sequence[NDArray[Any]],
) -> NonFinite:
    wrong = next((value for value in results if not np.isfinite(value).all()), results[0])
    flat = int(np.argmin(np.isfinite(wrong).ravel()))
    position, around = place_of(flat, wrong)
    return NonFinite(
        program=trace.program.name,
        run=0,
        fault=kind,
        op=op_name,
        op_type=op_type,
        layer=trace.layers.layer_or_scope(op_name),
        operands=tuple(summary(f"operand {i}", value) for i, value in enumerate(operands)),
        results=tuple(summary(f"result {i}", value) for i, value in enumerate(results)),
        position=position,
        around=around,
        **trace.place(op_name, wrong.shape, position),
    )


def _readers(graph: tf.Graph, name: str) -> Iterator[str]:
    outputs = [tensor for op in _operations_named(graph, name) for tensor in op.outputs]
    yield from (op.name for tensor in outputs for op in tensor.consumers())


def _sources(graph: tf.Graph, name: str) -> Iterator[str]:
    yield from (tensor.op.name for op in _operations_named(graph, name) for tensor in op.inputs)


def _operations_named(graph: tf.Graph, name: str) -> list[tf.Operation]:
    try:
        return [graph.get_operation_by_name(name)]
    except KeyError:
        return []  # It is in a loop, a branch or a function that the program calls.
