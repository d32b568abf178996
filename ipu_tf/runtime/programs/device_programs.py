"""Compiles the device program of a function that was just traced."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.base import spans
from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import DEFAULT_BLOCK, CompilerOptions
from ipu_tf.compiler.equal_blocks.lengthening import lengthened
from ipu_tf.compiler.equal_blocks.repetition import Repetition
from ipu_tf.compiler.equal_blocks.splicing import lengthened_ops
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.pipeline.deployment import Deployment
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.config import DeviceConfiguration
from ipu_tf.internals.graphs import leave_unordered
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.machine import host
from ipu_tf.ops.kernels import replica_context
from ipu_tf.planner.plan import OpShape, Plan, PlanDoesNotFit
from ipu_tf.processes.job_folder import job_folder
from ipu_tf.programs.op_names import LayerScopes, own_name
from ipu_tf.programs.program import Program, TileOp
from ipu_tf.programs.source import Source
from ipu_tf.programs.update_runs import UpdateRuns
from ipu_tf.runtime.extraction import embedded_programs, wide_values
from ipu_tf.runtime.extraction.hlo import extract
from ipu_tf.runtime.extraction.hlo_parameters import VariableRoles
from ipu_tf.runtime.extraction.hlo_region import Captures
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram
from ipu_tf.runtime.programs import rebatching
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.errors import IPUOutOfMemoryError, UnsupportedOpcodeError

_LOG = logging.getLogger(__name__)

_ERRORS = (IPUOutOfMemoryError, UnsupportedOpcodeError, UncompilableProgram)
"""The errors with which the compiler refuses a function."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedFunction:
    """A function that was traced into a graph, before its ops are joined.

    Attributes:
        tracer: The tracer of its ops; its program is finished.
        graph: The graph.
        operations: The ops that the trace created, in order.
        arguments: The arguments of the function, a structure.
        outputs: The results of the function, a structure.
        owner: The object whose method the function is, or None.
        variables: The roles of its variables; None finds them from the owner.
        deployment: Its stages, and how they run; None runs the function whole on one IPU.
        states: Inputs that stay on the device, each with the result that is its next value.
    """

    tracer: Tracer
    graph: FuncGraph
    operations: Sequence[tf.Operation]
    arguments: tuple[tuple[TensorStructure, ...], Mapping[str, TensorStructure]]
    outputs: TensorStructure
    owner: object = None
    variables: VariableRoles | None = None
    deployment: Deployment | None = None
    states: Sequence[tuple[tf.Tensor, tf.Tensor]] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSettings:
    """How the functions of enclosed traces are compiled.

    Attributes:
        captured: Collects the functions, which are not compiled then; None compiles them.
        is_on_host: Whether no device program is compiled: another trace represents them.
        samples: Samples of a run, whatever the arguments; None for those of the arguments.
        recomputation: Whether programs recompute activations, and the layers after which they
            keep them; None for what the configuration says.
        accumulators: Variables that accumulate gradients.
        never_run: Whether a trace ends with its program: the function never runs.
        updates: Which runs make up an update of the weights; None where the program says it.
        repetition: The equal blocks of a model of which the outer ones alone are traced.
    """

    captured: list[TracedStep] | None = None
    is_on_host: bool = False
    samples: int | None = None
    recomputation: tuple[bool, tuple[str, ...]] | None = None
    accumulators: Sequence[tf.Variable] = ()
    never_run: bool = False
    updates: UpdateRuns | None = None
    repetition: Repetition | None = None


_NO_SETTINGS = TraceSettings()

# A trace begins inside of TensorFlow's own calls, which pass on no arguments of ours.
_SETTINGS: ContextVar[TraceSettings] = ContextVar("ipu_tf.trace_settings", default=_NO_SETTINGS)


@contextlib.contextmanager
def _setting(change: Callable[[TraceSettings], TraceSettings]) -> Iterator[None]:
    """Changes the settings of enclosed traces."""
    token = _SETTINGS.set(change(_SETTINGS.get()))
    try:
        yield
    finally:
        _SETTINGS.reset(token)


@contextlib.contextmanager
def capturing() -> Iterator[list[TracedStep]]:
    """Yields a list that collects the functions traced inside; they are not compiled."""
    steps: list[TracedStep] = []
    with _setting(lambda now: dataclasses.replace(now, captured=steps)):
        yield steps


def on_host() -> contextlib.AbstractContextManager[None]:
    """Compiles no device program for functions traced inside: another trace represents them."""
    return _setting(lambda now: dataclasses.replace(now, is_on_host=True))


def samples_a_run(samples: int) -> contextlib.AbstractContextManager[None]:
    """Sets the samples of a run of the functions traced inside, whatever their arguments."""
    return _setting(lambda now: dataclasses.replace(now, samples=samples))


def accumulating_in(accumulators: Sequence[tf.Variable]) -> contextlib.AbstractContextManager[None]:
    """Marks `accumulators` as gradient accumulators for enclosed traces.

    Args:
        accumulators: The variables; their names begin with the paths of the layers.
    """
    return _setting(lambda now: dataclasses.replace(now, accumulators=accumulators))


class _ProgramKnown(Exception):
    """The program of a trace is known, and nothing else of the trace is needed."""


@contextlib.contextmanager
def for_figures() -> Iterator[None]:
    """Leaves the body as soon as the program of a function traced inside is known.

    The function never runs, so what TensorFlow does to finish it, and what the host would run of
    it, are not needed.
    """
    try:
        with _setting(lambda now: dataclasses.replace(now, never_run=True)):
            yield
    except _ProgramKnown:
        return


def end_unless_run() -> None:
    """Ends a trace whose program is known, if it is for figures alone."""
    if never_runs():
        leave_unordered(tf.compat.v1.get_default_graph())
        raise _ProgramKnown


def never_runs() -> bool:
    """Returns whether the current trace is for figures alone."""
    return _SETTINGS.get().never_run


def recomputing(
    recompute: bool, checkpoints: tuple[str, ...]
) -> contextlib.AbstractContextManager[None]:
    """Makes programs compiled inside recompute activations, or not, whatever the configuration.

    Args:
        recompute: Whether they do.
        checkpoints: Layers after which they keep activations.
    """
    return _setting(lambda now: dataclasses.replace(now, recomputation=(recompute, checkpoints)))


def updating(updates: UpdateRuns) -> contextlib.AbstractContextManager[None]:
    """Says which runs of the programs traced inside make up an update of the weights."""
    return _setting(lambda now: dataclasses.replace(now, updates=updates))


def lengthening(repetition: Repetition) -> contextlib.AbstractContextManager[None]:
    """Adds the equal blocks of a model that its traces inside leave out to their programs.

    They raise NotRepeated if the others do not tell what is left out.
    """
    return _setting(lambda now: dataclasses.replace(now, repetition=repetition))


def update_runs(tracer: Tracer) -> UpdateRuns | None:
    """Returns which runs of a traced program make up an update; None if it makes none."""
    update_runs = _SETTINGS.get().updates
    if update_runs is not None or (tracer.pipeline_updates or tracer.updates_in_loop) is None:
        return update_runs
    return UpdateRuns(
        micro_batches=tracer.steps_of_update,
        is_in_loop=bool(tracer.updates_in_loop),
        pipeline_updates=tracer.pipeline_updates,
    )


def is_reported() -> bool:
    """Returns whether the current trace is a device program, not a part or copy of one."""
    return _SETTINGS.get().captured is None and is_compiled()


def is_compiled() -> bool:
    """Returns whether the current trace is compiled for the machine, alone or as a part."""
    return not _SETTINGS.get().is_on_host


def compile_trace(trace: TracedFunction) -> DeviceProgram | None:
    """Returns the device program of a traced function.

    Returns None for a function that the host runs alone; also, with the reason in the log, for a
    function without HLO if `cfg.simulator.unsupported` is "warn".

    Raises:
        TypeError: A variable or data of the program is float64.
        UncompilableProgram: The function has no HLO.
        UnsupportedOpcodeError: An operation has no cost on the machine.
        IPUOutOfMemoryError: The program does not fit on a tile.
        NotRepeated: It lacks blocks of a model that do not follow from the others.
    """
    settings = _SETTINGS.get()
    if settings.is_on_host:
        return None
    program, configuration = trace.tracer.program, trace.tracer.configuration
    tensors = [leaf for leaf in tf.nest.flatten(trace.arguments) if isinstance(leaf, tf.Tensor)]
    try:
        with spans.span("extract HLO", "hlo", program=program.name):
            module = extract(
                trace.graph,
                trace.operations,
                trace.outputs,
                name=program.name,
                variables=_variables(trace),
                arguments={f"input_{index}": tensor for index, tensor in enumerate(tensors)},
                layers=LayerScopes(
                    paths=trace.tracer.layers, optimizers=frozenset(trace.tracer.optimizer_scopes)
                ),
                states=trace.states,
            )
    except UncompilableProgram as error:
        if configuration.unsupported == "raise":
            raise
        _LOG.warning("%s", error)
        program.refusal = str(error)
        return None
    wide_values.check_sources(module)
    options, samples = _of_replicas(configuration), settings.samples or _samples(tensors)
    plans = _plans(module, program.tile_ops)
    step = TracedStep(module=module, options=options, plans=plans, samples_per_run=samples)
    if settings.repetition is not None:
        step = lengthened(step, settings.repetition)
        program.tile_ops[:] = lengthened_ops(program.tile_ops, settings.repetition)
        program.native_ops[:] = lengthened_ops(program.native_ops, settings.repetition)
        module, plans = step.module, dict(step.plans)
    if settings.captured is not None:
        settings.captured.append(step)
        return None
    (batch, *_), _ = trace.arguments if trace.arguments[0] else ((None,), {})
    program.source = Source(
        step=step,
        deployment=trace.deployment,
        io_tiles=configuration.io_tiles,
        at_batch_size=rebatching.retracer(trace.owner, program.name.rpartition(".")[2], batch),
    )
    wide = wide_values.notes(module)
    for note in wide:
        _LOG.warning("Program '%s': %s.", program.name, note)
    with spans.span("compile", "compile", program=program.name):
        store = job_folder()
        compiled = compile_program(
            module, options, plans, samples, trace.deployment, store, step.outer
        )
    compiled = _on_replicas(compiled, options)
    notes = (*_host_results(trace.outputs), *wide, *embedded_programs.notes(module))
    return dataclasses.replace(compiled, notes=(*compiled.notes, *notes)) if notes else compiled


def _of_replicas(configuration: DeviceConfiguration) -> CompilerOptions:
    """Returns the compiler's options for the replicas of the trace, outside of Keras."""
    options, replicas = compiler_options(configuration), replica_context.num_replicas()
    if replicas == 1:
        return options
    sharing = host.sharing_replicas(options.system_of(replicas), replicas, 1)
    return dataclasses.replace(options, host_ipus=sharing)


def _on_replicas(program: DeviceProgram, options: CompilerOptions) -> DeviceProgram:
    """Returns the program of one replica as that of all replicas of the trace.

    The collectives are in the program; Keras has replicas of its own.
    """
    replicas = replica_context.num_replicas()
    if replicas == 1:
        return program
    system = options.system_of(replicas * program.replica_ipus)
    return dataclasses.replace(
        program,
        replicas=replicas,
        system=system.name,
        round_trip_cycles=host.round_trip_cycles(system),
    )


def _plans(module: Module, tile_ops: Sequence[TileOp]) -> dict[str, tuple[OpShape, Plan]]:
    """Returns the plans of tile ops, by the names of the ops in the module."""
    plans = {op.name: (op.shape, op.plan) for op in tile_ops}
    names = {i.op_name for computation in module.computations.values() for i in computation}
    own = {name: own_name(name) for name in names}
    return {name: plans[shared_name] for name, shared_name in own.items() if shared_name in plans}


def _host_results(outputs: Any) -> tuple[str, ...]:
    """Returns notes about results that no tile can hold."""
    leaves = tf.nest.flatten(outputs, expand_composites=True)
    count = sum(isinstance(leaf, tf.Tensor) and leaf.dtype == tf.string for leaf in leaves)
    if not count:
        return ()
    return (f"the host makes the results of type string ({count}): they take no cycles and memory",)


def compiler_options(configuration: DeviceConfiguration) -> CompilerOptions:
    """Returns the compiler's options for a configuration."""
    recompute, checkpoints = _SETTINGS.get().recomputation or (configuration.allow_recompute, ())
    return CompilerOptions(
        target=configuration.target,
        system=configuration.system,
        matmul=configuration.matmul,
        conv=configuration.conv,
        unsupported=configuration.unsupported,
        out_of_memory=configuration.out_of_memory,
        share_code=configuration.share_code,
        io_tiles=configuration.io_tiles,
        io_tile_share=configuration.io_tile_share,
        recompute=recompute,
        checkpoints=checkpoints,
        cholesky_block=configuration.cholesky_block or DEFAULT_BLOCK,
        triangular_solve_block=configuration.triangular_solve_block or DEFAULT_BLOCK,
    )


def own_error(
    error: Exception, program: Program, configuration: DeviceConfiguration
) -> Exception | None:
    """Returns the compiler's error behind an error of a trace, None if it is not the compiler's.

    Args:
        error: The raised error: the compiler's error itself, or AutoGraph's in its place.
        program: The traced program.
        configuration: The device.
    """
    for cause in (error, error.__context__):
        if isinstance(cause, PlanDoesNotFit):
            message = (
                f"Program '{program.name}' does not fit on a {configuration.chip} IPU. {cause}"
            )
            return IPUOutOfMemoryError(message, program=program.name, chip=configuration.chip)
        if isinstance(cause, _ERRORS):
            return cause
    return None


def _variables(trace: TracedFunction) -> VariableRoles:
    """Returns the variables of a traced function by their roles."""
    if trace.variables is not None:
        return trace.variables
    model = trace.owner
    if not isinstance(model, keras.Model):
        captures = Captures()
        slots = [
            (captures.source(slot), captures.source(weight)) for slot, weight in trace.tracer.slots
        ]
        return VariableRoles(
            weights=trace.tracer.trainable_variables,
            accumulators=_SETTINGS.get().accumulators,
            slots=slots,
        )
    optimizer = getattr(model, "optimizer", None)
    return VariableRoles(
        weights=model.trainable_variables,
        optimizer_state=optimizer.variables if optimizer is not None else (),
        states=model.variables,
        metrics=model.metrics_variables,
        accumulators=_SETTINGS.get().accumulators,
    )


def _samples(tensors: Sequence[tf.Tensor]) -> int:
    """Returns the leading dimension that all arguments share, 0 if they share none."""
    sizes = {tensor.shape.as_list()[0] if tensor.shape.rank else 0 for tensor in tensors}
    return sizes.pop() if len(sizes) == 1 else 0
