"""`IPUStrategyV1`: a tf.distribute strategy that runs functions as programs of a simulated IPU.

Users get it from `ipu_tf.ipu_strategy`, where `ipu_tf.keras` extends its scopes.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import tensorflow as tf

from ipu_tf import config, utils
from ipu_tf.base import spans
from ipu_tf.config.launchers import check_one_process
from ipu_tf.internals.autograph import autograph_artifact
from ipu_tf.internals.graphs import graph_of_session
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.kernels import replica_context
from ipu_tf.profile import automatic_reports, watching
from ipu_tf.profile.figures.host_timeline import timeline_of
from ipu_tf.profile.report import Report
from ipu_tf.profile.text.progress import showing_progress_on_terminal
from ipu_tf.programs.insights import has_insights
from ipu_tf.programs.nonfinite import NonFinite
from ipu_tf.programs.program import Program
from ipu_tf.runtime.execution import boundary, compile_only
from ipu_tf.runtime.execution.executable import (
    ExecutableCache,
    Identity,
    function_name,
    python_function,
)
from ipu_tf.runtime.execution.host_spans import marking_calls, note_run
from ipu_tf.runtime.programs import device_programs
from ipu_tf.runtime.programs.program_registry import ProgramRegistry
from ipu_tf.runtime.replicas import replica_call
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.strategy import program_trace
from ipu_tf.strategy.adaptation import adapting_on_host
from ipu_tf.strategy.default_graph import outlasting_resets
from ipu_tf.strategy.extension import IPUExtendedV1
from ipu_tf.strategy.infeed_iterator import dataset_iterators_in_scope
from ipu_tf.strategy.open_scope import in_force
from ipu_tf.strategy.program_trace import ProgramCall, is_keras_step, program_name
from ipu_tf.tile_program.errors import IPUOutOfMemoryError

_FUNCTION_TYPES = (
    tf.types.experimental.PolymorphicFunction,
    tf.types.experimental.ConcreteFunction,
)

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

ScopeExtension: TypeAlias = "Callable[[IPUStrategyV1], contextlib.AbstractContextManager[None]]"
"""Makes the context that a scope opens beside its own."""

_scope_extensions: list[ScopeExtension] = []


def extend_scopes(extension: ScopeExtension) -> ScopeExtension:
    """Registers a context that every scope with Keras extensions opens; a decorator."""
    _scope_extensions.append(extension)
    return extension


class IPUStrategyV1(tf.distribute.Strategy):
    """Runs tf.functions and Keras models on one simulated IPU system.

    Variables made in `scope()` are plain variables: one process holds one copy, and
    `num_replicas_in_sync` is 1 even if the device has many IPUs.

    Args:
        ipu_device: Name of the IPU device, "/device:IPU:<n>".
        cpu_device: TensorFlow device on which variables live and initialisers run.
        enable_dataset_iterators: Whether `iter(dataset)` in the scope returns an infeed that only
            a function can read.
        enable_keras_extensions: Whether Keras models made in the scope become ipu_tf models.
        profile: Whether `report()` has a timeline of the host, with the last 65,536 spans.

    Raises:
        RuntimeError: A launcher started several processes, which would each train alone.

    Example:
        >>> strategy = IPUStrategy()
        >>> with strategy.scope():
        ...     model = keras.Sequential([keras.layers.Dense(10)])
        ...     model.compile(loss="mse")
    """

    joins_instances = False
    """Whether the strategy is one of a job of several processes."""

    extension: type[IPUExtendedV1] = IPUExtendedV1
    """What tf.distribute asks of the strategy."""

    def __init__(
        self,
        ipu_device: str = "/device:IPU:0",
        cpu_device: str = "/device:CPU:0",
        enable_dataset_iterators: bool = True,
        enable_keras_extensions: bool = True,
        profile: bool = False,
    ) -> None:
        if not self.joins_instances:
            check_one_process()
        super().__init__(self.extension(self, ipu_device, cpu_device))
        self.extended.settings |= {
            "enable_dataset_iterators": enable_dataset_iterators,
            "enable_keras_extensions": enable_keras_extensions,
        }
        self._enable_dataset_iterators = enable_dataset_iterators
        self._enable_keras_extensions = enable_keras_extensions
        self._executables = ExecutableCache(self._trace)
        self._programs = ProgramRegistry()
        self._nonfinite: dict[tuple[Identity, str], list[NonFinite]] = {}
        self._recorder: spans.Recorder | None = None
        self._said_of_tf_keras = False
        executables = weakref.ref(self._executables)
        weakref.finalize(self, config.on_reset(lambda: _clear(executables)))
        if profile:
            self.record_host()
        watching.call_watchers(self)
        automatic_reports.watch(self)

    @property
    def supports_loss_scaling(self) -> bool:
        """Always False: loss scaling is not divided by a number of replicas."""
        return False

    @property
    def num_replicas(self) -> int:
        """Number of replicas of a program, one for each IPU of the device.

        While a program is traced, its own number: its shards or stages share the IPUs of a replica.
        `num_replicas_in_sync` is always 1.
        """
        trace = replica_context.current()
        return self._device_ipus if trace is None else trace.count

    @property
    def _device_ipus(self) -> int:
        return utils.get_num_of_ipus_in_device(self.extended.worker_devices[0])

    @property
    def enable_keras_extensions(self) -> bool:
        """Whether Keras models made in the scope become ipu_tf models."""
        return self._enable_keras_extensions

    def scope(self) -> contextlib.AbstractContextManager[IPUStrategyV1]:
        """Returns a context in which variables and Keras models are made for this strategy."""
        return self._scope()

    @contextlib.contextmanager
    def _scope(self) -> Iterator[IPUStrategyV1]:
        if in_force(self) is not self:
            yield self  # The open scope is one with this.
            return
        with contextlib.ExitStack() as stack:
            stack.enter_context(outlasting_resets(super().scope))
            if self._enable_keras_extensions:
                for extension in _scope_extensions:
                    stack.enter_context(extension(self))
            if self._enable_dataset_iterators:
                stack.enter_context(adapting_on_host())
                stack.enter_context(dataset_iterators_in_scope())
            yield self

    @autograph_artifact
    def run(
        self,
        fn: Callable[..., ResultT],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
        options: tf.distribute.RunOptions | None = None,
    ) -> ResultT:
        """Runs `fn` as one program of the IPU.

        The first call with new shapes, dtypes or configuration traces `fn`; later ones only run
        it. Inside another traced run, `fn` is inlined.

        Args:
            fn: A tf.function or ConcreteFunction; inside a tf.function also a plain function. In
                the graph of a session a plain function is called as it is: `ipu_compiler.compile`
                makes the programs in it.
            args: Positional arguments of `fn`.
            kwargs: Keyword arguments of `fn`.
            options: Accepted for compatibility; has no effect.

        Returns:
            The results of `fn`.

        Raises:
            ValueError: A plain function in eager mode, or an argument whose shape is not static.
            TypeError: An argument or result of 64 bits.
            IPUOutOfMemoryError: The program does not fit on a tile.
            UnsupportedOpcodeError: An operation has no cost on the machine.
            UncompilableProgram: The function cannot be compiled at all.
            RuntimeError: The scope of another strategy is open, or `fn` updates weights by an
                optimizer that was made outside of any strategy's scope.
        """
        del options
        kwargs = kwargs or {}
        if in_force(self) is not self:
            return in_force(self).run(fn, args, kwargs)
        if tf.inside_function():
            if hooks.active() is not None:
                # The programs of sessions are outside of the strategy until their code calls this.
                is_inside = tf.distribute.get_strategy() is self
                return fn(*args, **kwargs) if is_inside else super().run(fn, args, kwargs)
            inner = python_function(fn)
            note_run(program_name(inner))
            return self._trace(fn, tuple(args), kwargs)
        if not isinstance(fn, _FUNCTION_TYPES):
            if not tf.executing_eagerly():  # A session's graph: its programs are in `fn`.
                return super().run(fn, args, kwargs)
            raise ValueError(
                "IPUStrategyV1.run(fn, ...) does not support eager execution: `fn` has to be a "
                "tf.function. Decorate it with @tf.function, or call `run` inside of one. "
                f"Received: fn={fn!r}."
            )
        executable = self._executables.executable(fn, config.device_configuration())
        if not spans.are_recorded():
            return executable(*args, **kwargs)
        inner = python_function(fn)
        program = program_name(inner)
        with spans.span("run", "execution", program=program, steps=1):
            return executable(*args, **kwargs)

    def experimental_run_v2(self, *args: object, **kwargs: object) -> object:
        """Always raises: use `run`."""
        raise RuntimeError("`experimental_run_v2` is gone: call `IPUStrategy.run` instead.")

    @autograph_artifact
    def reduce(
        self,
        reduce_op: tf.distribute.ReduceOp | str,
        value: TensorStructure,
        axis: int | Sequence[int] | None = None,
    ) -> TensorStructure:
        """Returns the sum or mean of a value over replicas, and over some of its axes.

        In a program the values of all replicas are reduced. Outside of one a value is that of one
        replica, so there is nothing to reduce over replicas.

        Args:
            reduce_op: A `tf.distribute.ReduceOp` or its name: "SUM" or "MEAN".
            value: A tensor of static shape, or a structure of tensors if `axis` is None.
            axis: The axis or axes to reduce before; None for none.

        Raises:
            ValueError: The reduction is another.
        """
        if in_force(self) is not self:
            return in_force(self).reduce(reduce_op, value, axis)
        name = reduce_op if isinstance(reduce_op, str) else getattr(reduce_op, "value", "")
        operation = {one.value: one for one in tf.distribute.ReduceOp}.get(name.upper(), reduce_op)
        if axis is not None and operation is tf.distribute.ReduceOp.MEAN:
            # TensorFlow would make the device count in 64 bits; the host knows the shape.
            tensor = tf.convert_to_tensor(value)
            total = self._over_axes(tf.distribute.ReduceOp.SUM, tensor, axis)
            axes = axis if isinstance(axis, tuple | list) else [axis]
            count = math.prod(tensor.shape[number] for number in axes)
            value = tf.math.truediv(total, tf.cast(count, total.dtype))
        elif axis is not None or hooks.active() is None:
            value = self._over_axes(reduce_op, value, axis)
        return value if hooks.active() is None else self.extended.reduced(operation, value)

    def _over_axes(self, reduce_op: Any, value: Any, axis: Any) -> Any:
        """Returns the sum of a value over axes, as TensorFlow checks and computes it."""
        if hooks.active() is None:
            return super().reduce(reduce_op, value, axis)
        return tf.reduce_sum(value, axis)

    def record_host(self) -> None:
        """Records what the host does from now on for `report()`, as `profile=True` does."""
        if self._recorder is None:
            self._recorder = spans.Recorder()
            spans.attach(self._recorder)
            weakref.finalize(self, spans.detach, self._recorder)
            marks = contextlib.ExitStack()
            marks.enter_context(marking_calls())
            weakref.finalize(self, marks.close)

    def report(self, *, insights: bool | None = None) -> Report:
        """Returns the cost of the programs traced so far, and their ops that run on tiles.

        The report includes the memory use of a program that did not fit. For models and functions
        that no longer exist it keeps the figures; `reset_report` drops them.

        Args:
            insights: Whether the report holds the changes that would gain most, each checked by
                planning again, once a program. By default it does, except those of very large
                programs, which a note names; True plans all of them, False none.
        """
        host = None if self._recorder is None else timeline_of(self._recorder)
        report = Report(programs=tuple(self._programs), host=host)
        if has_insights(insights):
            report.with_insights(all_changes=insights is True)
        return report

    def reset_report(self) -> None:
        """Forgets the programs traced so far: `report` shows those traced from now on.

        A program that was traced before is not retraced, so later reports do not show it.
        """
        self._programs.clear()
        for records in self._nonfinite.values():
            records.clear()
        if self._recorder is not None:
            self._recorder.clear()

    @contextlib.contextmanager
    def programs_apart(self) -> Iterator[None]:
        """Separates the programs traced inside: there `report` shows them alone."""
        own = self._programs, self._recorder
        self._programs, self._recorder = ProgramRegistry(), None
        try:
            yield
        finally:
            self._programs, self._recorder = own

    def _trace(self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Calls `fn` in the graph that is being built, with its contractions made tile ops.

        The created ops are compiled for the machine, too.
        """
        boundary.check_arguments(args, kwargs)
        name = function_name(python_function(fn))
        program: Callable[..., Any] = functools.partial(self._trace_program, fn)
        if not is_keras_step(python_function(fn)):
            program = functools.partial(
                replica_call.call,
                program,
                name=name,
                # Scripts with sessions often build their graph before they configure the system.
                device_ipus=self._device_ipus
                if config.is_configured() or graph_of_session() is None
                else None,
            )
        connection = config.device_configuration().connection
        if connection in compile_only.CONNECTIONS:
            return compile_only.compiled(program, args, kwargs, name=name, connection=connection)
        return program(args, kwargs)

    def _trace_program(
        self, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Calls `fn` in the graph that is being built, as the program of one replica."""
        automatic_reports.watch(self)  # Scripts may configure the system after this was made.
        call = ProgramCall(
            function=fn, args=args, kwargs=kwargs, configuration=config.device_configuration()
        )
        self._say_what_is_not_converted(call.python_function)
        program = program_trace.untraced_program(call)
        # Keras' host and device programs of a step are two of the same name.
        program.nonfinite = self._nonfinite.setdefault((Identity(call.subject), program.name), [])
        run = functools.partial(super().run, fn, args=args, kwargs=kwargs)
        with (
            showing_progress_on_terminal(),
            self._keeping_what_does_not_fit(call, program),
            program_trace.errors_as_they_are(program, call.configuration),
        ):
            trace = program_trace.trace_call(call, program, run)
            device = program_trace.compile_trace(call, trace)
        outputs, program.device = program_trace.execute(call, trace, device)
        self._add_programs(call, trace.tracer)
        device_programs.end_unless_run()
        return outputs

    def _add_programs(self, call: ProgramCall, tracer: Tracer) -> None:
        """Keeps the program of a trace, and those of its parts, for reports."""
        program = tracer.program
        for one in (program, *tracer.parts):
            _log_cycles(one)
        if not device_programs.is_reported():
            return
        subject, key = call.subject, call.key
        is_shown = not tracer.parts or _does_anything(program)
        if not is_shown:
            tracer.parts[0].nonfinite = program.nonfinite
        for part in tracer.parts:
            self._programs.add(subject, (part.name, *key), part)
        if is_shown:
            self._programs.add(subject, key, program)

    def _say_what_is_not_converted(self, fn: Any) -> None:
        """Warns, once per strategy, that a model of `tf_keras` keeps its own training loop."""
        package = (getattr(fn, "__module__", None) or "").partition(".")[0]
        if package != "tf_keras" or self._said_of_tf_keras or not self._enable_keras_extensions:
            return
        self._said_of_tf_keras = True
        logger.warning(
            "A model of tf_keras is not converted for the IPU, because it was made outside of the "
            "strategy's scope, or in one that was entered before tf_keras was imported: its steps "
            "run one by one on one IPU, without the on-device loop, replicas and gradient "
            "accumulation, and it has no `set_*_options`. Import tf_keras first, and make the "
            "model in the scope. To keep it as it is, make the strategy with "
            "`enable_keras_extensions=False`, which also ends this warning."
        )

    @contextlib.contextmanager
    def _keeping_what_does_not_fit(self, call: ProgramCall, program: Program) -> Iterator[None]:
        """Keeps a program for reports even if it does not fit into memory."""
        try:
            yield
        except IPUOutOfMemoryError as error:
            program.device = error.compiled
            if error.compiled is None:
                program.refusal = str(error)
            if device_programs.is_reported():
                self._programs.add(call.subject, call.key, program)
            raise


IPUStrategy = IPUStrategyV1


def _does_anything(program: Program) -> bool:
    """Returns whether a program has work of its own, beside that of its parts and their inputs."""
    device = program.device
    return device is None or any(
        step.opcode != "infeed" for stage in device.stages for step in stage.program.steps
    )


def _log_cycles(program: Program) -> None:
    """Logs the modelled cycles of a program if TF_POPLAR_FLAGS asks for them."""
    if program.device is not None and config.poplar_flags().log_cycle_count >= 0:
        logger.warning(
            "Program '%s' takes %d cycles a run (modelled).", program.name, program.device.cycles
        )


def _clear(executables: weakref.ref[ExecutableCache]) -> None:
    """Drops the executables of a strategy that is still alive."""
    cache = executables()
    if cache is not None:
        cache.clear()
