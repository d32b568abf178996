"""Calls a program on all replicas at once, in the graph that is being built."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any, NoReturn

import tensorflow as tf

from ipu_tf.internals.graphs import in_jitted_function
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph, func_graph_from_py_func, record_operation
from ipu_tf.ops.kernels import library, replica_context
from ipu_tf.ops.kernels.replica_context import ReplicatedTrace
from ipu_tf.processes.instances import instances
from ipu_tf.runtime.replicas import instance_exchange
from ipu_tf.runtime.replicas.fingerprints import fingerprint
from ipu_tf.runtime.replicas.replica_functions import function_copies
from ipu_tf.runtime.replicas.replica_variables import ReplicaVariables
from ipu_tf.runtime.tracing.call_ops import add_call

_OPERATION = "IpuReplicas"
"""Name under which tapes record the calls of all replicas."""

_WITHOUT_GRADIENT = {"_gradient_op_type": tf.compat.v1.AttrValue(s=_OPERATION.encode())}


def call(
    program: Callable[..., TensorStructure],
    args: tuple[TensorStructure, ...],
    kwargs: dict[str, TensorStructure],
    *,
    name: str,
    device_ipus: int | None,
) -> TensorStructure:
    """Returns the results of a program that runs on every replica; those of the first one here.

    The program is traced once. Each replica runs a copy of it at the same time, with its own
    variables, and they meet in collectives. A replica that fails ends all others. A single replica
    runs in the graph itself.

    Args:
        program: Traces the program; takes its positional and its keyword arguments.
        args: Its positional arguments; every replica gets the same.
        kwargs: Its keyword arguments.
        name: Name of the program.
        device_ipus: IPUs of the device. A replica takes one, or as many as its shards need. None
            for a single replica with so many, of a device that is not configured yet.

    Raises:
        NotImplementedError: The graph is that of a function with `jit_compile=True`.
        ValueError: The IPUs of the device are not a multiple of those that a replica needs.
    """
    job = instances()
    trace = ReplicatedTrace(device_ipus, job.ipus_per_replica if job.count > 1 else 1)
    trace = _checked(trace, name)
    lacking = 0
    while True:
        try:
            if trace.count > 1:
                return _on_replicas(trace, program, args, kwargs, name)
            with replica_context.tracing(trace):
                results = program(args, kwargs)
        except replica_context.MoreIpusNeeded as more:
            if device_ipus is not None and device_ipus % more.ipus:
                # The rest of the program may need more: its trace tells how many.
                lacking = more.ipus
            trace = _checked(ReplicatedTrace(None if lacking else device_ipus, more.ipus), name)
            continue
        except Exception:
            if lacking:  # The program may rely on its replicas.
                raise _too_few_ipus(name, device_ipus, trace.ipus) from None
            raise
        if lacking:
            raise _too_few_ipus(name, device_ipus, trace.ipus)
        return results


def _checked(trace: ReplicatedTrace, name: str) -> ReplicatedTrace:
    """Returns a trace whose replicas are those that poprun gave this instance.

    Raises:
        ValueError: The device has IPUs for more or fewer of them.
    """
    job = instances()
    if job.count > 1 and trace.is_configured and trace.local_count != job.local_replicas:
        raise ValueError(
            f"'{name}' takes {trace.ipus} IPUs for each replica, so the device of instance "
            f"{job.index} runs {trace.local_count} replicas, but poprun gave it "
            f"{job.local_replicas}. Configure the device by "
            "popdist.tensorflow.set_ipu_config(config, ipus_per_replica), and start poprun with "
            "the same --ipus-per-replica."
        )
    return trace


def _too_few_ipus(name: str, device_ipus: int | None, ipus: int) -> ValueError:
    return ValueError(
        f"Current device has {device_ipus} IPUs attached, however the current model requires a "
        f"multiple of {ipus} IPUs: a replica of '{name}' takes as many as it has shards or stages, "
        f"rounded up to a power of two, which are {ipus}. Set `auto_select_ipus` of the "
        f"configuration to {ipus} or a multiple of it, or use fewer shards or stages."
    )


def _on_replicas(
    trace: ReplicatedTrace,
    program: Callable[..., TensorStructure],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    name: str,
) -> Any:
    outer = tf.compat.v1.get_default_graph()
    if in_jitted_function(outer):
        raise NotImplementedError(
            f"'{name}' runs on {trace.count} replicas, and is called in a function with "
            "`jit_compile=True`, which XLA compiles as a whole. Remove `jit_compile` from the "
            "function around `strategy.run`, or configure one IPU."
        )
    leaves = tf.nest.flatten((args, kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, tf.Tensor)]
    graph = _trace(trace, program, leaves, (args, kwargs), tensors, name)
    replicas = library.load().ipu_replicas(count=trace.local_count, offset=trace.offset)
    variables = ReplicaVariables(graph, trace.local_count, trace.offset)
    functions = function_copies(graph, trace.local_count, trace.offset)
    if trace.count > trace.local_count:
        instance_exchange.join()
        instance_exchange.note_program(trace.sites, fingerprint(functions[0].name))
    calls = []
    for replica, function in enumerate(functions):
        inputs = [replicas[replica], *tensors, *variables.inputs(graph.external_captures, replica)]
        calls.append(
            add_call(
                outer,
                "StatefulPartitionedCall",
                function,
                inputs,
                graph.outputs,
                name=graph.name,
                attributes=_WITHOUT_GRADIENT,
            )
        )
        with tf.control_dependencies([calls[-1]]):
            library.load().ipu_replica_end(replica=replicas[replica])
    with tf.control_dependencies(calls):
        variables.keep()
        outputs = [tf.identity(tensor) for tensor in calls[0].outputs]
    sources = [*tensors, *graph.external_captures]
    record_operation(_OPERATION, outputs, sources, functools.partial(_refuse_gradient, name))
    results = iter(outputs)
    return tf.nest.map_structure(
        lambda leaf: None if leaf is None else next(results),
        graph.structured_outputs,
        expand_composites=True,
    )


def _trace(
    trace: ReplicatedTrace,
    program: Callable[..., TensorStructure],
    leaves: list[Any],
    structure: Any,
    tensors: list[tf.Tensor],
    name: str,
) -> FuncGraph:
    """Returns the graph of a program, whose inputs are the replica and its tensors."""

    def trace_program(replica: tf.Tensor, *tensors: tf.Tensor) -> Any:
        trace.replica = replica
        trace.index = library.load().ipu_replica_index(replica=replica)
        own = iter(tensors)
        inner = [next(own) if isinstance(leaf, tf.Tensor) else leaf for leaf in leaves]
        args, kwargs = tf.nest.pack_sequence_as(structure, inner)
        with replica_context.tracing(trace):
            return program(args, kwargs)

    specs = [tf.TensorSpec((), tf.resource), *tensors]
    valid = re.sub(r"\W+", "", name) or "program"  # A lambda is called "<lambda>".
    return func_graph_from_py_func(valid, trace_program, tuple(specs), {})


@tf.RegisterGradient(_OPERATION)
def _gradient_of_call(op: tf.Operation, *_: tf.Tensor) -> NoReturn:
    _refuse_gradient(op.name)


def _refuse_gradient(name: str, *_: Any) -> NoReturn:
    """Raises: replicas have arguments in common, but variables and results of their own.

    Raises:
        NotImplementedError: Always.
    """
    raise NotImplementedError(
        f"'{name}' runs on several replicas, and a gradient of its results is wanted outside of "
        "it. Only the replicas' own program has their gradients: put the tf.GradientTape into the "
        "function that `strategy.run` runs, and return the gradients."
    )
