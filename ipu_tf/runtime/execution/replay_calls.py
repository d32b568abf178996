"""Replays runs apart from the program, from copies of what they read.

One operation looks at the results, and calls Python where a run is to be replayed: XLA can compile
it, and loops of the program stay loops that XLA can run. The replay has variables of its own, and a
session with threads of its own, because the program waits for it.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipu_tf.internals.graphs import variable_spec
from ipu_tf.internals.tensorflow import FuncGraph, FunctionDef
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution.nonfinite_replay import (
    BEGIN,
    END,
    Replay,
    ReplayLog,
    add_checked_call,
    is_checked,
)
from ipu_tf.runtime.execution.repeated_effects import callees_by_name
from ipu_tf.runtime.replicas.replica_functions import STREAM_STRIDE


@dataclass(frozen=True, kw_only=True, eq=False)
class _Replayable:
    """A program that can run once more apart from its graph, of which it holds nothing.

    Attributes:
        definition: Its operations.
        callees: The functions that it calls, by name.
        sources: Names of its arguments: numbers, then variables.
        inputs: Number of the arguments that are numbers.
        variables: Types and shapes of its variables.
        updated_variables: Numbers of the variables that it changes, with their arguments.
        outputs: Types and shapes of its results.
        groups: The groups of streams of random bits that it draws from.
        serial: Its number, unique in the process.
        log: Gets what is found.
    """

    definition: FunctionDef
    callees: Mapping[str, FunctionDef]
    sources: Sequence[str]
    inputs: int
    variables: Sequence[tf.TensorSpec]
    updated_variables: Sequence[tuple[int, str]]
    outputs: Sequence[tf.TensorSpec]
    groups: Sequence[int]
    serial: int
    log: ReplayLog


_programs: dict[int, _Replayable] = {}
_lock = threading.Lock()
_serial = itertools.count()


def can_replay(replay: Replay) -> bool:
    """Returns whether numbers and variables are all that a run reads."""
    return not replay.region.host and not replay.snapshots.records


def watch(replay: Replay, tensors: Sequence[tf.Tensor], log: ReplayLog) -> tf.Operation:
    """Adds the look at some tensors, and a replay, to the graph that is being built.

    Returns:
        The operation of both.

    Args:
        replay: The replay of the program.
        tensors: What is looked at.
        log: Gets what is found.
    """
    region, snapshots = replay.region, replay.snapshots.values
    specs = [variable_spec(handle) for handle in region.variables]
    states = [
        snapshots[id(handle)][1]
        if id(handle) in snapshots
        else tf.raw_ops.ReadVariableOp(resource=handle, dtype=spec.dtype)
        for handle, spec in zip(region.variables, specs, strict=True)
    ]
    scale = [] if log.scale is None else [log.scale]
    log.scale = None  # What is kept holds no tensor: the graph may end.
    names = [tensor.op.name for tensor in (*region.inputs, *region.variables)]
    numbers = [number for number, one in enumerate(region.variables) if id(one) in snapshots]
    _keep(
        tf.compat.v1.get_default_graph(),
        _Replayable(
            definition=replay.definition,
            callees=callees_by_name(replay.definition),
            sources=names,
            inputs=len(region.inputs),
            variables=specs,
            updated_variables=[
                (number, replay.argument_of(region.variables[number]))
                for number in numbers
                if is_checked(specs[number])
            ],
            outputs=[tf.TensorSpec(one.shape, one.dtype) for one in region.outputs],
            groups=replay.groups,
            serial=replay.serial,
            log=log,
        ),
    )
    operands = [*scale, *region.inputs, *states]
    return library.load().ipu_nonfinite_replay(results=tensors, operands=operands, **replay.state)


def _keep(graph: Any, program: _Replayable) -> None:
    """Keeps a program until the outermost function around it ends."""
    while isinstance(outer := getattr(graph, "outer_graph", None), FuncGraph):
        graph = outer
    library.replay_by(_replay_run)
    _programs[program.serial] = program
    weakref.finalize(graph, _programs.pop, program.serial, None).atexit = False


def _replay_run(number: int, replica: int, run: int, values: Sequence[NDArray[Any]]) -> None:
    program = _programs.get(number)
    if program is not None:
        with _lock:
            _replay(program, replica, run, values)


def _replay(
    program: _Replayable, replica: int, run: int, run_values: Sequence[NDArray[Any]]
) -> None:
    """Replays a run, and logs what its checks find.

    Args:
        program: The program.
        replica: Number of the replica.
        run: Number of the run.
        run_values: What the run read: the loss scale, if it has one, numbers, states of variables.
    """
    log = program.log
    scale = ["loss scale"] if log.has_scale else []
    log.inputs = tuple(
        name
        for name, value in zip((*scale, *program.sources), run_values, strict=True)
        if tf.as_dtype(value.dtype).is_floating
    )
    log.variable_arguments = tuple(name for _, name in program.updated_variables)

    def note(number: NDArray[Any], *values: NDArray[Any]) -> list[NDArray[Any]] | None:
        return log(number + replica * STREAM_STRIDE if number >= 0 else number, *values)

    with tf.Graph().as_default() as graph, tf.device("/CPU:0"):
        tensors = [tf.compat.v1.placeholder(value.dtype, value.shape) for value in run_values]
        end = _add_replay(program, replica, run, tensors, note)
        threads = tf.compat.v1.ConfigProto(
            use_per_session_threads=True, inter_op_parallelism_threads=1
        )
        with tf.compat.v1.Session(graph=graph, config=threads) as session:
            session.run(end, dict(zip(tensors, run_values, strict=True)))


def _add_replay(
    program: _Replayable, replica: int, run: int, values: Sequence[tf.Tensor], note: Any
) -> tf.Operation:
    """Adds a replay to the graph of a session; returns its last operation."""
    log = program.log
    numbers = values[int(log.has_scale) :]
    handles = [
        tf.raw_ops.VarHandleOp(dtype=spec.dtype, shape=spec.shape, shared_name=f"variable_{n}")
        for n, spec in enumerate(program.variables)
    ]
    states = zip(handles, numbers[program.inputs :], strict=True)
    before = [tf.raw_ops.AssignVariableOp(resource=one, value=value) for one, value in states]
    with tf.control_dependencies(before):
        begin = _calls(note, [BEGIN, run, replica, *(t for t in values if t.dtype.is_floating)])
    with tf.control_dependencies([begin]):
        rewound = _rewind(program, replica, back=True)
    with tf.control_dependencies([rewound]):
        call = _checked_call(program, [*numbers[: program.inputs], *handles], begin)
    results = [number for number, spec in enumerate(program.outputs) if is_checked(spec)]
    log.results = tuple(results)
    with tf.control_dependencies([call]):
        after = [
            tf.raw_ops.ReadVariableOp(resource=handles[n], dtype=program.variables[n].dtype)
            for n, _ in program.updated_variables
        ]
        forth = _rewind(program, replica, back=False)
    with tf.control_dependencies([forth]):
        return _calls(note, [END, replica, *(call.outputs[n] for n in results), *after])


def _checked_call(
    program: _Replayable, inputs: Sequence[tf.Tensor], begin: tf.Operation
) -> tf.Operation:
    serial = next(_serial)  # TensorFlow may still know the functions of the replay before.

    def name_of(function: str) -> str:
        return f"{function}_replayed_{serial}"

    definition = FunctionDef()
    definition.CopyFrom(program.definition)
    definition.signature.name = name_of(definition.signature.name)
    return add_checked_call(
        definition,
        program.sources,
        name_of,
        program.callees.__getitem__,
        inputs,
        program.outputs,
        program.log,
        begin.get_attr("token"),
    )


def _rewind(program: _Replayable, replica: int, *, back: bool) -> tf.Operation:
    return library.load().ipu_rewind(
        program=program.serial,
        stream=replica * STREAM_STRIDE,
        records=[],
        groups=program.groups,
        back=back,
    )


def _calls(function: Any, values: Sequence[Any]) -> tf.Operation:
    """Returns an operation that calls a Python function without results."""
    call = tf.numpy_function(function, [np.int64(v) if type(v) is int else v for v in values], [])
    return call if isinstance(call, tf.Operation) else call.op
