"""Normalization over groups of channels, single channels, and axes."""

from __future__ import annotations

import logging

import keras
import tensorflow as tf
from keras import ops

from ipu_tf.internals.structures import Shape
from ipu_tf.keras.layers.arguments import Constraint, Initializer, Regularizer
from ipu_tf.keras.layers.ipu_layer import AnyKeras, refuse

logger = logging.getLogger(__name__)

# Below this, 1 / sqrt(variance + epsilon) of float16 may overflow; the default of the vendor's
# `normalization_ops`.
SMALL_EPSILON = 1.53e-5


class GroupNormalizationBody(AnyKeras):
    """The parts of `GroupNormalization` that are the same over any Keras."""

    def __init__(
        self,
        groups: int = 2,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: Initializer = None,
        gamma_initializer: Initializer = None,
        strided_channel_grouping: bool = True,
        trainable: bool = True,
        **kwargs: object,
    ) -> None:
        super().__init__(trainable=trainable, autocast=False, **kwargs)
        self.groups = groups
        self.channels_axis = channels_axis
        self.center = center
        self.scale = scale
        self.epsilon = epsilon
        self.beta_initializer = self._keras.initializers.get(beta_initializer or "zeros")
        self.gamma_initializer = self._keras.initializers.get(gamma_initializer or "ones")
        self.strided_channel_grouping = strided_channel_grouping

    def build(self, input_shape: Shape) -> None:
        """Makes `gamma` and `beta`."""
        channels = self._channels(input_shape)
        self._check_groups(channels)
        self._make_weights((channels,))

    def _make_weights(self, shape: Shape) -> None:
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                shape=shape, name="gamma", initializer=self.gamma_initializer
            )
        if self.center:
            self.beta = self.add_weight(shape=shape, name="beta", initializer=self.beta_initializer)
        self.built = True  # Else tf_keras would build it again.

    def _channels(self, input_shape: Shape) -> int:
        rank, axis = len(input_shape), self.channels_axis
        if axis not in (1, rank - 1, -1, 1 - rank):
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': the channels are axis 1 or the last "
                f"axis. Received: channels_axis={axis}, inputs of shape {tuple(input_shape)}."
            )
        channels = input_shape[axis]
        if channels is None:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': the number of channels must be "
                f"static. Received: inputs of shape {tuple(input_shape)}."
            )
        return channels

    def _check_groups(self, channels: int) -> None:
        if self.groups < 1 or channels % self.groups:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': the number of groups must divide the "
                f"number of channels. Received: groups={self.groups}, {channels} channels."
            )

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the normalized inputs, the same in training and in inference."""
        del training
        shape = ops.shape(inputs)
        axis = self.channels_axis % len(shape)
        values = ops.cast(inputs, "float32")
        # The axis of the channels becomes two axes: the groups, and the channels of a group.
        per_group = shape[axis] // self.groups
        two = (
            (per_group, self.groups) if self.strided_channel_grouping else (self.groups, per_group)
        )
        groups_axis = axis + 1 if self.strided_channel_grouping else axis
        grouped = ops.reshape(values, (*shape[:axis], *two, *shape[axis + 1 :]))
        axes = [i for i in range(1, len(shape) + 1) if i != groups_axis]
        mean, variance = ops.moments(grouped, axes=axes, keepdims=True)
        normalized = (grouped - mean) * ops.rsqrt(variance + self.epsilon)
        outputs = ops.reshape(normalized, shape)
        per_channel = [-1 if i == axis else 1 for i in range(len(shape))]
        if self.gamma is not None:
            outputs = outputs * ops.reshape(ops.cast(self.gamma, "float32"), per_channel)
        if self.beta is not None:
            outputs = outputs + ops.reshape(ops.cast(self.beta, "float32"), per_channel)
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        """Returns the shape of the inputs."""
        return input_shape

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {
            **super().get_config(),
            "groups": self.groups,
            "channels_axis": self.channels_axis,
            "center": self.center,
            "scale": self.scale,
            "epsilon": self.epsilon,
            "beta_initializer": self._keras.initializers.serialize(self.beta_initializer),
            "gamma_initializer": self._keras.initializers.serialize(self.gamma_initializer),
            "strided_channel_grouping": self.strided_channel_grouping,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class GroupNormalization(GroupNormalizationBody, keras.layers.Layer):
    """Normalizes every sample over groups of its channels, in float32 (Wu and He, 2018).

    With `strided_channel_grouping`, channel c of C belongs to group c % groups, which is fastest on
    the device; without it, to group c // (C / groups), as in other frameworks. Weights that were
    trained with one grouping do not fit the other.

    Args:
        groups: Number of groups; must divide the number of channels.
        channels_axis: Axis of the channels, 1 or the last one.
        center: Whether to add `beta`.
        scale: Whether to multiply by `gamma`.
        epsilon: Added to the variance.
        beta_initializer: Initializer of `beta`, zeros if None.
        gamma_initializer: Initializer of `gamma`, ones if None.
        strided_channel_grouping: How the channels are grouped.
        trainable: Whether `beta` and `gamma` are trained.
        **kwargs: Arguments of every layer.

    Raises:
        ValueError: In `build`, if the axis or the number of groups does not fit the inputs.
    """


class InstanceNormalizationBody(AnyKeras):
    """The parts of `InstanceNormalization` that are the same over any Keras."""

    def __init__(
        self,
        channels_axis: int = -1,
        center: bool = True,
        scale: bool = True,
        epsilon: float = 1e-3,
        beta_initializer: Initializer = None,
        gamma_initializer: Initializer = None,
        trainable: bool = True,
        **kwargs: object,
    ) -> None:
        super().__init__(
            groups=1,
            channels_axis=channels_axis,
            center=center,
            scale=scale,
            epsilon=epsilon,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            trainable=trainable,
            **kwargs,
        )
        _warn_of_small_epsilon(self)

    def build(self, input_shape: Shape) -> None:
        """Makes `gamma` and `beta`; every channel is a group."""
        self.groups = self._channels(input_shape)
        super().build(input_shape)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        config = super().get_config()
        del config["groups"], config["strided_channel_grouping"]
        return config


@keras.saving.register_keras_serializable("ipu_tf")
class InstanceNormalization(InstanceNormalizationBody, GroupNormalization):
    """Normalizes every channel of every sample, in float32 (Ulyanov et al., 2016).

    Args:
        channels_axis: See `GroupNormalization`, as for all arguments.
        **kwargs: Arguments of every layer.
    """


class LayerNormalizationBody(AnyKeras):
    """The parts of `LayerNormalization` that are the same over any Keras."""

    axis: int | list[int] | tuple[int, ...]

    def __init__(
        self,
        axis: int | list[int] | tuple[int, ...] = -1,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Initializer = "zeros",
        gamma_initializer: Initializer = "ones",
        beta_regularizer: Regularizer = None,
        gamma_regularizer: Regularizer = None,
        beta_constraint: Constraint = None,
        gamma_constraint: Constraint = None,
        trainable: bool = True,
        **kwargs: object,
    ) -> None:
        refuse(
            self,
            beta_regularizer=beta_regularizer,
            gamma_regularizer=gamma_regularizer,
            beta_constraint=beta_constraint,
            gamma_constraint=gamma_constraint,
        )
        if not isinstance(axis, int | list | tuple):
            raise ValueError(
                "LayerNormalization: expected an int or a list/tuple of ints for the argument "
                f"'axis'. Received: axis={axis!r}."
            )
        super().__init__(
            axis=axis,
            epsilon=epsilon,
            center=center,
            scale=scale,
            beta_initializer=beta_initializer,
            gamma_initializer=gamma_initializer,
            trainable=trainable,
            **kwargs,
        )
        _warn_of_small_epsilon(self)

    def build(self, input_shape: Shape) -> None:
        """Makes `gamma` and `beta`."""
        rank = len(input_shape)
        axes = self.axis if isinstance(self.axis, list | tuple) else [self.axis]
        positive = sorted(number + rank if number < 0 else number for number in axes)
        if positive[0] < 0 or positive[-1] >= rank or len(set(positive)) < len(positive):
            raise ValueError(
                f"LayerNormalization layer '{self.name}': every axis must be one of the inputs, "
                f"named once. Received: axis={list(axes)}, inputs of shape {tuple(input_shape)}."
            )
        self.axis = positive
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the normalized inputs, the same in training and in inference."""
        del training
        return super().call(inputs)


@keras.saving.register_keras_serializable("ipu_tf")
class LayerNormalization(LayerNormalizationBody, keras.layers.LayerNormalization):
    """Keras' layer normalization (Ba et al., 2016).

    Args:
        axis: Axis or axes that are normalized over.
        epsilon: Added to the variance.
        center: Whether to add `beta`.
        scale: Whether to multiply by `gamma`.
        beta_initializer: Initializer of `beta`.
        gamma_initializer: Initializer of `gamma`.
        beta_regularizer: Not supported.
        gamma_regularizer: Not supported.
        beta_constraint: Not supported.
        gamma_constraint: Not supported.
        trainable: Whether `beta` and `gamma` are trained.
        **kwargs: Arguments of every layer.

    Raises:
        NotImplementedError: An unsupported argument is given.
        ValueError: `axis` is neither an axis nor a list of axes; in `build`, if an axis is not one
            of the inputs' or is named twice.
    """


GroupNorm = GroupNormalization
InstanceNorm = InstanceNormalization
LayerNorm = LayerNormalization


def _warn_of_small_epsilon(layer: keras.layers.Layer) -> None:
    if layer.epsilon < SMALL_EPSILON:
        logger.warning(
            "%s layer '%s': epsilon=%g is below %g, which float16 does not resolve.",
            type(layer).__name__,
            layer.name,
            layer.epsilon,
            SMALL_EPSILON,
        )
