"""Converts a function with tile ops and host ops to one that XLA can read.

Tile ops become their stock twins. Joined ops, and ops without an XLA kernel, become the ops that
they stand for. Checkpoints of recomputation become barriers. Work of the host alone (prints, Python
functions, summaries, iterators) becomes a custom call with the tensors that go to the host and come
back from it. The functions that a function calls are converted, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.compiler.lowering import embedding
from ipu_tf.compiler.recomputation import marks
from ipu_tf.internals.tensorflow import XLA_MUST_COMPILE, FunctionDef, NodeDef, op_def_registry
from ipu_tf.ops.kernels import joined_ops, user_op
from ipu_tf.runtime.extraction import compositions, hlo_stand_ins, loop_bounds
from ipu_tf.runtime.extraction.deployments import COMPILED_APART
from ipu_tf.runtime.extraction.function_nodes import become_stock, dtypes_of, outputs_of
from ipu_tf.runtime.extraction.loop_bounds import Stack, TracedLoop
from ipu_tf.runtime.tracing import index_checks
from ipu_tf.runtime.tracing.call_ops import CALLS, CONDITIONALS, LOOPS, functions_of
from ipu_tf.runtime.tracing.op_attributes import ON_HOST

HOST_CALL = "ipu_tf.host_call"
"""Target of the custom calls that stand for host ops."""

INFEED = "ipu_tf.infeed"
"""Target of the custom calls that stand for reads of iterators and infeeds."""

OUTFEED = "ipu_tf.outfeed"
"""Target of the custom calls that stand for writes to outfeeds."""

_FEED_NUMBERS = {"IpuDequeue": 2, "IpuEnqueue": 2}
"""Ops of feeds, and how many of their first inputs name the queue and the replica to the host."""

COLLECTIVE = "ipu_tf.collective"
"""Target of the custom calls that stand for collectives of replicas. Their configuration is the
opcode and the number of replicas that take part, as "all-reduce 4"."""

_COLLECTIVE_OP = "IpuReplicaCollective"

_STATELESS_USER_OP = "IpuStatelessUserOp"


# They check or name values, have no results, and cost the machine nothing.
_NO_OPS = frozenset({"Assert", "IpuFloatingPointCheck", "IpuReplayRecord", "NoOp"})
_TARGETS = {
    "IteratorGetNext": INFEED,
    "IteratorGetNextSync": INFEED,
    "IpuDequeue": INFEED,
    "IpuReplicaGetNext": INFEED,
    "IpuEnqueue": OUTFEED,
}
_HOST_OPS = frozenset(
    {
        "Print", "PrintV2", "StringFormat", "PyFunc", "EagerPyFunc", "PyFuncStateless", "Timestamp",
        "WriteSummary", "WriteScalarSummary", "WriteHistogramSummary", "WriteImageSummary",
        "WriteAudioSummary", "WriteGraphSummary", "WriteRawProtoSummary", "FlushSummaryWriter",
    }
)  # fmt: skip
_CUSTOM_CALLS = frozenset({*_HOST_OPS, *_TARGETS, *user_op.OPS})
"""Ops that become custom calls."""

_HOST_DTYPES = frozenset(dtype.as_datatype_enum for dtype in (tf.string, tf.resource, tf.variant))
_STRING = tf.string.as_datatype_enum
_INT32 = tf.int32.as_datatype_enum
_CUSTOM_CALL = "XlaCustomCallV2"
_BARRIER = "XlaOptimizationBarrier"
_STAND_IN = "host_tensor"
NUMBERS = r"_stock_\d+.*$"
"""The suffix that the conversion, and XLA after it, add to names of functions."""

_APART = ("_noinline", XLA_MUST_COMPILE)
"""Attributes of functions whose calls stay calls when the function around them is compiled."""

_SHAPE_LISTS = ("output_shapes", "_output_shapes")
_serial = itertools.count()

FindFunction = Callable[[str], FunctionDef]
"""From the name of a function to its FunctionDef."""


class UnknownShape(ValueError):
    """A host op returns a tensor whose shape is not static."""


class StockFunctions:
    """Converts a function and all functions that it calls.

    Args:
        find: Finds the called functions.
        bounds: Maximum trip counts of loops without `maximum_iterations`, by their bodies' names.

    Attributes:
        functions: The converted functions, callees first.
        unbounded: Loops without a bound whose gradients keep values of each iteration. The size of
            their stacks serves only to count iterations.
        stacks: Stacks that nodes of branches stand for, by the names of function and node.
    """

    def __init__(self, find: FindFunction, bounds: Mapping[str, int] | None = None) -> None:
        self._find = find
        self._bounds = bounds or {}
        self.unbounded: set[TracedLoop] = set()
        self.stacks: dict[tuple[str, str], Stack] = {}
        self._definitions: dict[tuple[str, frozenset[int]], Any] = {}
        self._compositions: list[Any] = []
        self.functions: list[Any] = []

    def convert(self, function: FunctionDef, host: Iterable[str] = ()) -> FunctionDef:
        """Returns `function` in a form that XLA can read.

        Args:
            function: A FunctionDef; it is left as it is.
            host: Names of tensors that only host ops use. Arguments among them become int32.

        Raises:
            UnknownShape: A host op's result has no static shape.
        """
        body = _Body(function, host, self)
        for node in function.node_def:
            body.add(node)
        new = body.finish()
        self.functions.append(new)
        return new

    def stack_size(self, loop: TracedLoop) -> int:
        """Returns the size of the stacks that a loop without `maximum_iterations` fills."""
        if loop.body not in self._bounds:
            self.unbounded.add(loop)
        return self._bounds.get(loop.body, loop_bounds.ANY_SIZE)

    def branches(self, names: Sequence[str]) -> None:
        """Notes the stacks that nodes in other branches of the same conditional stand for."""
        functions = [self._find(name) for name in names]
        for name, function in zip(names, functions, strict=True):
            nodes = {node.name: node for node in function.node_def}
            for index, result in enumerate(function.signature.output_arg):
                node = nodes.get(function.ret[result.name].partition(":")[0])
                if node is not None and loop_bounds.stands_for_stack(node):
                    stack = loop_bounds.stack_of(functions, index, self._find)
                    if stack is not None:
                        self.stacks[name, node.name] = stack

    def composition(self, node: NodeDef) -> FunctionDef:
        """Returns the converted composition of an op that XLA has no kernel for."""
        dtypes = dtypes_of(node, op_def_registry.get(node.op).input_arg)
        function = compositions.concrete_composition(node, dtypes)
        self._compositions.append(function)  # TensorFlow drops it with its last reference.
        return self.callee(function.name)

    def callee(self, name: str, host_arguments: frozenset[int] = frozenset()) -> FunctionDef:
        """Returns the converted function `name`, for calls with these host arguments."""
        key = (name, host_arguments)
        if key not in self._definitions:
            callee = self._find(name)
            arguments = callee.signature.input_arg
            host = [arguments[index].name for index in host_arguments]
            self._definitions[key] = self.convert(callee, host)
        return self._definitions[key]


class _Body:
    """A function during the conversion of its nodes.

    Attributes:
        function: The new FunctionDef.
        host: Names of tensors that only host ops use; an int32 replaces them in calls.
        new_names: Maps the old names of tensors, which other nodes refer to, to the new ones.
    """

    def __init__(self, function: Any, host: Iterable[str], functions: StockFunctions) -> None:
        self._name = function.signature.name
        self._nodes = {node.name: node for node in function.node_def}
        self.function = FunctionDef()
        self.function.CopyFrom(function)
        self.function.ClearField("node_def")
        self.function.signature.name = f"{function.signature.name}_stock_{next(_serial)}"
        # XLA does not see constants that a call passes, such as shapes for a gradient.
        for attribute in _APART:
            self.function.attr.pop(attribute, None)
        self.host = set(host)
        for argument in self.function.signature.input_arg:
            if argument.name in self.host:
                argument.type = _INT32
        self.new_names: dict[str, str] = {}
        self._substitutes: dict[str, str] = {}
        self._functions = functions
        self._stacks = dict(loop_bounds.unbounded_stacks(function))

    def add(self, node: Any) -> None:
        """Adds the nodes that replace a node."""
        inputs = [name for name in node.input if not name.startswith("^")]
        host_inputs = frozenset(index for index, name in enumerate(inputs) if name in self.host)
        if node.op in _NO_OPS or COMPILED_APART in node.attr:
            return
        if node.op == index_checks.CHECK:
            self._substitutes[f"{node.name}:checked:0"] = node.input[0]
            return
        if (stack := self._functions.stacks.get((self._name, node.name))) is not None:
            loop = stack.loop
            size = stack.size if loop is None else self._functions.stack_size(loop)
            handle = loop_bounds.add_stack(self.function, node.name, stack, size)
            self.new_names[f"{node.name}:output:0"] = handle
        elif ON_HOST in node.attr:
            self._add_host_op(node)
        elif node.op in CALLS:
            self._add_call(node, host_inputs)
        elif node.op in joined_ops.JOINED:
            self._add_joined_op(node)
        elif node.op in compositions.COMPOSITIONS:
            self._add_composition(node)
        elif host_inputs or node.op in _CUSTOM_CALLS or _is_text(node):
            self._add_host_op(node)
        elif node.op == "Identity" and marks.is_checkpoint_name(node.name):
            self._add_checkpoint(node)
        elif hlo_stand_ins.has_stand_in(node):
            nodes, result = hlo_stand_ins.stand_in(node)
            self.function.node_def.extend(nodes)
            self.new_names.update({name: result for name, _ in outputs_of(node)})
        else:
            self._add_device_op(node)

    def finish(self) -> Any:
        """Returns the function, with all changed names updated."""
        function, names = self.function, {node.name for node in self.function.node_def}
        for node in function.node_def:
            inputs = [self._current(name) for name in node.input]
            node.ClearField("input")
            node.input.extend(n for n in inputs if not n.startswith("^") or n[1:] in names)
        for result in function.signature.output_arg:
            name = function.ret[result.name]
            if name in self.host:
                result.type = _INT32
                name = self._stand_in()
            function.ret[result.name] = self._current(name)
        for key in [key for key, name in function.control_ret.items() if name not in names]:
            del function.control_ret[key]
        del function.signature.control_output[:]
        function.signature.control_output.extend(function.control_ret)
        return function

    def _current(self, name: str) -> str:
        """Returns the current name of a tensor."""
        while name in self._substitutes:  # Joined ops may be joined with others.
            name = self._substitutes[name]
        return self.new_names.get(name, name)

    def _add_device_op(self, node: Any) -> None:
        new = self._copy(node)
        become_stock(new)
        if node.name in self._stacks:
            size = self._functions.stack_size(self._stacks[node.name])
            loop_bounds.set_size(self.function, new, size)
        for value in new.attr.values():
            for callee in functions_of(value):
                callee.name = self._functions.callee(callee.name).signature.name

    def _add_checkpoint(self, node: Any) -> None:
        """Adds a barrier, which XLA keeps, for an identity, which it drops."""
        dtype = node.attr["T"].type
        barrier = self.function.node_def.add(name=node.name, op=_BARRIER, device=node.device)
        barrier.input.extend(node.input)
        barrier.attr["T"].list.type.append(dtype)

    def _add_joined_op(self, node: Any) -> None:
        """Redirects the readers of a joined op to the ops that were joined, or to their chain."""
        names = [name for name, _ in outputs_of(node)]
        chain_outputs = [joined_ops.replaced(node, index) for index in range(len(names))]
        outputs = [self._output(name) if name else name for name in chain_outputs]
        if None not in outputs:
            self._substitutes.update(
                (old, new) for old, new in zip(names, outputs, strict=True) if new
            )
            return
        nodes, results = joined_ops.expand(node)
        self.function.node_def.extend(nodes)
        self.new_names.update(zip(names, results, strict=True))

    def _output(self, tensor: str | None) -> str | None:
        """Returns the name of a graph's tensor in the FunctionDef, None if it is not in it."""
        name, _, index = (tensor or "").rpartition(":")
        node = self._nodes.get(name)
        return None if node is None else list(outputs_of(node))[int(index)][0]

    def _add_composition(self, node: Any) -> None:
        """Adds a call of the composition of an op that XLA has no kernel for."""
        converted = self._functions.composition(node)
        call = self.function.node_def.add(name=node.name, op="PartitionedCall", device=node.device)
        call.input.extend(node.input)
        call.attr["f"].func.name = converted.signature.name
        signature = converted.signature
        for key, arguments in (("Tin", signature.input_arg), ("Tout", signature.output_arg)):
            call.attr[key].list.type.extend(argument.type for argument in arguments)
        for index, (name, _) in enumerate(outputs_of(node)):
            self.new_names[name] = f"{node.name}:output:{index}"

    def _add_call(self, node: Any, host_inputs: frozenset[int]) -> None:
        new = self._copy(node)
        for index, tensor in joined_ops.bypassed(node).items():
            new.input[index] = self._output(tensor) or new.input[index]
        arguments = frozenset(index - CALLS[node.op] for index in host_inputs)
        converted = None
        callees = [callee for value in new.attr.values() for callee in functions_of(value)]
        if node.op in CONDITIONALS:
            self._functions.branches([callee.name for callee in callees])
        for callee in callees:
            converted = self._functions.callee(callee.name, arguments)
            callee.name = converted.signature.name
        for index in host_inputs:
            new.input[index] = self._stand_in()
        names = [name for name, _ in outputs_of(node)]
        if node.op in LOOPS:
            _retype(new.attr["T"], arguments)
            self.host.update(names[index] for index in arguments)
        elif converted is not None:
            results = converted.signature.output_arg
            writes = frozenset(
                index
                for index, dtype in enumerate(new.attr["Tout"].list.type)
                if dtype != results[index].type
            )
            _retype(new.attr["Tin"], arguments)
            _retype(new.attr["Tout"], writes)
            self.host.update(names[index] for index in writes)

    def _add_host_op(self, node: Any) -> None:
        """Adds a custom call with the numbers that a host op takes and returns."""
        dtypes = dtypes_of(node, op_def_registry.get(node.op).input_arg)
        operands = [
            (name, dtype)
            for name, dtype in zip(node.input, dtypes, strict=False)
            if dtype not in _HOST_DTYPES and name not in self.host
        ][_FEED_NUMBERS.get(node.op, 0) :]
        outputs = list(outputs_of(node))
        results = [index for index, (_, dtype) in enumerate(outputs) if dtype not in _HOST_DTYPES]
        self.host.update(name for name, dtype in outputs if dtype in _HOST_DTYPES)
        if not operands and not results:
            return
        call = self.function.node_def.add(name=node.name, op=_CUSTOM_CALL, device=node.device)
        call.input.extend(name for name, _ in operands)
        call.input.extend(name for name in node.input if name.startswith("^"))
        attributes = call.attr
        target, configuration = _TARGETS.get(node.op, HOST_CALL), node.op
        if node.op == _COLLECTIVE_OP:
            kind, size = node.attr["kind"].s.decode(), node.attr["group_size"].i
            target, configuration = COLLECTIVE, f"{kind} {size}"
        if node.op in user_op.OPS:
            target, configuration = embedding.TARGET, _known_program(node)
        attributes["call_target_name"].s = target.encode()
        attributes["backend_config"].s = configuration.encode()
        attributes["has_side_effect"].b = node.op != _STATELESS_USER_OP
        attributes["operand_dtypes"].list.type[:] = [dtype for _, dtype in operands]
        attributes["result_dtypes"].list.type[:] = [outputs[index][1] for index in results]
        shapes = [self._static_shape(node, index, outputs[index][0]) for index in results]
        attributes["result_shapes"].list.shape.extend(shapes)
        for name in ("operand_dtypes", "result_dtypes", "result_shapes"):
            attributes[name].list.SetInParent()
        for position, index in enumerate(results):
            self.new_names[outputs[index][0]] = f"{node.name}:results:{position}"

    def _static_shape(self, node: Any, index: int, name: str) -> Any:
        """Returns the shape of an output of a host op, its own or that of an EnsureShape after it.

        The nodes of loops and conditions have no shapes of their own: those that `set_shape` gives
        stay in Python.

        Args:
            node: The host op.
            index: Position of the output.
            name: Its name in the function.

        Raises:
            UnknownShape: The shape is not known.
        """
        shape_lists = [node.attr[key].list.shape for key in _SHAPE_LISTS if key in node.attr]
        shapes = [each[index] for each in shape_lists[:1] if index < len(each)]
        shapes += [
            reader.attr["shape"].shape
            for reader in self._nodes.values()
            if reader.op == "EnsureShape" and reader.input[0] == name
        ]
        for shape in shapes:
            if tf.TensorShape(shape).is_fully_defined():
                return shape
        raise UnknownShape(
            f"'{node.name}' ({node.op}) brings tensors of unknown shape from the host. Shapes are "
            "static on the IPU: batch data with `drop_remainder=True`, and set the shapes of the "
            "results of Python functions with `tf.ensure_shape`."
        )

    def _copy(self, node: Any) -> Any:
        new = self.function.node_def.add()
        new.CopyFrom(node)
        return new

    def _stand_in(self) -> str:
        """Returns the name of the int32 that calls pass in place of host tensors."""
        if all(node.name != _STAND_IN for node in self.function.node_def):
            node = self.function.node_def.add(name=_STAND_IN, op="Const")
            node.attr["dtype"].type = _INT32
            node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(0, tf.int32))
        return f"{_STAND_IN}:output:0"


def _known_program(node: Any) -> str:
    """Returns the key of the program of a custom op.

    Raises:
        UnknownShape: The shapes of its inputs or outputs are not known, so it has none.
    """
    key, label = (str(node.attr[name].s.decode()) for name in ("program", "label"))
    if key == user_op.UNKNOWN:
        raise UnknownShape(
            f"the custom op '{label}' ('{node.name}') has inputs or outputs of unknown shape. "
            "Shapes are static on the IPU: batch data with `drop_remainder=True`, and give `outs` "
            "static shapes."
        )
    return key


def _is_text(node: Any) -> bool:
    return node.op == "Const" and bool(node.attr["dtype"].type == _STRING)


def _retype(attribute: Any, positions: frozenset[int]) -> None:
    for index in positions:
        attribute.list.type[index] = _INT32
