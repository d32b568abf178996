"""Turns the contractions of a function into tile ops while the function is traced.

While a `Tracer` is active on a thread, every op that is created in a function's graph passes
through it first: a stock op with a tile twin is created as its twin. Because a twin has its stock
op's inputs, outputs and attributes, tapes, control flow and nested functions treat it like the
stock op. (docs/architecture.md compares this with rewriting finished graphs.)
"""

from __future__ import annotations

import contextlib
import itertools
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.base import call_path
from ipu_tf.config import DeviceConfiguration
from ipu_tf.internals.graphs import (
    clear_device,
    is_in_control_flow,
    is_in_loop_body,
    is_ipu,
    op_def_of,
    set_op_attribute,
)
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.internals.tensorflow import ConcreteFunction, FuncGraph
from ipu_tf.ops.kernels import replica_context
from ipu_tf.ops.kernels.twins import STOCK_OF
from ipu_tf.programs.op_names import LOSS, LayerScopes, scope_of
from ipu_tf.programs.program import NativeOp, Program, TileOp
from ipu_tf.runtime.tracing import float_checks, index_checks
from ipu_tf.runtime.tracing import op_attributes as attributes
from ipu_tf.runtime.tracing.op_request import OpRequest
from ipu_tf.runtime.tracing.op_rules import RULES, UPDATES
from ipu_tf.runtime.tracing.snapshots import Snapshots

Create = Callable[..., tf.Operation]

FEED_OPS = frozenset({"IpuDequeue", "IpuEnqueue"})
"""Types of the ops that read infeeds and write outfeeds."""
_ON_DEVICE = frozenset({"Placeholder", "Const", "ReadVariableOp"})
"""Types of ops that give the host its operands in `outside_compilation_scope`."""

# Keras' object that adds up a model's output losses is not a layer, nor are the losses in it.
_COMPILED_LOSS = re.compile(rf"^({LOSS}/)?compile_loss(/.*)?$")

_STREAMS_PER_PROGRAM = 1 << 20
_programs = itertools.count(1)


class Tracer:
    """Creates tile ops for one program.

    Args:
        program: The tracer records the ops here.
        configuration: The device that the program is traced for.

    Attributes:
        source_graphs: Graphs whose ops are being created once more, the innermost last.
        layers: Path of the Keras layer of each name scope.
        optimizer_scopes: The scopes in which Keras optimizers update weights.
        parts: Programs of their own that the program calls, such as pipelines.
        moves_feeds: Whether the program reads an infeed or writes an outfeed so far.
        shards: Name scopes of `ipu_shard` with the numbers of their IPUs, in their order.
        names_an_ipu: Whether the program places ops on an IPU by its name.
        steps_of_update: Iterations of a loop after which an optimizer updates the weights.
        pipeline_updates: Updates that a pipeline makes in a run; None without one that trains.
        updates_in_loop: Whether an optimizer updates weights in a loop of the program; None if none
            does at all, or without snapshots.
        number: Its number, unique in the process.
        scaled_gradients: Gradients of a scaled loss that an optimizer checks for overflows.
        loss_scale: Their scale; None if there is none, or without snapshots.
        checks_scaled: Whether an optimizer checks these, or their sums, for overflows.
        snapshots: Reads variables before they change; None for programs without a replay.
    """

    def __init__(self, program: Program, configuration: DeviceConfiguration) -> None:
        self.program = program
        self.configuration = configuration
        self.functions: dict[str, Any] = {}
        self.concrete_functions: dict[Any, tuple[Any, ConcreteFunction]] = {}
        self.source_graphs: list[FuncGraph] = []
        self._graphs: weakref.WeakSet[FuncGraph] = weakref.WeakSet()
        self._operations: list[tuple[TileOp, tf.Operation]] = []
        self.layers: dict[str, str] = {}
        self.optimizer_scopes: set[str] = set()
        self.parts: list[Program] = []
        self.moves_feeds = False
        self.shards: list[tuple[str, int]] = []
        self.names_an_ipu = False
        self.steps_of_update = 1
        self.pipeline_updates: int | None = None
        self.updates_in_loop: bool | None = None
        self.snapshots: Snapshots | None = None
        self.scaled_gradients: list[tf.Tensor] = []
        self.loss_scale: tf.Tensor | None = None
        self.checks_scaled = False
        self._trainable: list[weakref.ref[tf.Variable]] = []
        self._slots: list[tuple[tf.Tensor, tf.Tensor]] = []
        self.number = next(_programs)
        first = self.number * _STREAMS_PER_PROGRAM
        self._streams = itertools.count(first)

    def create_op(
        self,
        create: Create,
        graph: FuncGraph,
        op_type: str,
        inputs: Sequence[tf.Tensor],
        attrs: Mapping[str, tf.compat.v1.AttrValue] | None,
        **kwargs: object,
    ) -> tf.Operation:
        """Creates an op in `graph` through `create`, changed by the rule of its type.

        `op_rules.RULES` has the rules: a contraction becomes its tile twin, for example.
        """
        self._graphs.add(graph)
        name = _full_name(graph, cast(str | None, kwargs.get("name")) or op_type)
        if op_type != "Placeholder":  # A layer may capture tensors from outside.
            self._note_layer(name)
        attrs = dict(attrs or {})
        if scopes.current().outside and op_type not in _ON_DEVICE:
            op = attributes.note_host_op(create(op_type, inputs, attrs=attrs, **kwargs))
            if self.snapshots is not None:
                self.snapshots.after(op)
            return op
        inputs = index_checks.checked(graph, op_type, inputs, attrs, name)
        request = OpRequest(graph=graph, op_type=op_type, inputs=inputs, attrs=attrs, name=name)
        rule = RULES.get(op_type)
        if rule is not None:
            request = rule(self, request)
        if request.op_type.startswith("Ipu") or request.op_type != op_type:
            kwargs["op_def"] = None  # The caller's belongs to the stock op.
        if request.name != name:
            kwargs["name"] = f"{request.name}/"
        if self.snapshots is not None:
            self.snapshots.before(graph, request.op_type, request.inputs)
        op = create(request.op_type, request.inputs, attrs=dict(request.attrs), **kwargs)
        self._note_op(op, request)
        if self.snapshots is not None:
            self.snapshots.after(op)
        if float_checks.are_on(self.configuration):
            float_checks.add(op, self.configuration, self.number)
        return op

    def note_loss_scale(self, scale: tf.Tensor, gradients: Sequence[tf.Variable] = ()) -> None:
        """Notes the scale of the loss, if the program is replayed.

        Args:
            scale: A scalar.
            gradients: Gradients that an optimizer checks for overflows; None for missing ones.
        """
        snapshots = self.snapshots
        if snapshots is None or snapshots.graph is not tf.compat.v1.get_default_graph():
            return
        self.loss_scale = tf.cast(tf.convert_to_tensor(scale), tf.float32)
        tensors = [one.values if isinstance(one, tf.IndexedSlices) else one for one in gradients]
        self.scaled_gradients += [tf.convert_to_tensor(one) for one in tensors if one is not None]

    def _note_op(self, op: tf.Operation, request: OpRequest) -> None:
        """Notes what the program learns from an op: its device, its shard, slots, its tile op."""
        self._take_device(op)
        shard = scopes.current().shard
        if shard is not None:
            set_op_attribute(op, attributes.SHARD, tf.compat.v1.AttrValue(i=shard))
        self.moves_feeds = self.moves_feeds or request.op_type in FEED_OPS
        is_update = request.op_type in UPDATES
        if self.snapshots is not None and (is_update or call_path.current().is_in_optimizer):
            in_loop = is_in_loop_body(op.graph, self.snapshots.graph)
            self.updates_in_loop = in_loop or bool(self.updates_in_loop)
        if is_update:
            slots = [tensor for tensor in request.inputs[1:] if tensor.dtype == tf.resource]
            self._slots += [(slot, request.inputs[0]) for slot in slots]
        if request.op_type in STOCK_OF:
            self._operations.append((self.program.tile_ops[-1], op))

    @property
    def trainable_variables(self) -> tuple[tf.Variable, ...]:
        """The trainable variables that the function uses, known after the trace."""
        weights = (reference() for reference in self._trainable)
        return tuple(variable for variable in weights if variable is not None)

    def note_trainable(self, variables: Iterable[tf.Variable]) -> None:
        """Remembers trainable variables that the function uses, for their lifetime."""
        self._trainable += [weakref.ref(variable) for variable in variables]

    @property
    def slots(self) -> tuple[tuple[tf.Tensor, tf.Tensor], ...]:
        """The handles of the slots of optimizers that are no Keras optimizers, each with the handle
        of its weight; tensors of any graphs of the program."""
        return tuple(self._slots)

    def note_slot(self, slot: tf.Variable, weight: tf.Variable) -> None:
        """Remembers that an optimizer keeps a variable for a weight, or for itself: a counter."""
        self._slots.append((slot.handle, weight.handle))

    @property
    def draws_random_bits(self) -> bool:
        """Returns whether any op of the program rounds stochastically so far, or by default."""
        return self.configuration.stochastic_rounding != "off" or any(
            op.stochastic_rounding for op in self.program.tile_ops
        )

    def has_built(self, graph: FuncGraph) -> bool:
        """Returns whether the ops of a graph went through this tracer."""
        return graph in self._graphs

    @contextlib.contextmanager
    def copying(self, body: FuncGraph) -> Iterator[None]:
        """Makes the functions of `body` known while its ops are created once more."""
        self.source_graphs.append(body)
        try:
            yield
        finally:
            self.source_graphs.pop()

    def finish(self, outputs: TensorStructure) -> None:
        """Removes unneeded ops from the program: TensorFlow prunes them before it runs.

        Gradients towards the data are such ops: tapes create them with those of the weights.

        Args:
            outputs: The results of the traced function.
        """
        graph = tf.compat.v1.get_default_graph()
        names = _live_names(graph, outputs)
        self.program.tile_ops[:] = [
            tile_op for tile_op, op in self._operations if op.graph is not graph or op.name in names
        ]

    def enter_shard(self, scope: str, ipu: int) -> None:
        """Notes that the ops of a name scope are on an IPU of the program.

        Raises:
            MoreIpusNeeded: The trace assumed fewer IPUs.
        """
        replica_context.require_ipus(ipu + 1)
        self.shards.append((scope, ipu))

    def take_over(self, part: Tracer) -> None:
        """Makes the functions of another tracer's program known: this program calls them.

        Args:
            part: The tracer of a program that is compiled apart from this one.
        """
        self._graphs.update(part._graphs)
        self._trainable += part._trainable
        self._slots += part._slots
        self.parts += [part.program, *part.parts]

    def split_off(self, body: FuncGraph, name: str, steps: int) -> Tracer:
        """Returns a tracer of the part of the program that is in the body of a loop.

        The part's tile ops and shards leave this tracer.

        Args:
            body: The graph of the body.
            name: Name of the part's program.
            steps: How often a run of this program runs the body.
        """
        part = Tracer(Program(name=name, steps_per_execution=steps), self.configuration)
        part.layers, part.optimizer_scopes = dict(self.layers), set(self.optimizer_scopes)
        part._graphs, part._trainable, part._slots = self._graphs, self._trainable, self._slots
        inside = {tile_op.name for tile_op, op in self._operations if _is_within(op.graph, body)}
        mine = self.program.tile_ops
        part._operations = [pair for pair in self._operations if pair[0].name in inside]
        part.program.tile_ops += [tile_op for tile_op in mine if tile_op.name in inside]
        mine[:] = [tile_op for tile_op in mine if tile_op.name not in inside]
        part.shards = [shard for shard in self.shards if self._is_shard_within(shard[0], body)]
        self.shards = [shard for shard in self.shards if shard not in part.shards]
        self.parts.append(part.program)
        return part

    def has_shards_within(self, body: FuncGraph) -> bool:
        """Returns whether ops of `ipu_shard` are in a loop's body, or in loops inside of it."""
        return any(self._is_shard_within(scope, body) for scope, ipu in self.shards)

    def is_shard_in_control_flow(self, scope: str, program: FuncGraph) -> bool:
        """Returns whether ops of an `ipu_shard` are in a branch or a loop.

        Args:
            scope: The name scope of the shard.
            program: The graph of the program.
        """
        return any(
            op.name.startswith(f"{scope}/")
            for graph in self._graphs
            if is_in_control_flow(graph, program)
            for op in graph.get_operations()
        )

    def _is_shard_within(self, scope: str, body: FuncGraph) -> bool:
        return any(
            op.name.startswith(f"{scope}/")
            for graph in self._graphs
            if _is_within(graph, body)
            for op in graph.get_operations()
        )

    def _take_device(self, op: tf.Operation) -> None:
        """Notes the IPU that the program names for an op: TensorFlow has no device of this name."""
        is_named = is_ipu(op.device)
        if is_named:
            clear_device(op)
        self.names_an_ipu = self.names_an_ipu or is_named or scopes.is_on_ipu()

    def next_stream(self) -> int:
        """Returns the number of the next stream of random bits."""
        return next(self._streams)

    def _note_layer(self, name: str) -> None:
        """Remembers the Keras layer of an op's scope; it is known only during the layer's call."""
        call = call_path.current()
        path, scope = _COMPILED_LOSS.sub(LOSS, call.path), scope_of(name)
        if path and scope and self.layers.get(scope) != path:
            self.layers[scope] = path
            if call.is_in_optimizer:
                self.optimizer_scopes.add(scope)

    def layer_of(self, name: str) -> str:
        """Returns the path of an op's Keras layer, or its name scope if it has none.

        Gradients are matched by the scope that they carry.
        """
        return LayerScopes(paths=self.layers).layer_or_scope(name) or call_path.current().path

    def add_native(self, op_type: str, name: str, reason: str) -> None:
        """Records a contraction that TensorFlow's own kernel runs."""
        self.program.native_ops.append(
            NativeOp(name=name, layer=self.layer_of(name), op_type=op_type, reason=reason)
        )


def _is_within(graph: Any, body: FuncGraph) -> bool:
    """Returns whether a graph is the body of a loop, or that of a function called inside of it."""
    while graph is not None and graph is not body:
        graph = getattr(graph, "outer_graph", None)
    return graph is body


def _full_name(graph: FuncGraph, name: str) -> str:
    """Returns the name of an op of `graph` with its scopes: a name that ends in "/" has them."""
    scope = graph.get_name_scope()
    return name.rstrip("/") if name.endswith("/") or not scope else f"{scope}/{name}"


def _live_names(graph: FuncGraph, outputs: Any) -> set[str]:
    """Returns the names of the ops of `graph` that its outputs or its side effects need."""
    flat = tf.nest.flatten(outputs, expand_composites=True)
    # Eager tensors and variables, which a function may also return, belong to no graph.
    worklist = [value.op for value in flat if getattr(value, "graph", None) is graph]
    worklist += [op for op in graph.get_operations() if op_def_of(op).is_stateful]
    names: set[str] = set()
    while worklist:
        op = worklist.pop()
        if op.name not in names:
            names.add(op.name)
            worklist += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return names
