"""Batch normalization of graphs of TensorFlow 1, as `tf.compat.v1.layers` had it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.internals.graph_layers import GraphLayer

_V1 = tf.compat.v1
_HALVES = (tf.float16, tf.bfloat16)
_REFUSED = {"renorm": False, "virtual_batch_size": None, "adjustment": None}
"""Arguments that only have their defaults here."""


class BatchNormalization(GraphLayer):
    """Normalizes a batch with its own moments in training, else with moving ones.

    The moving moments are updated by operations in the collection `UPDATE_OPS`.

    Args:
        axis: The axis of the features, or a list of one.
        momentum: How much of the moving moments an update keeps.
        epsilon: Added to the variance.
        center: Whether `beta` is added.
        scale: Whether the result is multiplied by `gamma`.
        beta_initializer: Initializer of `beta`; so the others.
        gamma_initializer: That of `gamma`.
        moving_mean_initializer: That of the moving mean.
        moving_variance_initializer: That of the moving variance.
        beta_regularizer: Function from `beta` to a loss.
        gamma_regularizer: Function from `gamma` to a loss.
        beta_constraint: Function that projects `beta` after an update.
        gamma_constraint: Function that projects `gamma` after an update.
        fused: False takes the variance of the batch as it is for the moving variance. Otherwise it
            is the unbiased one if the inputs have rank 4 and the features are the last axis.
        trainable: Whether `beta` and `gamma` are trainable.
        name: Name of the layer.
        **kwargs: Arguments of a layer of TensorFlow 1; `renorm`, `virtual_batch_size` and
            `adjustment` only with their defaults.

    Raises:
        NotImplementedError: One of those has another value.
    """

    def __init__(
        self,
        axis: int | Sequence[int] = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = None,
        gamma_initializer: Any = None,
        moving_mean_initializer: Any = None,
        moving_variance_initializer: Any = None,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        fused: bool | None = None,
        trainable: bool = True,
        name: str | None = None,
        **kwargs: Any,
    ) -> None:
        for argument, default in _REFUSED.items():
            if kwargs.pop(argument, default) is not default:
                raise NotImplementedError(
                    f"tf.compat.v1.layers.batch_normalization: `{argument}` does not exist in "
                    "ipu_tf. Leave it out, or write the normalization with tf.nn.moments and "
                    "tf.nn.batch_normalization."
                )
        kwargs.pop("renorm_clipping", None)
        kwargs.pop("renorm_momentum", None)
        super().__init__(trainable=trainable, name=name, **kwargs)
        self.axis, self.momentum, self.epsilon, self.fused = axis, momentum, epsilon, fused
        zeros, ones = _V1.zeros_initializer(), _V1.ones_initializer()
        self._parameters = {
            "gamma": (scale, gamma_initializer or ones, gamma_regularizer, gamma_constraint),
            "beta": (center, beta_initializer or zeros, beta_regularizer, beta_constraint),
        }
        self._moments = {
            "moving_mean": moving_mean_initializer or zeros,
            "moving_variance": moving_variance_initializer or ones,
        }
        self.gamma = self.beta = None

    def build(self, input_shape: Any) -> None:
        """Makes the variables, of the size of the features' axis.

        Raises:
            ValueError: There are several axes, or the size is unknown.
        """
        shape = tf.TensorShape(input_shape)
        axes = [self.axis] if isinstance(self.axis, int) else list(self.axis)
        if len(axes) != 1:
            raise ValueError(f"{self.name}: normalize along one axis. Received: axis={self.axis}.")
        self._rank = shape.rank
        self._feature_axis = axes[0] % self._rank
        size = shape.as_list()[self._feature_axis]
        if size is None:
            raise ValueError(
                f"{self.name}: the size of axis {axes[0]} must be known. Received: {shape}."
            )
        kind = tf.as_dtype(self.dtype or tf.float32)
        kind = tf.float32 if kind in _HALVES else kind
        for name, (is_used, initializer, regularizer, constraint) in self._parameters.items():
            if is_used:
                weight = self.add_weight(
                    name,
                    (size,),
                    kind,
                    initializer,
                    regularizer,
                    trainable=True,
                    constraint=constraint,
                )
                setattr(self, name, weight)
        for name, initializer in self._moments.items():
            setattr(self, name, self.add_weight(name, (size,), kind, initializer, trainable=False))
        self.built = True

    def call(self, inputs: tf.Tensor, training: Any = False) -> tf.Tensor:
        """Returns the normalized inputs."""
        known = tf.get_static_value(training) if tf.is_tensor(training) else training
        if known is None:
            is_training = tf.cast(training, tf.bool)
            results = tf.cond(
                is_training, lambda: self._of_batch(inputs), lambda: self._of_moments(inputs)
            )
            self._update(results[1:], tf.cast(is_training, tf.float32) * (1 - self.momentum))
            return results[0]
        if not known:
            return self._of_moments(inputs)[0]
        results = self._of_batch(inputs)
        self._update(results[1:], 1 - self.momentum)
        return results[0]

    def _of_batch(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the result with the moments of the batch, and these moments."""
        is_last = self._feature_axis == self._rank - 1
        if self.fused is not False and self._rank == 4 and is_last:
            one, zero = self._scale_and_offset()
            return _V1.nn.fused_batch_norm(inputs, one, zero, epsilon=self.epsilon)
        axes = [axis for axis in range(self._rank) if axis != self._feature_axis]
        values = tf.cast(inputs, tf.float32) if inputs.dtype in _HALVES else inputs
        mean, variance = tf.nn.moments(values, axes)
        return self._normalized(inputs, mean, variance), mean, variance

    def _of_moments(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the result with the moving moments, and these moments."""
        mean = tf.convert_to_tensor(self.moving_mean)
        variance = tf.convert_to_tensor(self.moving_variance)
        return self._normalized(inputs, mean, variance), mean, variance

    def _normalized(self, inputs: tf.Tensor, mean: tf.Tensor, variance: tf.Tensor) -> tf.Tensor:
        shape = [1] * self._rank
        shape[self._feature_axis] = -1
        one, zero = self._scale_and_offset()
        values = tf.cast(inputs, mean.dtype)
        terms = (tf.reshape(tf.cast(one, mean.dtype), shape) for one in (mean, variance, zero, one))
        return tf.cast(tf.nn.batch_normalization(values, *terms, self.epsilon), inputs.dtype)

    def _scale_and_offset(self) -> tuple[tf.Tensor, tf.Tensor]:
        like = self.moving_mean
        one = tf.ones(like.shape, like.dtype.base_dtype) if self.gamma is None else self.gamma
        zero = tf.zeros(like.shape, like.dtype.base_dtype) if self.beta is None else self.beta
        return tf.convert_to_tensor(one), tf.convert_to_tensor(zero)

    def _update(self, moments: Sequence[tf.Tensor], step: Any) -> None:
        """Makes the operations that move the moving moments by a step towards those of a batch."""
        moving = (self.moving_mean, self.moving_variance)
        for variable, moment in zip(moving, moments, strict=True):
            kind = variable.dtype.base_dtype
            change = (tf.convert_to_tensor(variable) - tf.cast(moment, kind)) * tf.cast(step, kind)
            _V1.add_to_collection(_V1.GraphKeys.UPDATE_OPS, _V1.assign_sub(variable, change))


def batch_normalization(
    inputs: tf.Tensor,
    axis: int | Sequence[int] = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = None,
    gamma_initializer: Any = None,
    moving_mean_initializer: Any = None,
    moving_variance_initializer: Any = None,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: str | None = None,
    reuse: bool | None = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> tf.Tensor:
    """Returns normalized inputs; see `BatchNormalization` for the arguments.

    Args:
        training: Whether the moments are those of the batch: a bool, or a tensor of one.
        reuse: Whether the variables of a layer of this name are used again.

    Raises:
        NotImplementedError: `renorm`, `virtual_batch_size` or `adjustment` is not its default.
    """
    layer = BatchNormalization(
        axis,
        momentum,
        epsilon,
        center,
        scale,
        beta_initializer,
        gamma_initializer,
        moving_mean_initializer,
        moving_variance_initializer,
        beta_regularizer,
        gamma_regularizer,
        beta_constraint,
        gamma_constraint,
        fused,
        trainable,
        name,
        renorm=renorm,
        renorm_clipping=renorm_clipping,
        renorm_momentum=renorm_momentum,
        virtual_batch_size=virtual_batch_size,
        adjustment=adjustment,
        dtype=inputs.dtype.base_dtype,
        _reuse=reuse,
        _scope=name,
    )
    return layer.apply(inputs, training=training)
