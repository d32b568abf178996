"""Traces a call of a strategy as a program, compiles it for the device, and runs it on the host.

The steps hand values on: `trace_call` -> `compile_trace` -> `execute`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.base import spans
from ipu_tf.config import DeviceConfiguration
from ipu_tf.internals.graphs import in_jitted_function, is_in_loop_body
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph, is_recording, stop_recording
from ipu_tf.ops.functions.program_variables import variables_of
from ipu_tf.programs.program import Program
from ipu_tf.runtime.execution import (
    boundary,
    float_exceptions,
    fusion,
    nonfinite_replay,
    xla_engine,
)
from ipu_tf.runtime.execution.executable import (
    Identity,
    function_name,
    is_jitted,
    python_function,
)
from ipu_tf.runtime.execution.numerics_searches import NumericsSearches, searches_of
from ipu_tf.runtime.extraction import deployments
from ipu_tf.runtime.programs import device_programs, loop_shards, program_shards
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.snapshots import Snapshots
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.strategy.open_scope import outer_optimizer
from ipu_tf.tile_program.device_program import DeviceProgram

_LOG = logging.getLogger(__name__)

_KERAS_STEPS = frozenset({"train_step", "test_step", "predict_step"})
_KERASES = ("keras", "tf_keras")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramCall:
    """A call that becomes a program.

    Attributes:
        function: What `run` got: a tf.function, a concrete function, or a plain one.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        configuration: The device.
    """

    function: Callable[..., object]
    args: tuple[object, ...]
    kwargs: Mapping[str, object]
    configuration: DeviceConfiguration

    @property
    def python_function(self) -> Callable[..., object]:
        """The Python function behind it."""
        return python_function(self.function)

    @property
    def owner(self) -> object | None:
        """The object whose method it is, or None."""
        return getattr(self.python_function, "__self__", None)

    @property
    def subject(self) -> object:
        """The object that identifies it: Keras wraps the steps of a model again each time."""
        return self.python_function if self.owner is None else self.owner

    @property
    def key(self) -> tuple[object, ...]:
        """Identifies its program among those of the strategy."""
        name = program_name(self.python_function)
        signature = boundary.signature(self.args, self.kwargs)
        return Identity(self.subject), name, signature, self.configuration


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ProgramTrace:
    """The trace of a call.

    Attributes:
        tracer: The tracer of its ops, with its program.
        graph: The graph that was being built.
        first: Number of ops in the graph before the trace.
        outputs: The results of the function, a structure.
    """

    tracer: Tracer
    graph: FuncGraph
    first: int
    outputs: TensorStructure

    @property
    def operations(self) -> list[tf.Operation]:
        """The ops that the trace, and what followed it, created, without snapshots."""
        operations, snapshots = self.graph.get_operations()[self.first :], self.tracer.snapshots
        if snapshots is None:
            return operations
        return [op for op in operations if op not in snapshots.operations]


def program_name(fn: Callable[..., object]) -> str:
    """Returns the name of a function, prefixed with the name of its model if it is a method."""
    name, owner_name = function_name(fn), getattr(getattr(fn, "__self__", None), "name", None)
    return f"{owner_name}.{name}" if isinstance(owner_name, str) else name


def is_keras_step(fn: Callable[..., object]) -> bool:
    """Returns whether a function is a step of a model: Keras' loop has replicas of its own."""
    if getattr(fn, "__name__", "") not in _KERAS_STEPS:
        return False
    # By name: a model of tf_keras is one, too, and tf_keras may not be there.
    bases = type(getattr(fn, "__self__", None)).__mro__
    return any(base.__name__ == "Model" and _package(base) in _KERASES for base in bases)


def _package(cls: type) -> str:
    return cls.__module__.partition(".")[0]


def untraced_program(call: ProgramCall) -> Program:
    """Returns the program of a call, before anything is known of it."""
    fn, steps = call.python_function, 1
    if is_in_loop_body(tf.compat.v1.get_default_graph()):
        steps = 0  # Nothing says how often a loop of the script's own runs it.
    if getattr(fn, "__name__", "") in _KERAS_STEPS:  # Keras repeats its steps in one execution.
        steps_per_execution = getattr(call.owner, "steps_per_execution", None)
        steps = 1 if steps_per_execution is None else int(steps_per_execution)
    return Program(name=program_name(fn), steps_per_execution=steps)


def trace_call(call: ProgramCall, program: Program, run: Callable[[], object]) -> ProgramTrace:
    """Returns the trace of a call in the graph that is being built.

    Args:
        call: The call.
        program: Its program; the trace records ops there.
        run: Calls the function.

    Raises:
        TypeError: A result has 64 bits.
        ValueError: The shape of a result or of an operation is not static.
    """
    tracer = Tracer(program, call.configuration)
    graph = tf.compat.v1.get_default_graph()
    first = len(graph.get_operations())
    if call.configuration.trace_numerics:
        tracer.snapshots = Snapshots(graph)
    with (
        spans.span("trace", "trace", program=program.name),
        variables_of(call.subject),
        hooks.tracing(tracer),
        scopes.stage_planning(deployments.planning_of(call.owner)),
    ):
        outputs = boundary.without_operations(run())
    tracer.finish(outputs)
    boundary.check_results(outputs)
    return ProgramTrace(tracer=tracer, graph=graph, first=first, outputs=outputs)


def compile_trace(call: ProgramCall, trace: ProgramTrace) -> DeviceProgram | None:
    """Returns the device program of a trace; None for a function that has none.

    Raises:
        UncompilableProgram: The function has no HLO.
        UnsupportedOpcodeError: An operation has no cost on the machine.
        IPUOutOfMemoryError: The program does not fit on a tile.
    """
    tracer, graph = trace.tracer, trace.graph
    remainder = loop_shards.compiled_apart(
        tracer, graph, trace.operations, trace.outputs, tracer.program.steps_per_execution
    )
    step_name = getattr(call.python_function, "__name__", "")
    deployment = deployments.current(call.owner, step_name)
    device = device_programs.compile_trace(
        device_programs.TracedFunction(
            tracer=tracer,
            graph=graph,
            operations=remainder.operations,
            arguments=(call.args, call.kwargs),
            outputs=trace.outputs,
            owner=call.owner,
            deployment=deployment or program_shards.deployment_of(tracer, graph),
            states=remainder.states,
        )
    )
    return program_shards.with_shard_note(device, tracer, graph)


def execute(
    call: ProgramCall, trace: ProgramTrace, device: DeviceProgram | None
) -> tuple[object, DeviceProgram | None]:
    """Returns the results of a trace as the host computes them, and its noted device program.

    Joins ops, or lets XLA run the program. A trace that a tape records stays as it is.
    """
    float_exceptions.name_places(trace.tracer, trace.graph, device)
    searches, gradients = _searches_of(trace), trace.tracer.scaled_gradients
    by_xla = in_jitted_function(trace.graph)
    if is_recording():
        if searches is not None:
            with stop_recording():
                searches.watch(trace.outputs, gradients, device, xla_random=by_xla)
        return trace.outputs, device
    choice = xla_engine.choose(
        call.configuration.engine,
        trace.graph,
        trace.operations,
        trace.outputs,
        device,
        jitted=is_jitted(),
    )
    if choice.by_xla or device_programs.never_runs():
        outputs = choice.outputs
    else:
        results = trace.outputs, gradients
        outputs, gradients = fusion.fuse(trace.graph, results, loops=searches is None)
    if choice.note and device is not None:
        device = dataclasses.replace(device, notes=(*device.notes, choice.note))
    if searches is not None:
        by_xla = by_xla or (choice.by_xla and is_jitted())
        searches.watch(outputs, gradients, device, xla_random=by_xla)
    return outputs, device


def _searches_of(trace: ProgramTrace) -> NumericsSearches | None:
    """Returns the searches of a program that `simulator.trace_numerics` asks for; warns of one that
    cannot have any."""
    snapshots = trace.tracer.snapshots
    if snapshots is None:
        return None
    try:
        updates = device_programs.update_runs(trace.tracer)
        return searches_of(
            trace.tracer, trace.graph, trace.operations, trace.outputs, snapshots, updates
        )
    except nonfinite_replay.CannotReplay as reason:
        _LOG.warning(
            "Program '%s' is not traced by simulator.trace_numerics, which will not name the "
            "operation of a NaN in it: %s.",
            trace.tracer.program.name,
            reason,
        )
        nonfinite_replay.forget(snapshots)
        return None


@contextlib.contextmanager
def errors_as_they_are(program: Program, configuration: DeviceConfiguration) -> Iterator[None]:
    """Keeps AutoGraph from replacing the compiler's errors, whose types it does not know."""
    try:
        yield
    except Exception as error:
        own = device_programs.own_error(error, program, configuration) or outer_optimizer(error)
        if own is None:
            raise
        own.ag_pass_through = True  # type: ignore[attr-defined] # AutoGraph looks for it.
        raise own from None
