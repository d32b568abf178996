"""Compiles the bodies of loops that hold shards: each is a program of several IPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.passes.simplify import count_loops
from ipu_tf.internals.graphs import loop_body
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.programs.op_names import LayerScopes
from ipu_tf.runtime.extraction import hlo
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram
from ipu_tf.runtime.programs import device_programs, program_shards
from ipu_tf.runtime.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True, kw_only=True)
class Remainder:
    """What is left of a program without its loops that hold shards.

    Attributes:
        operations: Its ops.
        from_loops: Results of the loops, which stay on the device.
    """

    operations: Sequence[tf.Operation]
    from_loops: Sequence[tf.Tensor] = ()

    @property
    def states(self) -> list[tuple[tf.Tensor, tf.Tensor]]:
        """The results of the loops as inputs that do not change."""
        return [(tensor, tensor) for tensor in self.from_loops]


def compiled_apart(
    tracer: Tracer,
    graph: FuncGraph,
    operations: Sequence[tf.Operation],
    outputs: TensorStructure,
    steps: int,
) -> Remainder:
    """Compiles loops with shards, and returns what is left of the program around them.

    The body of such a loop is a program of its own, which a run of the program around it runs as
    often as the loop does; what the loop carries stays on the device.

    Args:
        tracer: The tracer of the program.
        graph: The graph of the program.
        operations: The ops of the program.
        outputs: Its results, a structure.
        steps: How often a call from the host runs the program.
    """
    loops = [(op, body) for op in operations if (body := _sharded_body(tracer, op)) is not None]
    if not loops or not device_programs.is_compiled():
        return Remainder(operations=operations)
    try:
        trips = _trip_counts(tracer, graph, operations, outputs)
    except UncompilableProgram:  # The compilation of the whole program says so, as configured.
        return Remainder(operations=operations)
    for op, body in loops:
        name = op.name.rpartition("/")[2]
        _compile(tracer, body, f"{tracer.program.name}.{name}", steps * trips.get(op.name, 1))
    apart = {op.name for op, _ in loops}
    return Remainder(
        operations=[op for op in operations if op.name not in apart],
        from_loops=[tensor for op, _ in loops for tensor in op.outputs],
    )


def _compile(tracer: Tracer, body: FuncGraph, name: str, steps: int) -> None:
    """Compiles the body of a loop as a part of a tracer's program."""
    part = tracer.split_off(body, name, steps)
    carry = list(zip(body.inputs, body.outputs, strict=False))  # Captured inputs come last.
    remainder = compiled_apart(part, body, body.get_operations(), body.outputs, steps)
    states = [*carry, *remainder.states]
    unchanged = {id(before) for before, _ in states}
    results = [after for _, after in carry if id(after) not in unchanged]
    part.program.device = device_programs.compile_trace(
        device_programs.TracedFunction(
            tracer=part,
            graph=body,
            operations=remainder.operations,
            arguments=((), {}),
            outputs=results,
            deployment=program_shards.deployment_of(part, body),
            states=states,
        )
    )
    tracer.parts += part.parts


def _sharded_body(tracer: Tracer, op: tf.Operation) -> FuncGraph | None:
    """Returns the body of a loop that holds shards, None for another op.

    A loop that keeps values for a gradient outside of it is not taken apart.
    """
    body = loop_body(op)
    if body is None or not tracer.has_shards_within(body):
        return None
    keeps = any(tensor.dtype == tf.variant for tensor in body.inputs)
    return None if keeps else body


def _trip_counts(
    tracer: Tracer, graph: FuncGraph, operations: Sequence[tf.Operation], outputs: Any
) -> Mapping[str, int]:
    """Returns how often loops run their bodies, by name, for the loops that count."""
    module = hlo.extract(
        graph,
        operations,
        outputs,
        name=tracer.program.name,
        layers=LayerScopes(paths=tracer.layers, optimizers=frozenset(tracer.optimizer_scopes)),
    )
    return {
        instruction.op_name: instruction.attributes["trip_count"]
        for computation in count_loops(module).computations.values()
        for instruction in computation
        if instruction.opcode == "while" and "trip_count" in instruction.attributes
    }
