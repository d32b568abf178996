"""Where the values that operations read come from: through moves, calls, loops and variables."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ipu_tf.internals.tensorflow import FunctionDef, NodeDef
from ipu_tf.runtime.tracing.call_ops import CALLS, LOOPS, functions_of

Place: TypeAlias = tuple[str, str]
"""The name of a function, and that of a tensor in its FunctionDef."""

ASSIGNMENT = "AssignVariableOp"
_READ = "ReadVariableOp"


@dataclass(slots=True, kw_only=True, eq=False)
class _Function:
    """What is known of a function.

    Attributes:
        nodes: Its nodes by name.
        checks: The numbers of those that are checked.
        arguments: The position of each argument.
        results: The tensors that it returns.
        calls: The functions and nodes that call it.
    """

    nodes: dict[str, Any]
    checks: Mapping[str, int]
    arguments: dict[str, int]
    results: list[str]
    calls: list[tuple[str, Any]] = field(default_factory=list)


class ValueFlow:
    """Knows which checked operations the values of a tensor may come from."""

    def __init__(self) -> None:
        self._functions: dict[str, _Function] = {}
        self._calls: list[tuple[str, Any]] = []
        self._writers: list[tuple[str, Any, int]] = []
        self._numbers: dict[Place, frozenset[int]] = {}
        self._roots: dict[Place, frozenset[Place]] = {}

    def add(self, definition: FunctionDef, checks: Mapping[str, int]) -> None:
        """Adds a function; its checked nodes have numbers."""
        name = definition.signature.name
        self._functions[name] = _Function(
            nodes={node.name: node for node in definition.node_def},
            checks=checks,
            arguments={arg.name: i for i, arg in enumerate(definition.signature.input_arg)},
            results=[definition.ret[arg.name] for arg in definition.signature.output_arg],
        )
        for node in definition.node_def:
            if node.op in CALLS:
                self._calls.append((name, node))

    def note_writer(self, function: str, node: NodeDef, resource: int) -> None:
        """Notes a node that changes the variable that is its input of a number."""
        self._writers.append((function, node, resource))

    def finish(self) -> None:
        """Connects the calls: all functions have been added, and the nodes name the added ones."""
        for caller, node in self._calls:
            for callee in self._callees(node):
                self._functions[callee].calls.append((caller, node))

    def readers(self, function: str) -> Callable[[str], Iterable[str]]:
        """Returns a function from a node of a function to the nodes that read it."""
        readers: dict[str, list[str]] = {}
        for name, node in self._functions[function].nodes.items():
            for operand in inputs_of(node):
                readers.setdefault(node_of(operand), []).append(name)
        return lambda name: readers.get(name, ())

    def read_by(self, function: str) -> Callable[[str], Iterable[str]]:
        """Returns a function from a node of a function to the nodes that it reads."""
        nodes = self._functions[function].nodes
        return lambda name: map(node_of, inputs_of(nodes[name]) if name in nodes else ())

    def results(self, function: str) -> list[Place]:
        """Returns the tensors that a function returns."""
        return [(function, name) for name in self._functions[function].results]

    def sources(self, tensors: Iterable[Place]) -> frozenset[int]:
        """Returns the numbers of the checked operations that values of tensors may come from."""
        return frozenset().union(*(self._sources(tensor) for tensor in tensors))

    def writers(self, variable: Place) -> frozenset[int]:
        """Returns the numbers of the operations whose results may be in a changed variable."""
        return self._sources(variable, of_variable=True)

    def _sources(self, tensor: Place, *, of_variable: bool = False) -> frozenset[int]:
        if tensor in self._numbers and not of_variable:
            return self._numbers[tensor]
        numbers: set[int] = set()
        worklist = list(self._assignments(tensor, numbers)) if of_variable else [tensor]
        places = set(worklist)
        while worklist:
            for one in self._before(worklist.pop(), numbers):
                if one not in places:
                    places.add(one)
                    worklist.append(one)
        if not of_variable:
            self._numbers[tensor] = frozenset(numbers)
        return frozenset(numbers)

    def _before(self, tensor: Place, numbers: set[int]) -> Iterator[Place]:
        """Yields the tensors that one takes its values from; adds a check that makes them."""
        name, operand = tensor
        function = self._functions[name]
        node = function.nodes.get(node_of(operand))
        if node is None:
            yield from self._arguments(tensor)
        elif node.name in function.checks:
            numbers.add(function.checks[node.name])
        elif node.op == _READ:
            yield from self._assignments((name, node.input[0]), numbers)
        elif node.op in CALLS:
            yield from self._results(tensor, node)
        else:
            yield from ((name, one) for one in inputs_of(node))

    def _arguments(self, argument: Place) -> Iterator[Place]:
        """Yields what an argument of a function may be."""
        name, parameter = argument
        function = self._functions[name]
        position = function.arguments.get(parameter)
        if position is None:
            return
        for caller, node in function.calls:
            inputs = inputs_of(node)[CALLS[node.op] :]
            if position < len(inputs):
                yield caller, inputs[position]
            if node.op in LOOPS:
                body = node.attr["body"].func.name
                yield body, self._functions[body].results[position]

    def _results(self, result: Place, node: Any) -> Iterator[Place]:
        """Yields what a result of a call may be."""
        number = int(result[1].rpartition(":")[2])
        if node.op in LOOPS:
            yield result[0], inputs_of(node)[number]
        for callee in self._callees(node):
            results = self._functions[callee].results
            if number < len(results):  # Not the condition of a loop.
                yield callee, results[number]

    def _assignments(self, variable: Place, numbers: set[int]) -> Iterator[Place]:
        """Yields what was assigned to a variable; adds the checks of its updates."""
        roots = self._roots_of(variable)
        for name, node, position in self._writers:
            if roots.isdisjoint(self._roots_of((name, inputs_of(node)[position]))):
                continue
            number = self._functions[name].checks.get(node.name)
            if number is not None:
                numbers.add(number)
            else:
                yield from ((name, one) for one in inputs_of(node)[position + 1 :])

    def _roots_of(self, resource: Place) -> frozenset[Place]:
        """Returns the arguments of the outermost function that a handle may be."""
        if resource not in self._roots:
            roots, worklist, places = set(), [resource], {resource}
            while worklist:
                tensor = worklist.pop()
                before = list(self._before(tensor, set()))
                if not before:
                    roots.add(tensor)
                worklist += [one for one in before if one not in places]
                places.update(before)
            self._roots[resource] = frozenset(roots)
        return self._roots[resource]

    def _callees(self, node: Any) -> list[str]:
        names = [f.name for v in node.attr.values() for f in functions_of(v)]
        return [name for name in names if name in self._functions]


def inputs_of(node: NodeDef) -> list[str]:
    """Returns the tensors that a node of a FunctionDef reads."""
    return [operand for operand in node.input if not operand.startswith("^")]


def node_of(operand: str) -> str:
    """Returns the node that an input of another one names."""
    return operand.removeprefix("^").partition(":")[0]
