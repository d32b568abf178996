"""Checks the operations of a function, and those of all functions that it calls, one after another.

Each operation that computes floats gets a Python function beside it, which reads its operands and
results; one that updates a variable gets reads of the variable before and after it. A chain of
control edges runs the checks in the order of the program. Loops run one iteration at a time, and
have marks that tell where they are.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import tensorflow as tf

from ipu_tf.internals.tensorflow import XLA_MUST_COMPILE, FunctionDef, NodeDef, op_def_registry
from ipu_tf.runtime.execution import repeated_effects
from ipu_tf.runtime.execution.repeated_effects import OF, OF_TYPE, OPERANDS
from ipu_tf.runtime.execution.value_findings import CheckedOp
from ipu_tf.runtime.execution.value_flow import ASSIGNMENT, Place, ValueFlow, inputs_of, node_of
from ipu_tf.runtime.execution.xla_engine import RANDOM, rename
from ipu_tf.runtime.execution.xla_random_numbers import XlaDraw, draw_of
from ipu_tf.runtime.extraction.function_nodes import dtypes_of, outputs_of
from ipu_tf.runtime.tracing.call_ops import CALLS, LOOPS, functions_of
from ipu_tf.runtime.tracing.float_checks import DIVISORS

_FLOATS = frozenset(
    dtype.as_datatype_enum for dtype in (tf.float16, tf.bfloat16, tf.float32, tf.float64)
)
_STATEFUL = {
    "PartitionedCall": "StatefulPartitionedCall",
    "StatelessCase": "Case",
    "StatelessIf": "If",
    "StatelessWhile": "While",
}
_CHECK = "PyFunc"
_MOVES = frozenset(
    {
        *CALLS, "IpuFloatingPointCheck", "Placeholder", "Const", "Identity", "IdentityN",
        "ReadVariableOp", "Reshape", "Transpose", "Squeeze", "ExpandDims",
        "StopGradient", "TensorListStack", "TensorListGetItem", "TensorListPopBack",
        "IteratorGetNext", "OptionalGetValue", "FakeParam", "CheckNumerics", "PreventGradient",
        "Bitcast",
    }
)  # fmt: skip
"""Types of ops that hand on the values of all of their operands, or bring some from outside."""

_DIVISORS = {**DIVISORS, "SqrtGrad": 0, "RsqrtGrad": 0}
_WRITERS = ("Assign", "ResourceApply", "ResourceSparseApply", "ResourceScatter", "ResourceStrided")


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopMark:
    """A place in a loop.

    Attributes:
        event: Whether a loop begins, an iteration of the loop that began last, or the loop ends.
        loop: Name of the loop.
    """

    event: Literal["enter", "iteration", "leave"]
    loop: str = ""


Entry: TypeAlias = CheckedOp | LoopMark | XlaDraw
"""What a Python function in a replay is called for."""


class FunctionChecks:
    """Adds checks to FunctionDefs, and says what they find.

    Args:
        token: Names the Python function of the checks, as a `PyFunc` op has it. It is called with
            the number of an operation, its operands and its results.
        names: What to call arguments of the function.
        name_of: From the name of a called function to that of its copy.
        only: Returns whether a node is checked, with all that it reads; None for all that may make
            a NaN, with the floats that they read.
        xla_random: Whether XLA draws the random numbers of the program.

    Attributes:
        flow: Where the values of the operations come from.
        feeds: What leaves the program through feeds.
    """

    def __init__(
        self,
        token: bytes,
        names: Mapping[str, str],
        name_of: Callable[[str], str],
        only: Callable[[NodeDef], bool] | None = None,
        *,
        xla_random: bool = False,
    ) -> None:
        self._only = only
        self._token = token
        self._names = dict(names)
        self._name_of = name_of
        self._xla_random = xla_random
        self._xla_functions: set[str] = set()
        self._bodies: set[str] = set()
        self._entries: list[Entry] = []
        self.flow = ValueFlow()
        self.feeds: list[Place] = []

    def __getitem__(self, number: int) -> Entry:
        """Returns the operation of a number."""
        return self._entries[number]

    def __call__(self, definition: FunctionDef) -> None:
        """Adds the checks to a FunctionDef."""
        name = definition.signature.name
        self.feeds += [(name, tensor) for tensor in repeated_effects.repeat(definition)]
        draws = self._keep_xla_random(definition)
        for node in definition.node_def:
            if node.op == repeated_effects.TAKE:
                source = node.attr[OF].s.decode()
                self._names |= {tensor: source for tensor, _ in outputs_of(node)}
        types = _types_of_tensors(definition)
        numbers: dict[str, int] = {}
        last = ""
        if name in self._bodies:
            last = self._mark(definition, "iteration", LoopMark(event="iteration"), after="")
        for node in list(_in_order(definition)):
            node.op = _STATEFUL.get(node.op, node.op)
            variables = [
                n for n, operand in enumerate(inputs_of(node)) if _is_variable(operand, types)
            ]
            results = [tensor for tensor, dtype in outputs_of(node) if dtype in _FLOATS]
            if node.op in LOOPS:
                last = self._loop(definition, node, after=last)
            elif node.op in CALLS:
                _run_after(node, last)
                last = node.name
            elif self._only is not None:
                if results and self._only(node) and not variables:
                    numbers[node.name] = len(self._entries)
                    last = self._add(definition, node, node, results, types, after=last)
            elif node.op not in _MOVES and node.name not in draws and results:
                numbers[node.name] = len(self._entries)
                last = self._add(definition, node, node, results, types, after=last)
            elif node.op.startswith(_WRITERS) and variables:
                for position in variables:
                    self.flow.note_writer(name, node, position)
                if node.op != ASSIGNMENT and _dtype_of_update(node) in _FLOATS:
                    numbers[node.name] = len(self._entries)
                    last = self._add_update(definition, node, variables, types, after=last)
        if last:
            definition.signature.is_stateful = True
            definition.signature.control_output.append("values_checked")
            definition.control_ret["values_checked"] = last
        self.flow.add(definition, numbers)

    def _keep_xla_random(self, definition: Any) -> set[str]:
        """Lets the graph run what XLA does; returns the nodes that draw XLA's random numbers."""
        draws: set[str] = set()
        name = definition.signature.name
        is_jitted = (
            self._xla_random or name in self._xla_functions or XLA_MUST_COMPILE in definition.attr
        )
        definition.attr.pop(XLA_MUST_COMPILE, None)
        for node in list(definition.node_def):
            if node.op in CALLS:
                if is_jitted or XLA_MUST_COMPILE in node.attr:
                    callees = [f.name for v in node.attr.values() for f in functions_of(v)]
                    self._xla_functions |= {self._name_of(one) for one in callees}
                node.attr.pop(XLA_MUST_COMPILE, None)
            elif is_jitted and node.op in RANDOM:
                self._draw_by_xla(definition, node)
                draws.add(node.name)
        return draws

    def _draw_by_xla(self, definition: Any, node: Any) -> None:
        op_def = op_def_registry.get(node.op)
        types = {
            "Tin": [tf.int64.as_datatype_enum, *dtypes_of(node, op_def.input_arg)],
            "Tout": dtypes_of(node, op_def.output_arg),
        }
        outputs = [name for name, _ in outputs_of(node)]
        draw = draw_of(node, op_def)
        inputs = [self._number(definition, f"{node.name}/draw", draw), *node.input]
        node.op = _CHECK
        node.attr.clear()
        node.attr["token"].s = self._token
        for key, dtypes in types.items():
            node.attr[key].list.type.extend(dtypes)
        del node.input[:]
        node.input.extend(inputs)
        new = [name for name, _ in outputs_of(node)]
        rename(definition, dict(zip(outputs, new, strict=True)))

    def _loop(self, definition: Any, node: Any, *, after: str) -> str:
        """Makes a loop run one iteration at a time, between marks; returns the second."""
        node.attr["parallel_iterations"].i = 1
        self._bodies.add(self._name_of(node.attr["body"].func.name))
        enter = LoopMark(event="enter", loop=node.name)
        _run_after(node, self._mark(definition, f"{node.name}/enter", enter, after=after))
        leave = LoopMark(event="leave", loop=node.name)
        return self._mark(definition, f"{node.name}/leave", leave, after=node.name)

    def _mark(self, definition: Any, name: str, mark: LoopMark, *, after: str) -> str:
        check = self._python(definition, name, mark)
        _run_after(check, after)
        return str(check.name)

    def _python(self, definition: Any, name: str, entry: Entry) -> Any:
        """Returns a new node that calls the Python function with the number of an entry."""
        number = self._number(definition, name, entry)
        check = definition.node_def.add(name=f"{name}/check_of_values", op=_CHECK)
        check.attr["token"].s = self._token
        check.input.append(number)
        check.attr["Tin"].list.type.append(tf.int64.as_datatype_enum)
        check.attr["Tout"].list.SetInParent()
        return check

    def _number(self, definition: Any, name: str, entry: Entry) -> str:
        """Returns a new tensor with the number of a new entry."""
        number = definition.node_def.add(name=f"{name}/number_of_check", op="IpuCheckNumber")
        number.attr["stream"].i = len(self._entries)
        self._entries.append(entry)
        return f"{number.name}:output:0"

    def _add(
        self,
        definition: Any,
        node: Any,
        reader: Any,
        results: Sequence[str],
        types: Mapping[str, int],
        *,
        after: str,
        before: Sequence[str] = (),
    ) -> str:
        """Adds the check of a node; returns its name.

        Args:
            definition: The FunctionDef.
            node: The node.
            reader: The node after which the results are there.
            results: Tensors of its results.
            types: Types of all tensors.
            after: The check before.
            before: Tensors of the values of the variables that it changes.
        """
        function = definition.signature.name
        is_given = node.op == repeated_effects.TAKE
        sources = [n.decode() for n in node.attr[OPERANDS].list.s] if is_given else inputs_of(node)
        keeps_nodes = self._only is not None
        floats = [name for name in sources if keeps_nodes or types.get(name) in _FLOATS]
        operands = [*before, *floats]
        handles = [name for name in sources if _is_variable(name, types)] if before else []
        op_type = (node.attr[OF_TYPE].s.decode() if is_given else node.op).removeprefix("Ipu")
        divisor = sources[_DIVISORS[op_type]] if op_type in _DIVISORS else None
        entry = CheckedOp(
            name=node.attr[OF].s.decode() if is_given else node.name,
            op_type=op_type,
            is_given=is_given,
            function=function,
            operands=tuple(self._names.get(n) or _short(n) for n in (*handles, *floats)),
            places=tuple((function, name) for name in operands),
            divisor=operands.index(divisor) if divisor in operands else None,
            node=_copy(node) if keeps_nodes else None,
        )
        check = self._python(definition, node.name, entry)
        check.input.extend((*operands, *results))
        check.attr["Tin"].list.type.extend(types[name] for name in (*operands, *results))
        _run_after(check, reader.name)
        _run_after(check, after)
        return str(check.name)

    def _add_update(
        self,
        definition: Any,
        node: Any,
        variables: Sequence[int],
        types: dict[str, int],
        *,
        after: str,
    ) -> str:
        """Adds the check of a node that updates variables; returns its name."""
        waits = [operand for operand in node.input if operand.startswith("^")]
        readers = [other for other in definition.node_def if f"^{node.name}" in other.input]
        before, results, last = [], [], node
        for position in variables:
            handle = inputs_of(node)[position]
            old = _add_read(definition, node, f"{node.name}/before_{position}", handle, types)
            old.input.extend(waits)
            _run_after(node, old.name)
            new = _add_read(definition, node, f"{node.name}/after_{position}", handle, types)
            _run_after(new, last.name)
            before.append(f"{old.name}:value:0")
            results.append(f"{new.name}:value:0")
            last = new
        for other in readers:
            _run_after(other, last.name)
        return self._add(definition, node, last, results, types, after=after, before=before)


def _types_of_tensors(definition: Any) -> dict[str, int]:
    """Returns the types of the tensors of a FunctionDef by name."""
    types = {argument.name: argument.type for argument in definition.signature.input_arg}
    for node in definition.node_def:
        types |= dict(outputs_of(node))
    return types


def _in_order(definition: Any) -> Iterator[Any]:
    """Yields the nodes in their order, but none before what it waits for."""
    nodes = {node.name: node for node in definition.node_def}
    numbers = {name: number for number, name in enumerate(nodes)}
    waits: dict[str, set[str]] = {}
    readers: dict[str, list[str]] = {name: [] for name in nodes}
    for name, node in nodes.items():
        sources = {node_of(operand) for operand in node.input} & nodes.keys()
        waits[name] = sources
        for source in sources:
            readers[source].append(name)
    ready = [(numbers[name], name) for name, sources in waits.items() if not sources]
    heapq.heapify(ready)
    while ready:
        _, name = heapq.heappop(ready)
        yield nodes[name]
        for reader in readers[name]:
            waits[reader].discard(name)
            if not waits[reader]:
                heapq.heappush(ready, (numbers[reader], reader))


def _copy(node: Any) -> Any:
    copy = NodeDef()
    copy.CopyFrom(node)
    return copy


def _is_variable(name: str, types: Mapping[str, int]) -> bool:
    return types.get(name) == tf.resource.as_datatype_enum


def _dtype_of_update(node: Any) -> int:
    """Returns the type of the variable that a node updates."""
    return int(node.attr["T" if "T" in node.attr else "dtype"].type)


def _add_read(definition: Any, node: Any, name: str, handle: str, types: dict[str, int]) -> Any:
    """Returns a new node that reads a variable which another node updates."""
    dtype = _dtype_of_update(node)
    reader = definition.node_def.add(name=name, op="ReadVariableOp", input=[handle])
    reader.attr["dtype"].type = types[f"{name}:value:0"] = dtype
    return reader


def _run_after(node: Any, name: str) -> None:
    if name and f"^{name}" not in node.input:
        node.input.append(f"^{name}")


def _short(name: str) -> str:
    """Returns the name of a tensor without the parts that say nothing."""
    node, _, output = name.partition(":")
    number = output.rpartition(":")[2]
    return node if number in ("", "0") else f"{node}:{number}"
