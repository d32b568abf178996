"""The IPU's normalizations for models of tf_keras, in the vendor's class hierarchy.

A layer normalization is a group normalization of one group: classes of scripts that derive from it
call that of its base, on rows.
"""

from __future__ import annotations

import math
from typing import Any, cast

import tensorflow as tf

from ipu_tf.internals.structures import Shape
from ipu_tf.keras.layers.normalization import (
    GroupNormalizationBody,
    InstanceNormalizationBody,
    LayerNormalizationBody,
)
from ipu_tf.keras.tf_keras.layers.base import IPULayer, registered


@registered
class GroupNormalization(GroupNormalizationBody, IPULayer):
    """See `ipu_tf.keras.layers.GroupNormalization`."""


@registered
class InstanceNormalization(InstanceNormalizationBody, GroupNormalization):
    """See `ipu_tf.keras.layers.InstanceNormalization`."""


class _OverAxes(GroupNormalization):
    """Normalizes rows, which are the elements of some axes of what the layer is built for."""

    def __init__(self, axis: int | list[int] | tuple[int, ...], **arguments: Any) -> None:
        super().__init__(groups=1, **arguments)
        self.axis = axis

    def build(self, input_shape: Shape) -> None:
        """Makes `gamma` and `beta`, of the sizes of the axes."""
        self._make_weights(tuple(input_shape[axis] for axis in self._axes))

    @property
    def _axes(self) -> list[int]:
        """The axes, from the first one on, once the layer is built."""
        return cast("list[int]", self.axis)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        config = super().get_config()
        for name in ("groups", "channels_axis", "strided_channel_grouping"):
            del config[name]
        return {**config, "axis": self.axis}


@registered
class LayerNormalization(LayerNormalizationBody, _OverAxes):
    """See `ipu_tf.keras.layers.LayerNormalization`."""

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the normalized inputs, the same in training and in inference."""
        row_axes = [axis for axis in range(inputs.shape.rank) if axis not in self._axes]
        order = [*row_axes, *self._axes]
        is_moved = order != sorted(order)
        columns_last = tf.transpose(inputs, order) if is_moved else inputs
        rows = tf.reshape(columns_last, [-1, math.prod(inputs.shape[axis] for axis in self._axes)])
        outputs = tf.reshape(super().call(rows, training), tf.shape(columns_last))
        back = [order.index(axis) for axis in range(len(order))]
        return tf.transpose(outputs, back) if is_moved else outputs
