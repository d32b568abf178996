"""Builders of the stock ops that a joined op stands for: as NodeDefs, or as ops of a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

import tensorflow as tf
from numpy.typing import ArrayLike

from ipu_tf.internals.tensorflow import NodeDef, op_def_registry

_RENAMED: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("ExpandDims", "dim"): "axis",
        ("Mean", "reduction_indices"): "axis",
        ("Split", "split_dim"): "axis",
        ("Sum", "reduction_indices"): "axis",
    }
)
"""Inputs of ops, which `tf.raw_ops` calls otherwise."""


class Chain:
    """Builds the stock ops that a joined op stands for.

    Args:
        node: NodeDef of the joined op, in a FunctionDef.

    Attributes:
        nodes: The created NodeDefs, each after those it reads.
        inputs: The inputs of the joined op, in their order.
    """

    def __init__(self, node: NodeDef) -> None:
        self._node = node
        self._controls = [name for name in node.input if name.startswith("^")]
        self.nodes: list[NodeDef] = []
        self.inputs: tuple[str, ...] = tuple(n for n in node.input if not n.startswith("^"))

    def attribute(self, name: str) -> tf.compat.v1.AttrValue:
        """Returns the AttrValue of an attribute of the joined op."""
        return self._node.attr[name]

    def add(self, op_type: str, *inputs: str, **values: tf.DType | bool | int) -> str:
        """Adds an op; returns the name of its first output in a FunctionDef.

        Attributes that both ops have are the joined op's; all others are defaults.

        Args:
            op_type: Its type.
            inputs: Its inputs.
            values: Attributes that the joined op does not have.
        """
        node = self._new(op_type)
        node.input.extend([*inputs, *self._controls])
        definition = op_def_registry.get(op_type)
        for attribute in definition.attr:
            value = values.get(attribute.name)
            if isinstance(value, bool):
                node.attr[attribute.name].b = value
            elif isinstance(value, int):
                node.attr[attribute.name].i = value
            elif value is not None:
                node.attr[attribute.name].type = value.as_datatype_enum
            elif attribute.name in self._node.attr:
                node.attr[attribute.name].CopyFrom(self._node.attr[attribute.name])
            else:
                node.attr[attribute.name].CopyFrom(attribute.default_value)
        return f"{node.name}:{definition.output_arg[0].name}:0"

    def parts(self, op_type: str, count: int, *inputs: str, **values: int) -> list[str]:
        """Adds an op of `count` outputs, all of one list; returns their names."""
        first = self.add(op_type, *inputs, **values).removesuffix("0")
        return [f"{first}{index}" for index in range(count)]

    def constant(self, value: ArrayLike, dtype: tf.DType) -> str:
        """Adds a constant; returns its name in a FunctionDef."""
        node = self._new("Const")
        node.attr["dtype"].type = dtype.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype))
        return f"{node.name}:output:0"

    def _new(self, op_type: str) -> NodeDef:
        # Beside the joined op, not below it: the scope names the layer of the op.
        node = NodeDef(name=f"{self._node.name}_{len(self.nodes)}_{op_type}", op=op_type)
        self.nodes.append(node)
        return node


Expand = Callable[[Chain], Sequence[str]]
"""Adds the ops that a joined op stands for; returns their names for its outputs."""


class TracedChain:
    """Creates these ops in the present graph, or runs them: as `Chain`, with tensors for names.

    Args:
        op: The joined op.
        inputs: Tensors in the place of its inputs.
    """

    def __init__(self, op: tf.Operation, inputs: Sequence[tf.Tensor]) -> None:
        self._op = op
        self.inputs = tuple(inputs)

    def run(self, expand: Expand) -> list[tf.Tensor]:
        """Returns tensors in the place of the op's outputs."""
        return list(cast(Callable[[TracedChain], Sequence[tf.Tensor]], expand)(self))

    def attribute(self, name: str) -> tf.compat.v1.AttrValue:
        """As `Chain.attribute`."""
        value = self._op.get_attr(name)
        if hasattr(value, "dim"):
            return tf.compat.v1.AttrValue(shape=value)
        return tf.compat.v1.AttrValue(**{"b" if isinstance(value, bool) else "i": value})

    def add(self, op_type: str, *inputs: tf.Tensor, **values: tf.DType | bool | int) -> tf.Tensor:
        """As `Chain.add`, with the joined op's attributes; types are those of inputs."""
        output: tf.Tensor = self._outputs(op_type, inputs, values)
        return output

    def parts(self, op_type: str, count: int, *inputs: tf.Tensor, **values: int) -> list[tf.Tensor]:
        """As `Chain.parts`."""
        del count
        return list(self._outputs(op_type, inputs, values))

    def _outputs(
        self,
        op_type: str,
        inputs: Sequence[tf.Tensor],
        values: Mapping[str, tf.DType | bool | int],
    ) -> Any:
        """Returns the output of an op, or a list of its outputs."""
        definition = op_def_registry.get(op_type)
        attributes = {name: one for name, one in values.items() if not isinstance(one, tf.DType)}
        shared = {attribute.name for attribute in op_def_registry.get(self._op.type).attr}
        for attribute in definition.attr:
            if attribute.name in shared - values.keys() and attribute.type != "type":
                value = self._op.get_attr(attribute.name)
                attributes[attribute.name] = value.decode() if isinstance(value, bytes) else value
        operands, places = list(inputs), {}
        for argument in definition.input_arg:
            name = _RENAMED.get((op_type, argument.name), argument.name)
            if argument.number_attr:
                count = int(attributes.pop(argument.number_attr))
                places[name] = [operands.pop(0) for _ in range(count)]
            else:
                places[name] = operands.pop(0)
        return getattr(tf.raw_ops, op_type)(**places, **attributes)

    def constant(self, value: ArrayLike, dtype: tf.DType) -> tf.Tensor:
        """As `Chain.constant`."""
        return tf.constant(value, dtype)
