"""`compile`: a computation of a graph of TensorFlow 1 as one program of the IPU."""

from __future__ import annotations

import contextlib
import contextvars
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf import config, scopes
from ipu_tf.internals.graphs import (
    call_flat,
    device_of_new_ops,
    graph_of_session,
    is_ipu,
    replace_input,
    taking_ops,
    trace,
    without_strategy,
)
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.variable_scopes import number_scopes, numbers_of_scopes
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.runtime.programs import device_programs
from ipu_tf.runtime.tracing import hooks
from ipu_tf.runtime.tracing.variable_record import VariableRecord

_COMPILED = "ipu_tf_compiled_functions"
_COUNT = "ipu_tf_number_of_computations"

_NO_WORK = frozenset({"NoOp", "Placeholder", "IpuReplicaIndex"})
"""Types of ops that need no device."""

_strategies: list[IPUStrategy] = []
"""The strategy that runs the programs of graphs; reports of `ipu-tf run` know it."""

_pending_compilations: list[weakref.ref[_Compilation]] = []
"""The compilations that came before a system was configured."""


def compile(
    computation: Callable[..., object], inputs: Sequence[TensorStructure] | None = None
) -> TensorStructure:
    """Returns the results of a computation, which a session runs as one program of the IPU.

    The computation is called at once, and traced for the device that is configured at that time.
    If none is configured yet, it is called for the types of its results, and called once more when
    `configure_ipu_system` configures one; its variables are those of the first call. Inside of a
    program, the computation becomes a part of it.

    Args:
        computation: A function of `inputs`. Everything else that it reads has to be a variable.
        inputs: Tensors, or what becomes one; None for none.

    Returns:
        The results: a list if the computation returns one tensor or a list, an operation if it
        returns operations or nothing, else its structure.

    Raises:
        Exception: Nothing is placed on an IPU: `ipu_scope` is missing, around it and in it.
        RuntimeError: It is called eagerly.
        ValueError: The computation returns the specification of an estimator.

    Example:
        ```python
        with ipu_tf.scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(computation, [x])
        with tf.compat.v1.Session() as session:
            session.run(result, {x: value})
        ```
    """
    if not callable(computation):
        raise TypeError(
            f"`computation` must be a function of the inputs. Received: {computation!r}."
        )
    if hooks.active() is not None:
        return computation(*(inputs or ()))
    if tf.executing_eagerly() or graph_of_session() is None:
        raise RuntimeError(
            "ipu_compiler.compile builds a graph of TensorFlow 1. Call it in `with tf.Graph()."
            "as_default()`, after tf.compat.v1.disable_eager_execution(), or under `ipu-tf run "
            "--tf1`; in eager mode, decorate the computation with tf.function and call "
            "`strategy.run`."
        )
    with tf.device(None):  # A session has no device of an IPU's name for the numbers among them.
        tensors = [tf.convert_to_tensor(one) for one in inputs or ()]
    return _Compilation(computation, tensors).results()


class _Compilation:
    """Traces a computation into a function, and calls it in the graph that is being built.

    Args:
        computation: The computation.
        inputs: Its inputs.
    """

    def __init__(self, computation: Callable[..., Any], inputs: list[tf.Tensor]) -> None:
        self._computation = computation
        self._name = _name_of(computation)
        self._inputs = inputs
        self._graph = tf.compat.v1.get_default_graph()
        self._number = _count(self._graph)
        self._scope = tf.compat.v1.get_variable_scope()
        self._numbers_before = self._numbers_after = numbers_of_scopes()
        self._variables = VariableRecord()
        self._results: Any = None
        self._is_bound = False
        self._is_placed = scopes.is_on_ipu() or is_ipu(device_of_new_ops())
        self._strategy_around = _strategy_of_replica()

    def results(self) -> Any:
        """Returns the results; those of a program without a system are bound to it later."""
        if config.is_configured():
            return self._structured(*self._call())
        self._context = contextvars.copy_context()
        with tf.device(None):
            check = tf.numpy_function(self._check_unbound, [], tf.bool)
        with device_programs.on_host(), tf.control_dependencies([check]):
            tensors, operation = self._call()
        with tf.device(None):
            self._outlets = [tf.identity(one) for one in tensors or [_after(operation)]]
            _keep_with(self._graph, self)
            _pending_compilations.append(weakref.ref(self))
            return self._structured(self._outlets if tensors else [], tf.group(*self._outlets))

    def bind(self) -> None:
        """Calls the computation once more, now for the configured system, in place of the first.

        Raises:
            RuntimeError: The results have other types or shapes.
        """
        with taking_ops(self._graph):
            self._bind()

    def _bind(self) -> None:
        tensors, operation = self._context.run(self._call_again)
        specs = [(one.dtype, one.shape) for one in self._outlets]
        if tensors and [(one.dtype, one.shape) for one in tensors] != specs:
            raise RuntimeError(
                f"The results of '{self._name}' depend on the configured system, but "
                "ipu_compiler.compile comes before configure_ipu_system: call it after. "
                f"Received: {tensors} in place of {self._outlets}."
            )
        with self._graph.as_default(), tf.device(None):
            for outlet, tensor in zip(self._outlets, tensors or [_after(operation)], strict=True):
                replace_input(outlet.op, 0, tensor)
        self._is_bound = True

    def _check_unbound(self) -> bool:
        """Checks that no system was configured since; a session has its own copy of the graph.

        Raises:
            RuntimeError: One was.
        """
        if self._is_bound:
            raise RuntimeError(
                f"A session has run this graph between ipu_compiler.compile of '{self._name}' and "
                "configure_ipu_system, so it has the program without a system. Call "
                "configure_ipu_system before a session first runs the graph."
            )
        return True

    def _call_again(self) -> tuple[list[tf.Tensor], tf.Operation]:
        with self._graph.as_default(), tf.compat.v1.variable_scope(self._scope):
            number_scopes(self._numbers_before)
            return self._call()

    def _call(self) -> tuple[list[tf.Tensor], tf.Operation]:
        """Returns the results in a row, and the operation that computes them."""
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in self._inputs]
        with contextlib.ExitStack() as stack:
            if not tf.inside_function():
                # `tf.init_scope` finds the default graph of a thread only once it is entered.
                stack.enter_context(self._graph.as_default())
            # Variables are on the host, and what a session runs has no device of that name.
            stack.enter_context(tf.device(None))
            stack.enter_context(tf.variable_creator_scope(self._variables.create))
            function = trace(self._trace, (specs,), name=self._name)
            number_scopes(self._numbers_after)
            tensors = call_flat(function, [*self._inputs, *function.captured_inputs])
            return list(tensors or ()), tf.compat.v1.get_default_graph().get_operations()[-1]

    def _structured(self, tensors: list[tf.Tensor], operation: tf.Operation) -> Any:
        """Returns the results in the form that `compile` gives them."""
        if not tensors:
            return operation
        if isinstance(self._results, dict):
            return tf.nest.pack_sequence_as(self._results, tensors)
        if not isinstance(self._results, list | tuple):
            return list(tensors)
        tensors_left = iter(tensors)
        return [
            tf.nest.map_structure(lambda _: next(tensors_left), part)
            for part in self._results
            if _is_data(part)
        ]

    def _trace(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        if self._graph.seed is not None:  # Each function would count its random operations from 0.
            tf.compat.v1.set_random_seed(self._graph.seed + self._number)

        def run(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            return self._run(tensors)

        run.__name__ = self._name
        # The report keeps all of a program as long as its function.
        _keep_with(tf.compat.v1.get_default_graph(), run)
        scope = tf.compat.v1.get_variable_scope()
        with tf.compat.v1.variable_scope(scope, use_resource=True):
            return self._run_by_strategy(run, tensors)

    def _run_by_strategy(
        self, run: Callable[..., list[tf.Tensor]], tensors: list[tf.Tensor]
    ) -> list[tf.Tensor]:
        def run_by(strategy: IPUStrategy) -> list[tf.Tensor]:
            results: list[tf.Tensor] = strategy.run(run, args=(tensors,))
            return results

        strategy = self._strategy_around or _strategy_in_force()
        if _strategy_of_replica() is strategy:
            results: list[tf.Tensor] = tf.distribute.get_replica_context().merge_call(run_by)
            return results
        return run_by(strategy)

    def _run(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        # A trace that finds shards or stages begins once more, for more IPUs. Its variables stay.
        self._variables.begin_trace()
        with without_strategy():  # A graph of TensorFlow 1 has no strategy.
            # One that `run` was called around is that of the computation, too.
            strategy = self._strategy_around
            results = (
                self._computation(*tensors)
                if strategy is None
                else strategy.run(self._computation, args=tensors)
            )
            self._numbers_after = numbers_of_scopes()
        _check_results(results)
        if not self._is_placed:
            _check_placement()
        self._results = results
        flat = tf.nest.flatten(results)
        return [tf.convert_to_tensor(leaf) for leaf in flat if _is_data(leaf)]


def _count(graph: tf.Graph) -> int:
    """Returns how many computations a graph has had, and counts one more."""
    number = int(getattr(graph, _COUNT, 0))
    setattr(graph, _COUNT, number + 1)
    return number


def _keep_with(graph: tf.Graph, value: Any) -> None:
    """Keeps a value as long as a graph. Savers would write a collection to the meta graph."""
    setattr(graph, _COMPILED, [*getattr(graph, _COMPILED, ()), value])


def _strategy_in_force() -> IPUStrategy:
    """Returns the strategy whose scope is open, or else that of graphs."""
    strategy = tf.distribute.get_strategy()
    return strategy if isinstance(strategy, IPUStrategy) else strategy_of_graphs()


def _strategy_of_replica() -> IPUStrategy | None:
    """Returns the strategy whose `run` calls the function around, None if there is none."""
    context = tf.distribute.get_replica_context()
    strategy = None if context is None else context.strategy
    return strategy if isinstance(strategy, IPUStrategy) else None


def strategy_of_graphs() -> IPUStrategy:
    """Returns the strategy that runs the programs of graphs, for its report."""
    if not _strategies:
        _strategies.append(IPUStrategy())
    return _strategies[0]


def _bind_compilations() -> None:
    """Binds the programs of graphs to the system that has been configured."""
    if not config.is_configured():
        return
    references, _pending_compilations[:] = list(_pending_compilations), []
    for reference in references:
        compilation = reference()
        if compilation is not None:
            compilation.bind()


config.on_reset(_bind_compilations)


def _after(operation: tf.Operation) -> tf.Tensor:
    """Returns a tensor that stands for the end of an operation."""
    with tf.control_dependencies([operation]):
        return tf.constant(True)


def _name_of(computation: Callable[..., Any]) -> str:
    return str(getattr(computation, "__name__", "computation")).strip("<>")


def _is_data(result: Any) -> bool:
    return result is not None and not isinstance(result, tf.Operation)


def _check_results(results: Any) -> None:
    """Checks that no specification of an estimator is among the results.

    Raises:
        ValueError: One is.
    """
    if type(results).__name__.endswith("EstimatorSpec"):
        raise ValueError(
            "The result of an ipu_compiler.compile computation contains an EstimatorSpec. "
            "TensorFlow has had no estimators since version 2.16: return tensors and operations. "
            f"Received: {type(results).__name__}."
        )
    if isinstance(results, list | tuple | dict):
        for part in results.values() if isinstance(results, dict) else results:
            _check_results(part)


def _check_placement() -> None:
    """Checks that the computation, which was called outside of every IPU's scope, opened one.

    Raises:
        Exception: It did not, and computes something.
    """
    tracer = hooks.active()
    graph = tf.compat.v1.get_default_graph()
    computes = any(op.type not in _NO_WORK for op in graph.get_operations())
    if tracer is None or tracer.names_an_ipu or not computes:
        return
    raise Exception(  # As the machine's own library does.
        "ipu_compiler.compile: the computation is not placed on an IPU. Call it in "
        '`with ipu_tf.scopes.ipu_scope("/device:IPU:0")`.'
    )
