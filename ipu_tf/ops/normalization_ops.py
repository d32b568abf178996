"""Normalizations that make their own scale and offset."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ipu_tf.ops.functions.program_variables import Initializer, VariableScope

logger = logging.getLogger(__name__)

SMALL_EPSILON = 1.53e-5
"""The least epsilon that float16 adds to a variance near zero without loss."""


@tf.autograph.experimental.do_not_convert
def group_norm(
    inputs: tf.Tensor,
    groups: int = 2,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = SMALL_EPSILON,
    param_initializers: Mapping[str, object] | None = None,
    reuse: bool | None = None,
    variables_collections: object = None,
    training: bool = True,
    trainable: bool = True,
    scope: object = None,
    strided_channel_grouping: bool = True,
) -> tf.Tensor:
    """Returns `inputs` with every sample normalized over groups of channels (Wu and He, 2018).

    The statistics are those of the inputs, in float32, in training and in inference. With
    `strided_channel_grouping`, channel c of C belongs to group c % groups, else to group
    c // (C / groups).

    Args:
        inputs: A float tensor of shape [samples, ...] with a static number of channels.
        groups: Number of groups; divides the number of channels.
        channels_axis: Axis of the channels, 1 or the last one.
        center: Whether to add an offset for each channel, a variable "beta".
        scale: Whether to multiply by a factor for each channel, a variable "gamma".
        epsilon: Added to the variance.
        param_initializers: Initializers of "beta" (default zeros) and "gamma" (default ones).
        reuse: Whether the variables exist, in a graph of TensorFlow 1.
        variables_collections: Collections of the variables, in a graph of TensorFlow 1.
        training: Accepted; there are no moving statistics.
        trainable: Whether the variables are trained.
        scope: Name of the variables' scope: calls with one name share variables.
        strided_channel_grouping: How channels are grouped.

    Returns:
        A tensor of the shape and dtype of `inputs`.

    Raises:
        ValueError: The axis, the groups or the dtype is out of its range.
    """
    del training
    inputs = tf.convert_to_tensor(inputs)
    axis, channels = _checked(inputs, channels_axis, "group_norm")
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1 or channels % groups:
        raise ValueError(
            "group_norm: the number of groups must divide the number of channels. "
            f"Received: groups={groups!r}, {channels} channels."
        )
    variables = VariableScope(scope, "GroupNorm", reuse)
    initializers = param_initializers or {}
    variable = functools.partial(
        variables.variable, trainable=trainable, collections=variables_collections
    )
    shape = (channels,)
    with variables.opened([inputs]):
        values = _normalize(inputs, axis, groups, epsilon, strided_channel_grouping)
        per_channel = [-1 if number == axis else 1 for number in range(inputs.shape.rank)]
        if scale:
            ones = _initializer(initializers.get("gamma"), tf.ones)
            gamma = variable("gamma", shape, inputs.dtype, ones)
            values *= tf.reshape(tf.cast(gamma, tf.float32), per_channel)
        if center:
            zeros = _initializer(initializers.get("beta"), tf.zeros)
            beta = variable("beta", shape, inputs.dtype, zeros)
            values += tf.reshape(tf.cast(beta, tf.float32), per_channel)
        return tf.cast(values, inputs.dtype)


@tf.autograph.experimental.do_not_convert
def layer_norm(
    inputs: tf.Tensor,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = SMALL_EPSILON,
    param_initializers: Mapping[str, object] | None = None,
    reuse: bool | None = None,
    variables_collections: object = None,
    training: bool = True,
    trainable: bool = True,
    scope: object = None,
) -> tf.Tensor:
    """Returns `inputs` with every sample normalized over all its axes (Ba et al., 2016).

    Args:
        inputs: See `group_norm`, as for all arguments; one group has all channels.
    """
    _warn_of_small_epsilon("layer_norm", epsilon)
    return group_norm(
        inputs,
        groups=1,
        channels_axis=channels_axis,
        center=center,
        scale=scale,
        epsilon=epsilon,
        param_initializers=param_initializers,
        reuse=reuse,
        variables_collections=variables_collections,
        training=training,
        trainable=trainable,
        scope=scope,
    )


@tf.autograph.experimental.do_not_convert
def instance_norm(
    inputs: tf.Tensor,
    channels_axis: int = -1,
    center: bool = True,
    scale: bool = True,
    epsilon: float = SMALL_EPSILON,
    param_initializers: Mapping[str, object] | None = None,
    reuse: bool | None = None,
    variables_collections: object = None,
    training: bool = True,
    trainable: bool = True,
    scope: object = None,
) -> tf.Tensor:
    """Returns `inputs` with every channel of every sample normalized (Ulyanov et al., 2016).

    Args:
        inputs: See `group_norm`, as for all arguments; every channel is a group.
    """
    _warn_of_small_epsilon("instance_norm", epsilon)
    inputs = tf.convert_to_tensor(inputs)
    _, channels = _checked(inputs, channels_axis, "instance_norm")
    return group_norm(
        inputs,
        groups=channels,
        channels_axis=channels_axis,
        center=center,
        scale=scale,
        epsilon=epsilon,
        param_initializers=param_initializers,
        reuse=reuse,
        variables_collections=variables_collections,
        training=training,
        trainable=trainable,
        scope=scope,
    )


def _normalize(
    inputs: tf.Tensor, axis: int, groups: int, epsilon: float, is_strided: bool
) -> tf.Tensor:
    """Returns the inputs normalized over their groups, in float32."""
    shape = [size or tf.shape(inputs)[number] for number, size in enumerate(inputs.shape.as_list())]
    per_group = inputs.shape.as_list()[axis] // groups
    # The axis of the channels becomes two: the groups, and the channels of a group.
    two = [per_group, groups] if is_strided else [groups, per_group]
    groups_axis = axis + 1 if is_strided else axis
    groups_of_channels = tf.reshape(
        tf.cast(inputs, tf.float32), [*shape[:axis], *two, *shape[axis + 1 :]]
    )
    axes = [number for number in range(1, len(shape) + 1) if number != groups_axis]
    mean, variance = tf.nn.moments(groups_of_channels, axes, keepdims=True)
    normalized = (groups_of_channels - mean) * tf.math.rsqrt(variance + epsilon)
    return tf.reshape(normalized, shape)


def _checked(inputs: tf.Tensor, channels_axis: int, op: str) -> tuple[int, int]:
    """Returns the axis and the number of the channels."""
    rank = inputs.shape.rank
    if inputs.dtype not in (tf.float16, tf.float32):
        raise ValueError(
            f"{op}: the inputs must be float16 or float32; tf.cast them. "
            f"Received: {inputs.dtype.name}."
        )
    if rank is None or rank < 2 or channels_axis not in (1, rank - 1, -1, 1 - rank):
        raise ValueError(
            f"{op}: the channels are axis 1 or the last axis of inputs of rank 2 or more. "
            f"Received: channels_axis={channels_axis!r}, inputs of shape {inputs.shape}."
        )
    channels = inputs.shape.as_list()[channels_axis]
    if channels is None:
        raise ValueError(
            f"{op}: the number of channels must be static. Received: inputs of shape "
            f"{inputs.shape}."
        )
    return channels_axis % rank, channels


def _initializer(choice: Any, default: Initializer) -> Initializer:
    """Returns an initializer: a function of shape and dtype, or one of a Keras or TensorFlow."""
    initializer: Initializer = (
        default if choice is None else choice() if isinstance(choice, type) else choice
    )
    return initializer


def _warn_of_small_epsilon(op: str, epsilon: float) -> None:
    if epsilon < SMALL_EPSILON:
        logger.warning(
            "%s: epsilon=%g is below %g, which float16 does not resolve.",
            op,
            epsilon,
            SMALL_EPSILON,
        )
