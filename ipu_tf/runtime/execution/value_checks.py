"""Checks the operations of a function, and those of all functions that it calls, one after another.

Each operation that computes floats gets a Python function beside it, which reads its operands and
results. A chain of control edges runs the checks in the order of the program.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from ipu_tf.programs.nonfinite import Fault, ValueSummary
from ipu_tf.runtime.extraction.function_nodes import outputs_of
from ipu_tf.runtime.tracing.call_ops import CALLS
from ipu_tf.runtime.tracing.float_checks import DIVISORS, MOVES

STREAMS_APART = 1 << 47
"""Streams of stochastic rounding of checked copies lie this far behind those of the program; those
of replicas lie 2**48 apart."""

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
_AROUND = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedOp:
    """An operation that is checked.

    Attributes:
        name: Its name.
        op_type: Its TensorFlow type.
        operands: Names of the floats that it reads.
        divisor: The position, among these, of the operand that it divides by; None for none.
    """

    name: str
    op_type: str
    operands: tuple[str, ...]
    divisor: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An operation whose result is not finite, though it should be.

    Attributes:
        checked: The operation.
        fault: What happened.
        operands: What it read.
        results: What it computed.
        position: Indices of the first value that is not finite.
        around: The values around it.
    """

    checked: CheckedOp
    fault: Fault
    operands: tuple[ValueSummary, ...]
    results: tuple[ValueSummary, ...]
    position: tuple[int, ...]
    around: tuple[float, ...]


class FunctionChecks:
    """Adds checks to FunctionDefs, and says what they find.

    Args:
        token: Names the Python function of the checks, as a `PyFunc` op has it. It is called with
            the number of an operation, its operands and its results.
        names: What to call arguments of the function.
    """

    def __init__(self, token: bytes, names: Mapping[str, str]) -> None:
        self._token = token
        self._names = names
        self._ops: list[CheckedOp] = []

    def __getitem__(self, number: int) -> CheckedOp:
        """Returns the operation of a number."""
        return self._ops[number]

    def __call__(self, definition: Any) -> None:
        """Adds the checks to a FunctionDef."""
        types = _types_of_tensors(definition)
        last = ""
        for node in list(_in_order(definition)):
            node.op = _STATEFUL.get(node.op, node.op)
            if node.op.startswith("Ipu") and "stream" in node.attr:
                node.attr["stream"].i += STREAMS_APART
            if node.op in CALLS:
                _run_after(node, last)
                last = node.name
                continue
            results = [name for name, dtype in outputs_of(node) if dtype in _FLOATS]
            if node.op not in MOVES and results:
                last = self._add(definition, node, results, types, after=last)
        if last:
            definition.signature.is_stateful = True
            definition.signature.control_output.append("values_checked")
            definition.control_ret["values_checked"] = last

    def _add(
        self,
        definition: Any,
        node: Any,
        results: Sequence[str],
        types: Mapping[str, int],
        *,
        after: str,
    ) -> str:
        """Adds the check of a node; returns its name."""
        read = [name for name in node.input if not name.startswith("^")]
        operands = [name for name in read if types.get(name) in _FLOATS]
        op_type = node.op.removeprefix("Ipu")
        divisor = read[DIVISORS[op_type]] if op_type in DIVISORS else None
        number = definition.node_def.add(name=f"{node.name}/number_of_check", op="Const")
        number.attr["dtype"].type = tf.int32.as_datatype_enum
        number.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(len(self._ops), tf.int32))
        check = definition.node_def.add(name=f"{node.name}/check_of_values", op=_CHECK)
        check.attr["token"].s = self._token
        check.input.append(f"{number.name}:output:0")
        check.input.extend((*operands, *results))
        check.attr["Tin"].list.type.append(tf.int32.as_datatype_enum)
        check.attr["Tin"].list.type.extend(types[name] for name in (*operands, *results))
        check.attr["Tout"].list.SetInParent()
        _run_after(check, after)
        self._ops.append(
            CheckedOp(
                name=node.name,
                op_type=op_type,
                operands=tuple(self._names.get(name) or _short(name) for name in operands),
                divisor=operands.index(divisor) if divisor in operands else None,
            )
        )
        return str(check.name)


def finding(checked: CheckedOp, values: Sequence[NDArray[Any]]) -> Finding | None:
    """Returns what is wrong with an operation, None if nothing is.

    Args:
        checked: The operation.
        values: Its operands, then its results.
    """
    count = len(checked.operands)
    operands, results = values[:count], values[count:]
    with np.errstate(all="ignore"):
        if all(np.isfinite(value).all() for value in results):
            return None
        fault = _fault(checked, operands, results)
        if fault is None:
            return None
        is_wrong = np.isnan if fault == "invalid operation" else np.isinf
        wrong = next(value for value in results if is_wrong(value).any())
        flat = int(np.argmax(is_wrong(wrong).ravel()))
        near = wrong.ravel()[max(flat - _AROUND, 0) : flat + _AROUND + 1]
        return Finding(
            checked=checked,
            fault=fault,
            operands=tuple(map(summary, checked.operands, operands)),
            results=tuple(summary(f"result {i}", value) for i, value in enumerate(results)),
            position=tuple(int(index) for index in np.unravel_index(flat, wrong.shape)),
            around=tuple(float(value) for value in near),
        )


def summary(name: str, value: NDArray[Any]) -> ValueSummary:
    """Returns the range and the histogram of a tensor's finite values, and how many others it
    has."""
    finite = value[np.isfinite(value)]
    _, exponents = np.frexp(np.abs(finite[finite != 0]).astype(np.float64))
    counted = zip(*np.unique(exponents - 1, return_counts=True), strict=True)
    return ValueSummary(
        name=name,
        dtype=value.dtype.name,
        shape=tuple(value.shape),
        low=float(finite.min()) if finite.size else None,
        high=float(finite.max()) if finite.size else None,
        nans=int(np.isnan(value).sum()),
        infinities=int(np.isinf(value).sum()),
        zeros=int((finite == 0).sum()),
        exponents=tuple((int(exponent), int(count)) for exponent, count in counted),
    )


def _fault(
    checked: CheckedOp, operands: Sequence[NDArray[Any]], results: Sequence[NDArray[Any]]
) -> Fault | None:
    """Returns what made results that are not finite; None if the operands explain them."""
    by_zero = checked.divisor is not None and bool((operands[checked.divisor] == 0).any())
    if any(np.isnan(value).any() for value in operands):
        return None
    if any(np.isnan(value).any() for value in results):
        return "invalid operation"
    if any(np.isinf(value).any() for value in operands):
        return None
    return "division by zero" if by_zero else "overflow"


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
        sources = {_node_of(read) for read in node.input} & nodes.keys()
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


def _node_of(read: str) -> str:
    return read.removeprefix("^").partition(":")[0]


def _run_after(node: Any, name: str) -> None:
    if name and f"^{name}" not in node.input:
        node.input.append(f"^{name}")


def _short(name: str) -> str:
    """Returns the name of a tensor without the parts that say nothing."""
    node, _, rest = name.partition(":")
    number = rest.rpartition(":")[2]
    return node if number in ("", "0") else f"{node}:{number}"
