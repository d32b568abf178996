"""Finds the stages of layers from the name scopes of a trace."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.programs.op_names import scope_of
from ipu_tf.runtime.tracing.tracer import Tracer


def stage_of_layers(
    tracer: Tracer, graph: FuncGraph, scopes: Sequence[tuple[str, int]]
) -> dict[str, int]:
    """Returns the stage of each layer by its path; a layer of several stages is in the first.

    The name scopes within those of stages become layers, too, beside the Keras layers.

    Args:
        tracer: The tracer of the program.
        graph: The graph with the ops of the stages.
        scopes: Name scopes, each with the number of its stage.
    """
    for op in graph.get_operations():
        scope = scope_of(op.name)
        if any(_is_within(scope, stage) for stage, _ in scopes):
            tracer.layers.setdefault(scope, scope)
    stages = dict(scopes)
    for stage, number in scopes:
        for scope, path in tracer.layers.items():
            if _is_within(scope, stage):
                stages.setdefault(path, number)
    return stages


def _is_within(scope: str, stage: str) -> bool:
    return f"{scope}/".startswith(f"{stage}/")
