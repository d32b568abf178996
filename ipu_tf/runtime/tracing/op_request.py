"""An op that is about to be created in a graph."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf

from ipu_tf.internals.tensorflow import FuncGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class OpRequest:
    """An op that is about to be created.

    Attributes:
        graph: The graph that gets it.
        op_type: Its type.
        inputs: Its inputs.
        attrs: Its attributes, as `AttrValue`s.
        name: Its name with its scopes.
    """

    graph: FuncGraph
    op_type: str
    inputs: Sequence[tf.Tensor]
    attrs: Mapping[str, tf.compat.v1.AttrValue]
    name: str

    def with_changes(
        self,
        op_type: str | None = None,
        *,
        inputs: Sequence[tf.Tensor] | None = None,
        attrs: Mapping[str, tf.compat.v1.AttrValue] | None = None,
    ) -> OpRequest:
        """Returns the request with another type, other inputs or attributes.

        Args:
            op_type: The type; None keeps it.
            inputs: The inputs; None keeps them.
            attrs: The attributes; None keeps them.
        """
        return dataclasses.replace(
            self,
            op_type=self.op_type if op_type is None else op_type,
            inputs=self.inputs if inputs is None else inputs,
            attrs=self.attrs if attrs is None else attrs,
        )
