"""Names the operation that made the first NaN or infinity of a program.

The program looks at its results and at the variables that it changed, once a run. The first time
that they are not finite it runs once more, from the values that its variables had before, as a copy
with checks of its operations (`value_checks`); then the variables get back the values of the run.
Operations that cannot run twice, such as those of feeds, are not part of the copy: it reads what
they gave.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import FuncGraph, FunctionDef, NodeDef, eager_context
from ipu_tf.ops.kernels import library, replica_context
from ipu_tf.programs.device_places import DevicePlaces, Neighbours
from ipu_tf.programs.nonfinite import NonFinite, ValueSummary
from ipu_tf.programs.op_names import LayerScopes
from ipu_tf.programs.program import Program
from ipu_tf.programs.update_runs import Moment, UpdateRuns
from ipu_tf.runtime.execution.repeated_effects import first_unrepeatable, groups_of_streams
from ipu_tf.runtime.execution.value_checks import FunctionChecks
from ipu_tf.runtime.execution.value_findings import CheckedOp, summary
from ipu_tf.runtime.execution.value_history import Cause, ValueHistory
from ipu_tf.runtime.execution.xla_random_numbers import XlaDraw
from ipu_tf.runtime.extraction import hlo_region
from ipu_tf.runtime.replicas.replica_functions import STREAM_STRIDE
from ipu_tf.runtime.tracing.call_ops import CALLS, add_call, functions_of
from ipu_tf.runtime.tracing.function_copies import library_function
from ipu_tf.runtime.tracing.snapshots import COLLECTIVE, Snapshots, has_effect

_LOG = logging.getLogger(__name__)

BEGIN, END = -1, -2
_COLLECTIVE = COLLECTIVE.removeprefix("Ipu")
_serial = itertools.count()


@dataclass(frozen=True, kw_only=True, eq=False)
class Replay:
    """A program that can run once more.

    Attributes:
        region: Its operations.
        definition: They as a FunctionDef, before any are joined.
        snapshots: The values of its variables before a run.
        serial: Number of the replay, unique in the process.
        is_last: Whether no other search of the program needs the records of a run after it.
    """

    region: hlo_region.TracedRegion
    definition: FunctionDef
    snapshots: Snapshots
    serial: int
    is_last: bool = True

    def name_of(self, function: str) -> str:
        """Returns the name of the checked copy of a function."""
        return f"{function}_checked_{self.serial}"

    def argument_of(self, handle: tf.Tensor) -> str:
        """Returns the argument of the copy that is the handle of a variable, "" for none."""
        handles = [id(tensor) for tensor in self.region.variables]
        if id(handle) not in handles:
            return ""
        return f"argument_{len(self.region.inputs) + handles.index(id(handle))}"

    @functools.cached_property
    def groups(self) -> Sequence[int]:
        """The groups of streams of random bits that it draws from."""
        return groups_of_streams(self.definition)

    @property
    def state(self) -> Mapping[str, object]:
        """What the ops of the flag and of rewinding have to know of the program."""
        records = self.snapshots.records if self.is_last else []
        return {"program": self.serial, "records": records, "groups": self.groups}


class CannotReplay(Exception):
    """A program cannot run twice; the message says why."""


def replay_of(
    graph: tf.Graph,
    operations: Sequence[tf.Operation],
    outputs: TensorStructure,
    snapshots: Snapshots,
    *,
    is_last: bool = True,
) -> Replay:
    """Returns the replay of a program, before any of its operations are joined.

    Args:
        graph: The graph that is being built.
        operations: The operations of the program.
        outputs: Its results, a structure.
        snapshots: The values of its variables before a run.
        is_last: Whether no other search of the program needs the records of a run after it.

    Raises:
        CannotReplay: It cannot run twice.
    """
    if not isinstance(graph, FuncGraph):
        raise CannotReplay("a session runs it")
    repeated = []
    for op in operations:
        effect = _effect(graph, op)
        if not effect or op.type == COLLECTIVE:
            repeated.append(op)
        elif any(hlo_region.is_variable(tensor) for tensor in op.inputs):
            raise CannotReplay(f"'{op.name}' ({op.type}) changes variables, and {effect}")
    region = hlo_region.cut(graph, repeated, outputs)
    serial = next(_serial)
    definition = hlo_region.function_def(region, f"{graph.name}_checked_{serial}")
    for index, tensor in enumerate(region.host):
        argument = definition.signature.input_arg.add(name=hlo_region.host_name(index))
        argument.type = tensor.dtype.as_datatype_enum
    return Replay(
        region=region, definition=definition, snapshots=snapshots, serial=serial, is_last=is_last
    )


def forget(snapshots: Snapshots) -> None:
    """Adds an op to the graph that is being built that drops the records of a run without a
    replay."""
    if snapshots.records:
        library.load().ipu_rewind(back=False, program=-1, records=snapshots.records, groups=[])


def watch_outputs(
    replay: Replay, outputs: TensorStructure, apart: Sequence[tf.Tensor] = ()
) -> list[tf.Tensor]:
    """Returns what is looked at in a program: its results, and variables after it changed them.

    Args:
        replay: The replay of the program.
        outputs: Its results, a structure, after its operations were joined.
        apart: Handles of variables that are looked at apart.
    """
    flat = tf.nest.flatten(outputs, expand_composites=True)
    changed_variables = [
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype)
        for handle, value in replay.snapshots.values.values()
        if is_checked(value) and not any(handle is one for one in apart)
    ]
    results = [tensor for tensor in flat if tf.is_tensor(tensor) and is_checked(tensor)]
    return [*results, *changed_variables]


def watch(replay: Replay, tensors: Sequence[tf.Tensor], log: ReplayLog) -> tf.Operation:
    """Adds the look at some tensors, and a replay, to the graph that is being built.

    Returns:
        The last operation of both.

    Args:
        replay: The replay of the program.
        tensors: What is looked at.
        log: Gets what is found; it may ask for replays of other runs.
    """
    is_first, run, replica = library.load().ipu_nonfinite_flag(results=tensors, **replay.state)
    if log.is_asked:
        is_first = tf.ensure_shape(tf.numpy_function(log.is_seeking, [], tf.bool), [])

    def replayed() -> tf.Tensor:
        return _replay_branch(replay, [run, replica], log)

    replay_run: tf.Tensor = tf.cond(is_first, replayed, lambda: tf.constant(0))
    return replay_run.op


def is_checked(tensor: tf.Tensor | tf.TensorSpec) -> bool:
    """Returns whether values of a tensor's type are looked at."""
    return tensor.dtype in (tf.float32, tf.float16)


def _replay_branch(replay: Replay, run: Sequence[tf.Tensor], log: ReplayLog) -> tf.Tensor:
    """Runs the program once more in the graph of a branch, and logs what its checks find."""
    region = replay.region
    variables = list(replay.snapshots.values.values())
    after = [
        tf.raw_ops.ReadVariableOp(resource=handle, dtype=value.dtype) for handle, value in variables
    ]
    with tf.control_dependencies(after):
        before = [
            tf.raw_ops.AssignVariableOp(resource=handle, value=value) for handle, value in variables
        ]
    scales = [] if log.scale is None else [log.scale]
    scales += [tensor for tensor in region.inputs if tensor.dtype.is_floating]
    states = [value for _, value in variables if value.dtype.is_floating]
    log.inputs = tuple(tensor.name for tensor in (*scales, *states))
    with tf.control_dependencies(before):
        back = {**replay.state, "records": replay.snapshots.records}
        rewound = library.load().ipu_rewind(back=True, **back)
    with tf.control_dependencies([rewound]):
        begin = tf.numpy_function(log, [BEGIN, *run, *scales, *states], [])
    begin = begin if isinstance(begin, tf.Operation) else begin.op
    with tf.control_dependencies([begin]):
        call = _checked_call(replay, log, begin.get_attr("token"))
    with tf.control_dependencies([call]):
        writes_back = [
            tf.raw_ops.AssignVariableOp(resource=handle, value=value)
            for (handle, _), value in zip(variables, after, strict=True)
        ]
    changed_numbers = [number for number, (_, value) in enumerate(variables) if is_checked(value)]
    results = [number for number, tensor in enumerate(region.outputs) if is_checked(tensor)]
    log.results = tuple(results)
    log.variable_arguments = tuple(
        replay.argument_of(variables[number][0]) for number in changed_numbers
    )
    values = [*(call.outputs[number] for number in results), *(after[n] for n in changed_numbers)]
    with tf.control_dependencies([call, *writes_back]):  # It may change no variable.
        forth = library.load().ipu_rewind(back=False, **replay.state)
    with tf.control_dependencies([forth]):
        end = tf.numpy_function(log, [END, run[1], *values], [])
    with tf.control_dependencies([end]):
        return tf.constant(0)


def _checked_call(replay: Replay, log: ReplayLog, token: bytes) -> tf.Operation:
    """Returns a call of the copy of the program with checks."""
    region = replay.region
    sources = (*region.inputs, *region.variables, *region.host)
    graph = tf.compat.v1.get_default_graph()
    return add_checked_call(
        replay.definition,
        [tensor.op.name for tensor in sources],
        replay.name_of,
        eager_context().get_function_def,
        [graph.capture(tensor) for tensor in sources],
        region.outputs,
        log,
        token,
    )


def add_checked_call(
    definition: FunctionDef,
    names: Sequence[str],
    name_of: Callable[[str], str],
    find: Callable[[str], FunctionDef],
    inputs: Sequence[tf.Tensor],
    outputs: Sequence[tf.Tensor | tf.TensorSpec],
    log: ReplayLog,
    token: bytes,
) -> tf.Operation:
    """Returns a call of a program with checks, in the graph that is being built.

    Args:
        definition: The program; its operations get the checks.
        names: What to call its arguments.
        name_of: From the name of a function that it calls to that of the copy with checks.
        find: Finds these functions.
        inputs: The arguments.
        outputs: Tensors of the types and shapes of its results.
        log: Gets the checks.
        token: Names the Python function that they call.
    """
    arguments = {f"argument_{index}": name for index, name in enumerate(names)}
    checks = FunctionChecks(token, arguments, name_of, log.only, xla_random=log.xla_random)
    function = library_function(definition, find, checks, name_of)
    checks.flow.finish()
    log.checks, log.function = checks, definition.signature.name
    graph = tf.compat.v1.get_default_graph()
    return add_call(graph, "StatefulPartitionedCall", function, inputs, outputs, name="checked")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ReplayedRun:
    """A run that is replayed.

    Attributes:
        number: Its number.
        replica: Number of its replica; None for a program of one.
        history: What its operations computed.
        outside: What it read that was not finite.
        loss_scale: Its loss scale; None without one.
    """

    number: int
    replica: int | None
    history: ValueHistory
    outside: tuple[ValueSummary, ...]
    loss_scale: float | None


class ReplayLog:
    """Gets the values of checked operations in a replay, and logs the first that went wrong.

    Args:
        program: Gets what is found.
        places: Where the device computes its operations.
        layers: The layers of its operations.
        updates: Which runs make up an update of the weights; None if it makes none.
        scale: The loss scale of the run, float32; None without one.
        handled_count: For a log of gradients whose overflow loss scaling handles: how many of the
            first results they are; nothing is logged if others are not finite, too. None for a log
            of the results.
        xla_random: Whether XLA draws the random numbers of the program.

    Attributes:
        scale: The loss scale, a tensor of the graph; `has_scale` says whether there is one.
        is_asked: Whether `is_seeking` says which runs are replayed, in place of their results.
        only: Returns whether a node is checked; None if all are that may make a NaN.
    """

    is_asked = False
    only: Callable[[NodeDef], bool] | None = None

    def __init__(
        self,
        program: Program,
        places: DevicePlaces,
        layers: LayerScopes,
        *,
        updates: UpdateRuns | None = None,
        scale: tf.Tensor | None = None,
        handled_count: int | None = None,
        xla_random: bool = False,
    ) -> None:
        self._findings, self._name = program.nonfinite, program.name
        self._places = places
        self._layers = layers
        self._updates = updates
        self._handled_count = handled_count
        self._is_replicated = replica_context.num_replicas() > 1
        self._replays: dict[int, ReplayedRun] = {}
        self.scale, self.has_scale = scale, scale is not None
        self.xla_random = xla_random
        self.inputs: tuple[str, ...] = ()
        self.results: tuple[int, ...] = ()
        self.variable_arguments: tuple[str, ...] = ()
        self.function = ""
        self.checks: FunctionChecks | None = None

    def is_seeking(self) -> NDArray[np.bool_]:
        """Returns whether the run that has ended is replayed, whatever its results are."""
        return np.array(False)

    def __call__(self, number: np.ndarray, *values: np.ndarray) -> list[np.ndarray] | None:
        """Takes the values of one operation; returns those of one that this draws."""
        if number == BEGIN:
            self._begin(int(values[0]), int(values[1]), values[2:])
        elif number == END:
            self._end(self._replays.pop(int(values[0])), values[1:])
        elif self.checks is not None:
            replica, entry = divmod(int(number), STREAM_STRIDE)
            if isinstance(draw := self.checks[entry], XlaDraw):
                return draw(*values)
            self._replays[replica].history.note(entry, values)
        return None

    def _begin(self, run: int, replica: int, inputs: Sequence[NDArray[Any]]) -> None:
        if self.checks is None:
            return
        pairs = zip(self.inputs, inputs, strict=True)
        self._replays[replica] = ReplayedRun(
            number=run,
            replica=replica if self._is_replicated else None,
            history=self._new_history(self.checks),
            outside=tuple(
                summary(name, value) for name, value in pairs if not np.isfinite(value).all()
            ),
            loss_scale=float(inputs[0]) if self.has_scale else None,
        )

    def _new_history(self, checks: FunctionChecks) -> ValueHistory:
        return ValueHistory(checks)

    def _end(self, run: ReplayedRun, values: Sequence[NDArray[Any]]) -> None:
        is_handled = self._handled_count is not None
        results = values[self._handled_count : len(self.results)] if is_handled else ()
        if not all(np.isfinite(value).all() for value in results):
            return  # The log of the results has it.
        cause = run.history.cause(*(self._sources(values, bad) for bad in (np.isnan, np.isinf)))
        if cause is None and (is_handled or not any(one.nans for one in run.outside)):
            return  # The infinities were constants of the program.
        if run.outside and not all(one.is_harmless for one in self._findings):
            return  # A consequence of what was found before.
        if cause is None:
            report = NonFinite(
                program=self._name,
                **self._moment(run),
                fault="from outside",
                operands=run.outside,
            )
        elif cause.finding.fault == "from outside" and cause.finding.op.op_type == _COLLECTIVE:
            return  # Another replica has the cause.
        else:
            report = self._of(cause, run)
        if not any((one.op, one.run) == (report.op, report.run) for one in self._findings):
            self._add(report)  # No other replica had the same.

    def _add(self, report: NonFinite) -> None:
        self._findings.append(report)
        _LOG.warning("%s", report)

    def _sources(self, values: Sequence[NDArray[Any]], is_bad: Any) -> frozenset[int]:
        """Returns the operations that bad values of results and changed variables may be of."""
        if self.checks is None:
            return frozenset()
        bad, flow, count = (
            [bool(is_bad(v).any()) for v in values],
            self.checks.flow,
            len(self.results),
        )
        results = flow.results(self.function)
        wrong = [n for n, is_one in zip(self.results, bad[:count], strict=True) if is_one]
        sources = flow.sources(results[number] for number in wrong)
        for argument, is_one in zip(self.variable_arguments, bad[count:], strict=True):
            if argument and is_one:
                sources |= flow.writers((self.function, argument))
        return sources | flow.sources(self.checks.feeds)

    def _moment(
        self, run: ReplayedRun, iterations: Sequence[tuple[str, int]] = ()
    ) -> dict[str, Any]:
        """Returns the fields of a `NonFinite` that say when it happened."""
        runs = self._updates
        of_run = run.history.iterations_of_outermost(iterations)
        moment = runs.moment(run.number, [n for _, n in iterations], of_run) if runs else Moment()
        return {
            "run": run.number,
            "iterations": tuple(iterations),
            "update": moment.update,
            "micro_batch": moment.micro_batch,
            "replica": moment.replica if run.replica is None else run.replica,
        }

    def _place(
        self, op: CheckedOp, shape: Sequence[int], position: Sequence[int]
    ) -> dict[str, Any]:
        """Returns the fields of a `NonFinite` that say where the device computes an operation."""

        def neighbours() -> tuple[Neighbours, Neighbours] | None:
            if self.checks is None:
                return None
            flow, function = self.checks.flow, op.function
            return flow.readers(function), flow.read_by(function)

        place = self._places.of_neighbour(op.name, shape, position, neighbours)
        return {} if place is None else dataclasses.asdict(place)

    def _of(self, cause: Cause, run: ReplayedRun) -> NonFinite:
        cause_event, later = cause.finding, cause.made_nan
        name, nan_op = cause_event.op.name, "" if later is None else later.op.name
        wrong = next(one for one in cause_event.results if one.nans or one.infinities)
        return NonFinite(
            program=self._name,
            **self._moment(run, cause_event.iterations),
            fault=cause_event.fault,
            op=name,
            op_type=cause_event.op.op_type,
            layer=self._layers.layer_or_scope(name),
            operands=cause_event.operands,
            results=cause_event.results,
            position=cause_event.position,
            around=cause_event.around,
            nan_op=nan_op,
            nan_layer=self._layers.layer_or_scope(nan_op),
            handled=self._handled_count is not None,
            loss_scale=run.loss_scale,
            **self._place(cause_event.op, wrong.shape, cause_event.position),
        )


def _effect(graph: FuncGraph, op: tf.Operation) -> str:
    """Returns why an operation cannot run twice, "" if it can."""
    if op.type in CALLS:
        names = {f.name for value in op.node_def.attr.values() for f in functions_of(value)}
        inner = first_unrepeatable(names)
        return "" if inner is None else f"its '{inner.name}' ({inner.op}) cannot run twice"
    if not has_effect(op.op_def, op.type):
        return ""
    if any(hlo_region.is_variable(tensor) for tensor in op.inputs):
        return ""
    return "it has effects beside its results"
