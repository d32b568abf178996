"""The deployment of a program whose parts are placed on IPUs by `ipu_shard`."""

from __future__ import annotations

import dataclasses

from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.ops.kernels import replica_context
from ipu_tf.runtime.tracing.layer_stages import stage_of_layers
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.tile_program.device_program import DeviceProgram


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
        copies_weights=True,
    )


def with_shard_note(
    device: DeviceProgram | None, tracer: Tracer, graph: FuncGraph
) -> DeviceProgram | None:
    """Returns a device program with a note on shards that the compiler does not tell apart.

    Args:
        device: The program, None where there is none.
        tracer: The tracer of the program.
        graph: The graph with its ops.
    """
    if device is None or all(ipu == 0 for _, ipu in tracer.shards):
        return device
    inner_names = [
        f"'{scope}'" for scope, _ in tracer.shards if tracer.is_shard_in_control_flow(scope, graph)
    ]
    if not inner_names:
        return device
    note = (
        f"the shards {', '.join(inner_names)} are in a branch, or in a loop with a gradient: their "
        "work counts for the IPU of the call"
    )
    return dataclasses.replace(device, notes=(*device.notes, note))
