"""Wrappers that capture gradients inside a model for its optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.graphs import Structure
from ipu_tf.keras.layers.ipu_layer import AnyKeras
from ipu_tf.ops.grad_util_ops import capture_upstream_gradients


class GradientCaptureBody(AnyKeras):
    """The parts of `_GradientCapture` that are the same over any Keras."""

    def __init__(self, layer: keras.layers.Layer, tag: str, **kwargs: object) -> None:
        super().__init__(**{"name": tag, **kwargs})
        self.layer = layer
        self.tag = tag

    def build(self, input_shape: Structure) -> None:
        """Builds the wrapped layer."""
        if not self.layer.built:
            self.layer.build(input_shape)
        self.built = True

    def call(self, inputs: TensorStructure, *args: object, **kwargs: object) -> TensorStructure:
        """Returns the result of the wrapped layer."""
        return self.layer(inputs, *args, **kwargs)

    def compute_output_shape(self, input_shape: Structure) -> Structure:
        """Returns the shape of the wrapped layer's result."""
        return self.layer.compute_output_shape(input_shape)

    def _inner_config(self) -> Mapping[str, object]:
        """Returns the configuration of the wrapped layer."""
        return self._keras.saving.serialize_keras_object(self.layer)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {**super().get_config(), "layer": self._inner_config(), "tag": self.tag}

    @classmethod
    def from_config(
        cls, config: Mapping[str, object], custom_objects: Mapping[str, object] | None = None
    ) -> _GradientCapture:
        """Returns the layer that `get_config` describes."""
        arguments: dict[str, Any] = dict(config)
        layer = cls._keras.saving.deserialize_keras_object(
            arguments.pop("layer"), custom_objects=custom_objects
        )
        return cls(layer, **arguments)

    @classmethod
    def _check_is_layer(cls, layer: object) -> None:
        if not isinstance(layer, cls._keras.layers.Layer):
            raise ValueError(
                f"{cls.__name__}: expected an instance of a Keras layer. Wrap the layer, not its "
                f"outputs. Received: {layer!r}."
            )


class _GradientCapture(GradientCaptureBody, keras.layers.Layer):
    """Behaves like the layer that it wraps.

    Args:
        layer: The layer that is wrapped.
        tag: Name of the captured gradients and of the wrapper.
        **kwargs: Arguments of every layer.
    """

    def compute_output_spec(self, inputs: Structure, *args: object, **kwargs: object) -> Structure:
        """Returns the shape and dtype of the wrapped layer's result."""
        return self.layer.compute_output_spec(inputs, *args, **kwargs)


class CaptureUpstreamGradientsBody(AnyKeras):
    """The parts of `CaptureUpstreamGradients` that are the same over any Keras."""

    def __init__(self, layer: keras.layers.Layer, tag: str | None = None, **kwargs: object) -> None:
        self._check_is_layer(layer)
        super().__init__(layer, f"{layer.name}_cug" if tag is None else tag, **kwargs)

    def call(self, inputs: TensorStructure, *args: object, **kwargs: object) -> TensorStructure:
        """Returns the result of the wrapped layer."""
        return capture_upstream_gradients(super().call(inputs, *args, **kwargs), tag=self.tag)


@keras.saving.register_keras_serializable("ipu_tf")
class CaptureUpstreamGradients(CaptureUpstreamGradientsBody, _GradientCapture):
    """Captures the gradients that flow into the outputs of a layer.

    An optimizer that reads captured gradients, such as `ALSOptimizer`, gets them at its next step.

    Args:
        layer: The layer.
        tag: Name of the captured gradients and of the wrapper, "<name of the layer>_cug" if None.
        **kwargs: Arguments of every layer.

    Raises:
        ValueError: `layer` is not a Keras layer.
    """


class CaptureActivationGradientsBody(AnyKeras):
    """The parts of `CaptureActivationGradients` that are the same over any Keras."""

    def __init__(self, layer: keras.layers.Layer, tag: str | None = None, **kwargs: object) -> None:
        if not self.layer_is_supported(layer):
            raise ValueError(
                f"CaptureActivationGradients: layer '{layer.name}' does not use an activation "
                "function, or uses it in a loop over steps. Capture the gradients of its outputs "
                f"with CaptureUpstreamGradients. Received: a layer of type {type(layer).__name__}."
            )
        tag = f"{layer.name}_cag" if tag is None else tag
        super().__init__(self._capturing(layer, tag), tag, **kwargs)
        self._layer_config = self._keras.saving.serialize_keras_object(layer)

    @classmethod
    def layer_is_supported(cls, layer: keras.layers.Layer) -> bool:
        """Returns whether a layer has activation functions whose gradients can be captured.

        Args:
            layer: A Keras layer.

        Raises:
            ValueError: It is not a Keras layer.
        """
        cls._check_is_layer(layer)
        return not isinstance(layer, cls._keras.layers.RNN) and bool(cls._activations(layer))

    def _inner_config(self) -> Mapping[str, object]:
        return self._layer_config

    @classmethod
    def _capturing(cls, layer: keras.layers.Layer, tag: str) -> keras.layers.Layer:
        """Returns a copy of a layer whose activation functions capture gradients."""
        activations = {
            argument: _CapturingActivation(function, f"{tag}_{argument}")
            for argument, function in cls._activations(layer).items()
        }
        copy = type(layer).from_config({**layer.get_config(), **activations})
        if layer.built:
            copy.build_from_config(layer.get_build_config())
            copy.set_weights(layer.get_weights())
        return copy

    @classmethod
    def _activations(cls, layer: keras.layers.Layer) -> dict[str, Callable[..., tf.Tensor]]:
        """Returns the activation functions of a layer by the argument that sets them."""
        return {
            argument: cls._keras.activations.get(value)
            for argument, value in layer.get_config().items()
            if "activation" in argument and value is not None
        }


@keras.saving.register_keras_serializable("ipu_tf")
class CaptureActivationGradients(CaptureActivationGradientsBody, _GradientCapture):
    """Captures the gradients that flow through the activation functions of a layer, to its inputs.

    It wraps a copy of the layer with the same configuration and weights, whose activation
    functions capture gradients. Those of the argument "activation" have the tag "<tag>_activation".

    Args:
        layer: A layer with an argument for an activation function.
        tag: Name of the captured gradients and of the wrapper, "<name of the layer>_cag" if None.
        **kwargs: Arguments of every layer.

    Raises:
        ValueError: `layer` is not a Keras layer, or has no activation function outside a loop.
    """


class _CapturingActivation:
    """An activation function that captures the gradients that reach its inputs.

    Args:
        function: The activation function.
        tag: Name of the captured gradients.
    """

    def __init__(self, function: Callable[..., tf.Tensor], tag: str) -> None:
        self._function = function
        self._tag = tag

    def __call__(self, inputs: tf.Tensor) -> tf.Tensor:
        return self._function(capture_upstream_gradients(inputs, tag=self._tag))
