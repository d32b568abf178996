"""`compile`: a computation of a graph of TensorFlow 1 as one program of the IPU."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf import config, scopes
from ipu_tf.internals.tensorflow import (
    call_flat,
    device_of_new_ops,
    graph_of_session,
    trace,
    without_strategy,
)
from ipu_tf.ipu_strategy import IPUStrategy
from ipu_tf.runtime import hooks

_LOG = logging.getLogger(__name__)

_COMPILED = "ipu_tf.compiled_functions"

_strategies: list[IPUStrategy] = []
"""The strategy that runs the programs of graphs; reports of `ipu-tf run` know it."""

_for_one_replica: list[str] = []
"""Names of the computations traced before a system was configured."""


def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Any:
    """Returns the results of a computation, which a session runs as one program of the IPU.

    The computation is called at once, and traced for the device that is configured at that time.
    Inside of a program, it becomes a part of it.

    Args:
        computation: A function of `inputs`. Everything else that it reads has to be a variable.
        inputs: Tensors, or what becomes one; None for none.

    Returns:
        The results: a list if the computation returns one tensor or a list, an operation if it
        returns operations or nothing, else its structure.

    Raises:
        Exception: Nothing is placed on an IPU: `ipu_scope` is missing.
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
            "as_default()` or after tf.compat.v1.disable_eager_execution(); in eager mode, "
            "decorate the computation with tf.function and call `strategy.run`."
        )
    _check_placement()
    if not config.is_configured():
        _LOG.warning(
            "ipu_compiler.compile comes before configure_ipu_system: '%s' is traced for one "
            "replica with the default configuration. Configure the system first to have its "
            "options, replicas and figures.",
            _name_of(computation),
        )
        _for_one_replica.append(_name_of(computation))
    return _Compilation(computation).call([tf.convert_to_tensor(value) for value in inputs or ()])


def _check_replicas() -> None:
    """Checks that the programs traced before the configuration have one replica in it, too.

    Raises:
        RuntimeError: They have more.
    """
    names, _for_one_replica[:] = list(_for_one_replica), []
    ipus = config.device_configuration().num_ipus[0]
    for program in strategy_of_graphs().report().programs if names else ():
        taken = 1 if program.device is None else program.device.replica_ipus
        if program.name.partition(".")[0] in names and ipus >= 2 * taken:
            raise RuntimeError(
                f"'{program.name}' takes {taken} IPUs, so it has {ipus // taken} replicas on the "
                f"{ipus} IPUs that are being configured. But ipu_compiler.compile has traced it "
                "for one, because it comes first: call configure_ipu_system before it."
            )


config.on_reset(_check_replicas)


class _Compilation:
    """Traces a computation into a function, and calls it.

    Args:
        computation: The computation.
    """

    def __init__(self, computation: Callable[..., Any]) -> None:
        self._computation = computation
        self._name = _name_of(computation)
        self._results: Any = None
        self._was_called = False

    def call(self, inputs: list[tf.Tensor]) -> Any:
        """Returns the results for these inputs, in the graph that is being built."""
        specs = [tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs]
        # Variables are on the host, and what a session runs has no device of that name.
        with tf.device(None):
            function = trace(self._traced, (specs,), name=self._name)
            tensors = call_flat(function, [*inputs, *function.captured_inputs])
            operation = tf.compat.v1.get_default_graph().get_operations()[-1]
        if not tensors:
            return operation
        if isinstance(self._results, dict):
            return tf.nest.pack_sequence_as(self._results, tensors)
        if not isinstance(self._results, list | tuple):
            return list(tensors)
        kept = iter(tensors)
        return [
            tf.nest.map_structure(lambda _: next(kept), part)
            for part in self._results
            if _is_data(part)
        ]

    def _traced(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        def run(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
            return self._run(tensors)

        run.__name__ = self._name
        # The report keeps all of a program as long as its function.
        tf.compat.v1.add_to_collection(_COMPILED, run)
        scope = tf.compat.v1.get_variable_scope()
        with tf.compat.v1.variable_scope(scope, use_resource=True):
            results: list[tf.Tensor] = strategy_of_graphs().run(run, args=(tensors,))
        return results

    def _run(self, tensors: list[tf.Tensor]) -> list[tf.Tensor]:
        # A trace that finds shards or stages begins once more, for more IPUs. Its variables stay.
        reuse = tf.compat.v1.AUTO_REUSE if self._was_called else None
        self._was_called = True
        scope = tf.compat.v1.variable_scope(tf.compat.v1.get_variable_scope(), reuse=reuse)
        with scope, without_strategy():  # A graph of TensorFlow 1 has no strategy.
            results = self._computation(*tensors)
        if type(results).__name__.endswith("EstimatorSpec"):
            raise ValueError(
                "ipu_compiler.compile takes no estimator's specification: TensorFlow has had no "
                "estimators since version 2.16. Return tensors and operations. "
                f"Received: {type(results).__name__}."
            )
        self._results = results
        flat = tf.nest.flatten(results)
        return [tf.convert_to_tensor(leaf) for leaf in flat if _is_data(leaf)]


def strategy_of_graphs() -> IPUStrategy:
    """Returns the strategy that runs the programs of graphs, for its report."""
    if not _strategies:
        _strategies.append(IPUStrategy())
    return _strategies[0]


def _name_of(computation: Callable[..., Any]) -> str:
    return str(getattr(computation, "__name__", "computation")).strip("<>")


def _is_data(result: Any) -> bool:
    return result is not None and not isinstance(result, tf.Operation)


def _check_placement() -> None:
    """Checks that the graph that is being built places operations on an IPU.

    Raises:
        Exception: It does not.
    """
    if scopes.is_on_ipu() or "IPU" in device_of_new_ops().upper():
        return
    raise Exception(  # As the machine's own library does.
        "ipu_compiler.compile: nothing is placed on an IPU. Call it in "
        '`with ipu_tf.scopes.ipu_scope("/device:IPU:0")`.'
    )
