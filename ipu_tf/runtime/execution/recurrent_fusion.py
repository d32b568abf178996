"""Fuses the loops of recurrent layers: that of an LSTM or GRU of Keras, and that of its gradient.

TensorFlow runs such a loop op by op, some fifty for each step and more for its gradient. Fused, the
products of the inputs of all steps are one product, the states are computed step by step in one op,
and the gradients of the weights are products over all steps. A loop is known by the arithmetic of
its body; the gradient is the one that TensorFlow derives from it. Where anything else reads what
happens in the loop, it stays as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import tensorflow as tf

from ipu_tf.internals.graphs import graph_before_gradient, has_effects, loop_body, loop_condition
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.runtime.execution.fusion_graph import FusionGraph
from ipu_tf.runtime.execution.op_patterns import Bindings, Pattern, find, without_identities

_COUNTER, _LIMIT, _TIME, _OUTPUTS, _H, _C = range(6)
"""The values that such a loop hands on; a GRU has no `c`. What it captures follows."""

_LONGEST_SUM = 1024
"""Products of more terms are summed in the parts of their plans, one after the other."""

_READS = frozenset({"ReadVariableOp", "VariableShape"})


def _columns(index: int, count: int, source: Pattern) -> Pattern:
    return ("columns", index, count, source)


def _lstm() -> tuple[Pattern, ...]:
    products = (
        "AddV2",
        ("IpuMatMul", "x", "kernel"),
        ("IpuMatMul", "h", "recurrent"),
    )
    sums = ("Bias", products, "bias")
    i, f, o = (("Sigmoid", _columns(gate, 4, sums)) for gate in (0, 1, 3))
    g = ("Tanh", _columns(2, 4, sums))
    c = ("AddV2", ("Mul", f, "c"), ("Mul", i, g))
    return ("Mul", o, ("Tanh", c)), c


def _gru() -> tuple[Pattern, ...]:
    of_inputs, of_state = (("row", row, 2, "bias") for row in (0, 1))
    outer = ("Bias", ("IpuMatMul", "x", "kernel"), of_inputs)
    inner = ("Bias", ("IpuMatMul", "h", "recurrent"), of_state)
    z, r = (
        ("Sigmoid", ("AddV2", _columns(gate, 3, outer), _columns(gate, 3, inner)))
        for gate in (0, 1)
    )
    new = ("Tanh", ("AddV2", _columns(2, 3, outer), ("Mul", r, _columns(2, 3, inner))))
    return (("AddV2", ("Mul", z, "h"), ("Mul", ("Sub", 1.0, z), new)),)


class _Cell(NamedTuple):
    """A kind of loop.

    Attributes:
        op_type: The fused op; that of its gradient ends in "Grad".
        states: The patterns of the states after a step.
    """

    op_type: str
    states: tuple[Pattern, ...]


_CELLS = (_Cell("IpuLstm", _lstm()), _Cell("IpuGru", _gru()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Loop:
    """A loop that can be fused.

    Attributes:
        op: The loop.
        cell: Its kind.
        x: The inputs of all steps, of shape [steps, batch, features].
        weights: Kernel, recurrent kernel and bias, around the loop.
        captures: The numbers of the loop's inputs that these come from, `x` first.
        last_only: Whether it keeps the output of the last step alone.
    """

    op: tf.Operation
    cell: _Cell
    x: tf.Tensor
    weights: tuple[tf.Tensor, ...]
    captures: tuple[int, ...]
    last_only: bool

    @property
    def initial(self) -> list[tf.Tensor]:
        """The states before the first step."""
        return [self.op.inputs[_H + index] for index in range(len(self.cell.states))]

    @property
    def attributes(self) -> dict[str, tf.compat.v1.AttrValue]:
        """The attributes of the fused ops."""
        return {
            "steps": tf.compat.v1.AttrValue(i=self.x.shape[0]),
            "last_only": tf.compat.v1.AttrValue(b=self.last_only),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gradient:
    """The gradient of a loop.

    Attributes:
        op: Its loop.
        places: The places of its values, by the numbers of the values of the loop before it.
    """

    op: tf.Operation
    places: Mapping[int, int]

    def of(self, number: int) -> tf.Tensor:
        """Returns the gradient that enters the loop for a value."""
        return self.op.inputs[self.places[number]]


def fuse_loop(graph: FusionGraph, op: tf.Operation) -> None:
    """Fuses a loop of a recurrent layer, and the loops of its gradient.

    Args:
        graph: The graph.
        op: A loop.
    """
    loop = _cell_loop(graph, op)
    if loop is None:
        return
    gradients = _gradients(graph, loop)
    if gradients is None:
        return
    inputs = [loop.x, *loop.initial, *loop.weights]
    fused_op = graph.create(loop.cell.op_type, op, inputs, **loop.attributes)
    count = len(loop.cell.states)
    stacks = [use.op.outputs[0] for use in graph.uses(op.outputs[_OUTPUTS]) if _stacks(use.op)]
    graph.mark_inner(fused_op.outputs)
    for gradient in gradients:
        _fuse_gradient(graph, loop, gradient, fused_op.outputs)
    for stack in stacks:
        graph.replace(stack, fused_op.outputs[0])
    for index in range(count):
        graph.replace(op.outputs[_H + index], fused_op.outputs[1 + index])
    # It has effects for TensorFlow, as it reads variables, so it runs: it need not iterate.
    with op.graph.as_default():
        graph.bypass(op, _TIME, tf.constant(loop.x.shape[0]))


def _fuse_gradient(
    graph: FusionGraph, loop: _Loop, gradient: _Gradient, states: Sequence[tf.Tensor]
) -> None:
    count = len(loop.cell.states)
    of_outputs = gradient.of(_OUTPUTS)
    if of_outputs.op.type == "ZerosLike":
        with of_outputs.graph.as_default():
            d_outputs = tf.zeros([1 if loop.last_only else loop.x.shape[0], *states[1].shape])
    else:
        d_outputs = of_outputs.op.inputs[0]
    d_last = [gradient.of(_H + index) for index in range(count)]
    inputs = [loop.x, *loop.weights[:2], *states[1 + count :], d_outputs, *d_last]
    fused_op = graph.create(f"{loop.cell.op_type}Grad", gradient.op, inputs, **loop.attributes)
    graph.mark_inner(fused_op.outputs)
    numbers = [loop.captures[0], *range(_H, _H + count), *loop.captures[1:]]
    for number, result in zip(numbers, fused_op.outputs, strict=True):
        if number not in gradient.places:
            continue
        for identity in graph.uses(gradient.op.outputs[gradient.places[number]]):
            value = identity.op.outputs[0]
            if number == loop.captures[0]:
                for use in list(graph.uses(value)):
                    graph.replace(use.op.outputs[0], result)
            else:
                graph.replace(value, result)


def _cell_loop(graph: FusionGraph, op: tf.Operation) -> _Loop | None:
    """Returns the parts of a loop if it is that of a known cell, in float32."""
    body, condition = loop_body(op), loop_condition(op)
    if body is None or condition is None or not _has_layout(body):
        return None
    time = body.inputs[_TIME]
    counts = find(body.outputs[_TIME], ("AddV2", "time", 1.0), {"time": time})
    if counts is None or any(
        has_effects(each) and each.type != "ReadVariableOp" for each in body.get_operations()
    ):
        return None
    write = without_identities(body.outputs[_OUTPUTS]).op
    for cell in _CELLS:
        bindings: Bindings | None = {"h": body.inputs[_H], "c": body.inputs[_C]}
        for index, state in enumerate(cell.states):
            bindings = None if bindings is None else find(body.outputs[_H + index], state, bindings)
        if bindings is None or write.type != "TensorListSetItem":
            continue
        wrote = without_identities(write.inputs[2]) is without_identities(body.outputs[_H])
        if not wrote or write.inputs[0] is not body.inputs[_OUTPUTS]:
            continue
        last_only = write.inputs[1] is not time
        if last_only and tf.get_static_value(write.inputs[1]) != 0:
            continue
        return _with_operands(graph, op, cell, bindings, last_only=last_only)
    return None


def _with_operands(
    graph: FusionGraph, op: tf.Operation, cell: _Cell, bindings: Bindings, *, last_only: bool
) -> _Loop | None:
    body = loop_body(op)
    read = bindings["x"].op
    if body is None or read.type != "TensorListGetItem" or read.inputs[1] is not body.inputs[_TIME]:
        return None
    sources = [read.inputs[0], *(_variable_or_value(bindings[name]) for name in _WEIGHTS)]
    numbers = {id(value): number for number, value in enumerate(body.inputs)}
    captures = tuple(numbers.get(id(source), -1) for source in sources)
    if any(number < _H + len(cell.states) for number in captures) or len(set(captures)) != 4:
        return None
    steps = op.inputs[captures[0]].op
    weights = [_around(graph, op, op.inputs[number]) for number in captures[1:]]
    if steps.type != "TensorListFromTensor" or None in weights:
        return None
    loop = _Loop(
        op=op,
        cell=cell,
        x=steps.inputs[0],
        weights=tuple(weights),
        captures=captures,
        last_only=last_only,
    )
    is_plain = not any(
        each.get_attr("transpose_a") or each.get_attr("transpose_b")
        for each in body.get_operations()
        if each.type == "IpuMatMul"
    )
    return loop if is_plain and _has_shapes(loop) and _runs_all_steps(loop) else None


_WEIGHTS = ("kernel", "recurrent", "bias")


def _has_layout(body: FuncGraph) -> bool:
    """Returns whether a body has the values of a recurrent layer: a time, outputs, states."""
    dtypes = [value.dtype for value in body.inputs[:_C]]
    layout = [tf.int32, tf.int32, tf.int32, tf.variant, tf.float32]
    return dtypes == layout and len(body.inputs) > _C


def _has_shapes(loop: _Loop) -> bool:
    """Returns whether all shapes are known and fit, and sums are of one chain."""
    shapes = [value.shape for value in (loop.x, *loop.initial, *loop.weights)]
    floats = all(value.dtype == tf.float32 for value in (loop.x, *loop.initial, *loop.weights))
    if (
        not floats
        or not all(shape.is_fully_defined() for shape in shapes)
        or loop.x.shape.rank != 3
    ):
        return False
    (_, batch, features), kernel = loop.x.shape.as_list(), loop.weights[0].shape.as_list()
    units, columns = loop.weights[1].shape.as_list()
    gates = 4 if len(loop.cell.states) == 2 else 3
    biases = [columns] if gates == 4 else [2, columns]
    return (
        columns == gates * units
        and kernel == [features, columns]
        and loop.weights[2].shape.as_list() == biases
        and all(shape.as_list() == [batch, units] for shape in shapes[1 : 1 + len(loop.initial)])
        and 0 < max(features, columns) <= _LONGEST_SUM
        and loop.x.shape.num_elements() > 0
    )


def _runs_all_steps(loop: _Loop) -> bool:
    """Returns whether a loop takes as many steps as its inputs have."""
    condition, steps = loop_condition(loop.op), loop.x.shape[0]
    if condition is None:
        return False
    names = dict(zip(("counter", "limit", "time"), condition.inputs, strict=False))
    goes_on: Pattern = ("Less", "time", "steps")
    bindings = find(condition.outputs[0], goes_on, names)  # Keras 2 sets no limit.
    if bindings is None:
        within = ("LogicalAnd", ("Less", "counter", "limit"), goes_on)
        bindings = find(condition.outputs[0], within, names)
        limit = loop.op.inputs[_LIMIT]
        limit = limit.op.inputs[0] if limit.op.type == "Max" else limit
        if tf.get_static_value(limit) != steps:
            return False
    return (
        bindings is not None
        and _around_condition(loop.op, bindings["steps"]) == steps
        and all(tf.get_static_value(loop.op.inputs[number]) == 0 for number in (_COUNTER, _TIME))
    )


def _around_condition(loop: tf.Operation, tensor: tf.Tensor) -> int | None:
    """Returns the number that a scalar of a loop's condition is, None if that is not known."""
    condition = loop_condition(loop)
    for value, around in zip(condition.inputs if condition else (), loop.inputs, strict=False):
        if value is tensor:
            tensor = around
    if tensor.op.type == "StridedSlice" and tensor.shape.rank == 0:  # One of the sizes of a shape.
        source, begin = (tf.get_static_value(value) for value in tensor.op.inputs[:2])
        is_element = source is not None and begin is not None and len(begin) == 1
        return int(source[begin[0]]) if is_element else None
    number = tf.get_static_value(tensor)
    return None if number is None else int(number)


def _variable_or_value(tensor: tf.Tensor) -> tf.Tensor:
    """Returns the handle of a variable that is read, a value that is not read from one."""
    return tensor.op.inputs[0] if tensor.op.type == "ReadVariableOp" else tensor


def _around(graph: FusionGraph, loop: tf.Operation, value: tf.Tensor) -> tf.Tensor | None:
    """Returns a value around a loop, of a variable if it was read before and not changed since."""
    if value.dtype != tf.resource:
        return value
    read = None
    for op in graph.operations_before(loop):
        if not any(operand is value for operand in op.inputs):
            continue
        if op.type == "ReadVariableOp":
            read = op.outputs[0]
        elif op.type not in _READS:
            read = None
    return read


def _gradients(graph: FusionGraph, loop: _Loop) -> list[_Gradient] | None:
    """Returns the gradients of a loop, None if anything else reads values of its steps."""
    loops: dict[str, tf.Operation] = {}
    states = range(_H, _H + len(loop.cell.states))
    for number, output in enumerate(loop.op.outputs):
        if graph.is_output(output) and number not in states:
            return None
        for use in graph.uses(output):
            body = loop_body(use.op)
            if body is not None and graph_before_gradient(body) is loop_body(loop.op):
                loops[use.op.name] = use.op
            elif not (
                number in states
                or (number == _OUTPUTS and _stacks(use.op))
                or use.op.type in {"ZerosLike", "VariableShape"}
            ):
                return None
    gradients = [_gradient(graph, loop, op) for op in loops.values()]
    complete = [gradient for gradient in gradients if gradient is not None]
    return complete if len(complete) == len(gradients) else None


def _gradient(graph: FusionGraph, loop: _Loop, op: tf.Operation) -> _Gradient | None:
    """Returns a gradient's places, None if they are not sure or if anything else is read of it."""
    body, before = loop_body(op), loop_body(loop.op)
    if body is None or before is None or op.type != "StatelessWhile":
        return None
    places = _places(loop, body, before)
    if places is None:
        return None
    gradient = _Gradient(op=op, places=places)
    if gradient.of(_OUTPUTS).op.type not in {"TensorListFromTensor", "ZerosLike"}:
        return None
    if loop.captures[0] in places and gradient.of(loop.captures[0]).op.type != "ZerosLike":
        return None
    numbers = {place: number for number, place in places.items()}
    for place, output in enumerate(op.outputs):
        number = numbers.get(place)
        for use in graph.uses(output):
            value = use.op.outputs[0] if use.op.type == "Identity" else None
            if value is None or (number in {None, _OUTPUTS} and graph.uses(value)):
                return None
            stacks = (_stacks(reader.op) for reader in graph.uses(value))
            if number == loop.captures[0] and not all(stacks):
                return None
    return gradient


def _places(loop: _Loop, body: FuncGraph, before: FuncGraph) -> dict[int, int] | None:
    """Returns where a gradient's body has the gradient of each value of the loop.

    They are in the order of the values, but gradients of captured values that nothing asked for
    are left out. None if types and shapes do not tell which.
    """
    first, count = 3, len(body.inputs) - 3 - len(body.internal_captures)
    states = range(_OUTPUTS, _H + len(loop.cell.states))
    captured = [
        number
        for number in range(states.stop, len(before.inputs))
        if before.outputs[number] is before.inputs[number]
        and before.inputs[number].dtype in {tf.resource, tf.variant, tf.float32}
    ]
    shapes = dict(zip(loop.captures[1:], (weight.shape for weight in loop.weights), strict=True))
    if count < len(states):
        return None
    fitting = []
    for some in itertools.combinations(captured, count - len(states)):
        pairs = zip(some, body.outputs[first + len(states) : first + count], strict=True)
        if all(
            value.dtype == tf.variant
            if number == loop.captures[0]
            else number in shapes and value.shape == shapes[number]
            for number, value in pairs
        ):
            fitting.append(some)
    if len(fitting) != 1:
        return None
    return {number: first + at for at, number in enumerate([*states, *fitting[0]])}


def _stacks(op: tf.Operation) -> bool:
    return op.type == "TensorListStack"
