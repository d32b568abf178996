"""A graph during fusion: the readers of tensors, and the replaced tensors."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf.internals.graphs import create_op, has_effects, replace_input
from ipu_tf.internals.tensorflow import FuncGraph
from ipu_tf.ops.kernels import joined_ops


@dataclass(frozen=True, slots=True)
class TensorUse:
    """One input of an op that reads a tensor."""

    op: tf.Operation
    index: int


class FusionGraph:
    """The readers of a graph's tensors, and the tensors that were replaced.

    Args:
        graph: The graph, after a trace.
        outputs: The tensors that leave it.
    """

    def __init__(self, graph: FuncGraph, outputs: Sequence[tf.Tensor]) -> None:
        self._graph = graph
        self._outputs = {id(value) for value in outputs}
        self._replacements: dict[int, tf.Tensor] = {}
        self._uses: dict[int, list[TensorUse]] = collections.defaultdict(list)
        self._places: dict[int, int] = {}
        for place, op in enumerate(graph.get_operations()):
            self._note(op)
            self._places.update((id(tensor), place) for tensor in op.outputs)

    def uses(self, tensor: tf.Tensor) -> list[TensorUse]:
        """Returns the uses of a tensor."""
        return self._uses[id(tensor)]

    def only_use(self, tensor: tf.Tensor) -> TensorUse | None:
        """Returns a tensor's only use, None if it has several or leaves the graph."""
        uses = self.uses(tensor)
        return uses[0] if len(uses) == 1 and id(tensor) not in self._outputs else None

    def only_reader(self, tensor: tf.Tensor, op_type: str) -> tf.Operation | None:
        """Returns the op of a type that alone reads a tensor, as its first input, if it does."""
        use = self.only_use(tensor)
        if use is None or use.op.type != op_type or use.index != 0:
            return None
        return use.op

    def through_relu(self, tensor: tf.Tensor) -> tuple[tf.Tensor, bool]:
        """Returns the ReLU that alone reads a tensor, else the tensor; and whether there is one."""
        relu = self.only_reader(tensor, "Relu")
        return (tensor, False) if relu is None else (relu.outputs[0], True)

    def bias_add(self, tensor: tf.Tensor) -> tf.Operation | None:
        """Returns the op that adds a bias of float32 to the last dimension, if it alone reads."""
        op = self.only_reader(tensor, "BiasAdd")
        if op is None or op.get_attr("data_format") != b"NHWC" or tensor.dtype != tf.float32:
            return None
        return op

    def sum_with_another(
        self, tensor: tf.Tensor, op_type: str
    ) -> tuple[tf.Tensor, tf.Tensor] | None:
        """Returns the sum of a tensor and another, and that one; None if there is no such sum.

        Args:
            tensor: A tensor that only the sum reads; the other one has its shape.
            op_type: What adds: AddN or AddV2.
        """
        use = self.only_use(tensor)
        if use is None or use.op.type != op_type or len(use.op.inputs) != 2:
            return None
        other = use.op.inputs[1 - use.index]
        return (use.op.outputs[0], other) if other.shape == tensor.shape else None

    def results_of(self, tensor: tf.Tensor, op_type: str) -> list[tf.Tensor]:
        """Returns the first results of the ops of a type that read a tensor."""
        ops = {use.op.name: use.op for use in self.uses(tensor) if use.op.type == op_type}
        return [op.outputs[0] for op in ops.values()]

    def is_closed(self, inputs: Sequence[tf.Tensor], results: Sequence[tf.Tensor]) -> bool:
        """Returns whether nothing else reads what is computed on the way to results.

        Args:
            inputs: Tensors at which the way begins, beside constants and integers.
            results: Tensors at which it ends.
        """
        ends = {id(tensor) for tensor in (*inputs, *results)}
        pieces: dict[str, tf.Operation] = {}
        worklist = [tensor.op for tensor in results]
        while worklist:
            op = worklist.pop()
            if op.name not in pieces and op.type != "Const":
                pieces[op.name] = op
                floats = (tensor for tensor in op.inputs if tensor.dtype.is_floating)
                worklist += [tensor.op for tensor in floats if id(tensor) not in ends]
        inner = (tensor for op in pieces.values() for tensor in op.outputs)
        return not any(
            self.is_output(tensor)
            or any(
                use.op.name not in pieces and self.is_needed(use.op) for use in self.uses(tensor)
            )
            for tensor in inner
            if id(tensor) not in ends
        )

    def is_before(self, tensor: tf.Tensor, later_tensors: Sequence[tf.Tensor | None]) -> bool:
        """Returns whether a tensor was traced before others, so that it does not depend on them.

        A joined op takes the place of the tensors that it replaces. If all that it reads is before
        all that it computes, joined ops never wait for each other.
        """
        return all(
            self._place(tensor) < self._place(each) for each in later_tensors if each is not None
        )

    def replace(self, tensor: tf.Tensor, by: tf.Tensor) -> None:
        """Makes all readers of `tensor` read `by`, an output of a joined op."""
        joined_ops.note_replaced(tensor, by)
        self.redirect(tensor, by)

    def redirect(self, tensor: tf.Tensor, by: tf.Tensor) -> None:
        """Makes all readers of `tensor` read `by`, which has the same value."""
        uses = self._uses.pop(id(tensor), [])
        for use in uses:
            replace_input(use.op, use.index, by)
        self._uses[id(by)] += uses
        if id(tensor) in self._outputs:
            self._outputs.add(id(by))
        self._replacements[id(tensor)] = by
        self._places[id(by)] = self._place(tensor)

    def is_replaced(self, tensor: tf.Tensor) -> bool:
        """Returns whether a tensor has no readers since it was replaced."""
        return id(tensor) in self._replacements

    def is_output(self, tensor: tf.Tensor) -> bool:
        """Returns whether a tensor leaves the graph."""
        return id(tensor) in self._outputs

    def runs_before(self, op: tf.Operation, other: tf.Operation) -> bool:
        """Returns whether an op was traced before another, and outputs or effects need it."""
        return self._place(op.outputs[0]) < self._place(other.outputs[0]) and self.is_needed(op)

    def is_needed(self, op: tf.Operation) -> bool:
        """Returns whether an op has effects, or something that has, or an output, depends on it."""
        worklist, names = [op], {op.name}
        while worklist:
            op = worklist.pop()
            if not op.outputs or has_effects(op) or any(map(self.is_output, op.outputs)):
                return True
            readers = [use.op for tensor in op.outputs for use in self.uses(tensor)]
            worklist += [reader for reader in readers if reader.name not in names]
            names.update(reader.name for reader in readers)
        return False

    def operations(self) -> list[tf.Operation]:
        """Returns all ops, in the order in which they were created."""
        return list(self._graph.get_operations())

    def left(self, op_type: str) -> Iterator[tf.Operation]:
        """Yields the ops of a type that are needed, and whose result no joined op has replaced."""
        for op in self.operations():
            if op.type == op_type and not self.is_replaced(op.outputs[0]) and self.is_needed(op):
                yield op

    def operations_before(self, op: tf.Operation) -> Iterator[tf.Operation]:
        """Yields the ops that were created before `op`."""
        return itertools.takewhile(lambda other: other is not op, self._graph.get_operations())

    def mark_inner(self, tensors: Sequence[tf.Tensor]) -> None:
        """Notes outputs of a joined op that stand for no tensor: only joined ops read them."""
        for tensor in tensors:
            joined_ops.note_replaced(None, tensor)

    def bypass(self, op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
        """Makes `op` read `tensor` when it runs; the compiler reads what it read before."""
        joined_ops.note_bypassed(op, index)
        use = TensorUse(op, index)
        self._uses[id(op.inputs[index])].remove(use)
        self._uses[id(tensor)].append(use)
        replace_input(op, index, tensor)

    def current(self, tensor: tf.Tensor) -> tf.Tensor:
        """Returns the replacement of a tensor, or the tensor itself."""
        while id(tensor) in self._replacements:
            tensor = self._replacements[id(tensor)]
        return tensor

    def create(
        self,
        op_type: str,
        like: tf.Operation,
        inputs: Sequence[tf.Tensor],
        **attributes: tf.compat.v1.AttrValue,
    ) -> tf.Operation:
        """Creates an op.

        Args:
            op_type: Its type.
            like: The op that it is named after.
            inputs: Its inputs.
            attributes: Its attributes, `tf.compat.v1.AttrValue`.
        """
        op = create_op(
            self._graph, op_type, list(inputs), name=f"{like.name}_fused", attrs=attributes
        )
        self._note(op)
        return op

    def constant(self, value: float, like: tf.Operation) -> tf.Tensor:
        """Creates a float32 scalar that only joined ops read.

        Args:
            value: Its value.
            like: The op that it is named after.
        """
        with self._graph.as_default(), tf.control_dependencies(None):
            tensor = tf.constant(value, name=f"{like.name}_factor")
        self.mark_inner([tensor])
        return tensor

    def fuse(
        self,
        tensors: Iterable[tf.Tensor | None],
        op_type: str,
        like: tf.Operation,
        inputs: Sequence[tf.Tensor],
        **attributes: tf.compat.v1.AttrValue,
    ) -> tf.Operation:
        """Replaces tensors by the outputs of an op, which it creates and returns.

        Args:
            tensors: The tensors, None for outputs that only joined ops read.
            op_type: The arguments of `create`.
            like: See there.
            inputs: See there.
            attributes: See there.
        """
        op = self.create(op_type, like, inputs, **attributes)
        for tensor, by in zip(tensors, op.outputs, strict=False):
            if tensor is None:
                self.mark_inner([by])
            else:
                self.replace(tensor, by)
        return op

    def _place(self, tensor: tf.Tensor) -> int:
        """Returns when a tensor was traced; what only joined ops read comes last."""
        return self._places.get(id(tensor), len(self._places))

    def _note(self, op: tf.Operation) -> None:
        for index, tensor in enumerate(op.inputs):
            self._uses[id(tensor)].append(TensorUse(op, index))


def attributes_of(op: tf.Operation) -> dict[str, tf.compat.v1.AttrValue]:
    """Returns the attributes of an op as `tf.compat.v1.AttrValue`."""
    attributes = op.node_def.attr
    return {key: attributes[key] for key in attributes}
