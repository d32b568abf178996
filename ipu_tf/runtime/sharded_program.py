"""The deployment of a program whose parts are placed on IPUs by `ipu_shard`."""

from __future__ import annotations

from ipu_tf import replica_context
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.runtime.layer_stages import stage_of_layers
from ipu_tf.runtime.tracer import Tracer


def deployment_of(tracer: Tracer, graph: FuncGraph) -> Deployment | None:
    """Returns how the program of a finished trace is laid over IPUs, None for a single one.

    Each visit of an IPU is a stage, in the order of the trace: the program is a sequential pipeline
    of one micro-batch, in which one IPU works at a time.

    Args:
        tracer: The tracer of the program.
        graph: The graph with its ops.
    """
    if all(ipu == 0 for _, ipu in tracer.shards):
        return None
    ipus: list[int] = []
    scopes = []
    for scope, ipu in tracer.shards:
        if not ipus or ipus[-1] != ipu:
            ipus.append(ipu)
        scopes.append((scope, len(ipus) - 1))
    return Deployment(
        stage_of_layers=stage_of_layers(tracer, graph, scopes),
        ipu_of_stages=tuple(ipus),
        schedule="sequential",
        recompute=tracer.configuration.allow_recompute,
        replicas=replica_context.num_replicas(),
    )
