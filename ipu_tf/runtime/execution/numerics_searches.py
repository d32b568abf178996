"""What `simulator.trace_numerics` looks for in a program, each with a replay of its own.

Results and variables that are not finite; gradients that overflow by the scale of the loss, which
loss scaling handles; and, if asked for, gradients with values that become 0.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf.internals.graphs import in_jitted_function
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.programs.device_places import DevicePlaces
from ipu_tf.programs.op_names import LayerScopes, is_gradient
from ipu_tf.programs.update_runs import UpdateRuns
from ipu_tf.runtime.execution import replay_calls
from ipu_tf.runtime.execution.nonfinite_replay import (
    CannotReplay,
    Replay,
    ReplayLog,
    replay_of,
    watch,
    watch_outputs,
)
from ipu_tf.runtime.execution.underflow_search import UnderflowLog
from ipu_tf.runtime.tracing.snapshots import Snapshots
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.tile_program.device_program import DeviceProgram

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class NumericsSearches:
    """The searches of a program, before any of its operations are joined.

    Attributes:
        tracer: The tracer of the program.
        results: The replay if results are not finite.
        updates: Which runs make up an update of the weights; None if it makes none.
        gradients: The replay if gradients of a scaled loss are not finite; None without these.
        handled_count: How many results of that replay are such gradients.
        accumulators: Handles and types of the variables that sum such gradients up.
        underflow: The replay that looks for values that become 0; None if it is not asked for.
    """

    tracer: Tracer
    results: Replay
    updates: UpdateRuns | None = None
    gradients: Replay | None = None
    handled_count: int = 0
    accumulators: tuple[tuple[tf.Tensor, tf.DType], ...] = ()
    underflow: Replay | None = None

    def watch(
        self,
        outputs: TensorStructure,
        gradients: Sequence[tf.Tensor],
        device: DeviceProgram | None,
        *,
        xla_random: bool,
    ) -> None:
        """Adds the searches to the graph that is being built.

        Args:
            outputs: The results of the program, a structure, after its operations were joined.
            gradients: Its gradients of a scaled loss, likewise.
            device: The program that was compiled for the machine.
            xla_random: Whether XLA draws the random numbers of the program.
        """
        program, scale = self.tracer.program, self.tracer.loss_scale
        parts = [part.device for part in self.tracer.parts]
        places, layers = DevicePlaces(device, *parts), LayerScopes(paths=self.tracer.layers)

        def log_of(kind: type[ReplayLog], handled_count: int | None = None) -> ReplayLog:
            return kind(
                program,
                places,
                layers,
                updates=self.updates,
                scale=scale,
                handled_count=handled_count,
                xla_random=xla_random,
            )

        watch_ops: list[tf.Operation] = []
        if self.underflow is not None:
            watch_ops.append(watch(self.underflow, [], log_of(UnderflowLog)))
        if self.gradients is not None:
            log = log_of(ReplayLog, self.handled_count)
            with tf.control_dependencies(watch_ops):
                sums = [
                    tf.raw_ops.ReadVariableOp(resource=handle, dtype=dtype)
                    for handle, dtype in self.accumulators
                ]
                watch_ops.append(_watch(self.gradients, [*gradients, *sums], log))
        apart = [handle for handle, _ in self.accumulators]
        with tf.control_dependencies(watch_ops):  # The last takes the records of the run.
            _watch(self.results, watch_outputs(self.results, outputs, apart), log_of(ReplayLog))


def _watch(replay: Replay, tensors: Sequence[tf.Tensor], log: ReplayLog) -> tf.Operation:
    add = replay_calls.watch if replay_calls.can_replay(replay) else watch
    return add(replay, tensors, log)


def searches_of(
    tracer: Tracer,
    graph: tf.Graph,
    operations: Sequence[tf.Operation],
    outputs: TensorStructure,
    snapshots: Snapshots,
    updates: UpdateRuns | None = None,
) -> NumericsSearches:
    """Returns the searches of a program.

    Args:
        tracer: Its tracer.
        graph: The graph that is being built.
        operations: The operations of the program.
        outputs: Its results, a structure.
        snapshots: The values of its variables before a run.
        updates: Which runs make up an update of the weights; None if it makes none.

    Raises:
        CannotReplay: It cannot run twice.
    """
    results = replay_of(graph, operations, outputs, snapshots)
    is_jitted = in_jitted_function(graph)
    if is_jitted and not replay_calls.can_replay(results):
        raise CannotReplay("XLA compiles it as part of a function, and it reads feeds or tables")
    gradients, underflow = tracer.scaled_gradients, tracer.configuration.trace_underflow
    variables = snapshots.values.values() if tracer.checks_scaled else ()
    accumulators = tuple(
        (handle, value.dtype) for handle, value in variables if _sums_gradients(handle)
    )
    if underflow and is_jitted:
        _LOG.warning(
            "Program '%s' is part of a function with jit_compile=True, so that gradients which "
            "become 0 are not looked for in it. Leave jit_compile out to find them.",
            tracer.program.name,
        )
    return NumericsSearches(
        tracer=tracer,
        results=results,
        updates=updates,
        gradients=replay_of(graph, operations, [gradients, outputs], snapshots, is_last=False)
        if gradients or accumulators
        else None,
        handled_count=len(gradients),
        accumulators=accumulators,
        underflow=replay_of(graph, operations, outputs, snapshots, is_last=False)
        if underflow and not is_jitted
        else None,
    )


def _sums_gradients(handle: tf.Tensor) -> bool:
    """Returns whether a program adds gradients to a variable."""
    summands = [op.inputs[1] for op in handle.consumers() if op.type == "AssignAddVariableOp"]
    return any(one.dtype.is_floating and is_gradient(one.op.name) for one in summands)
