"""Dense layers that compute their product piece by piece."""

from __future__ import annotations

import keras
import tensorflow as tf

from ipu_tf.internals.structures import Shape, TensorStructure
from ipu_tf.keras.layers.arguments import Activation, Constraint, Initializer, Regularizer
from ipu_tf.keras.layers.ipu_layer import AnyKeras, refuse
from ipu_tf.ops.math_ops import check_serialization, serialized_matmul

# Maps the layer's names of dimensions to those of `serialized_matmul`.
_DIMENSIONS = {
    "input_columns": "a_columns",
    "input_rows_kernel_columns": "a_rows_b_columns",
    "kernel_rows": "b_rows",
}


class SerialDenseBody(AnyKeras):
    """The parts of `SerialDense` that are the same over any Keras."""

    def __init__(
        self,
        units: int,
        serialization_factor: int,
        serialization_dimension: str,
        activation: Activation = None,
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        **kwargs: object,
    ) -> None:
        check_serialization(
            "SerialDense", serialization_factor, serialization_dimension, tuple(_DIMENSIONS)
        )
        super().__init__(
            units,
            activation=activation,
            use_bias=use_bias,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            activity_regularizer=activity_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        self.serialization_factor = serialization_factor
        self.serialization_dimension = serialization_dimension

    def build(self, input_shape: Shape) -> None:
        """Makes the kernel and the bias."""
        extents = {
            "input_columns": input_shape[-2],
            "input_rows_kernel_columns": input_shape[-1],
            "kernel_rows": self.units,
        }
        extent = extents[self.serialization_dimension]
        if extent is not None and extent % self.serialization_factor:
            raise ValueError(
                f"SerialDense layer '{self.name}': serialization_factor must divide the extent "
                f"that serialization_dimension='{self.serialization_dimension}' splits. Received: "
                f"serialization_factor={self.serialization_factor}, extent {extent}."
            )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns activation(inputs x kernel + bias), of shape [..., m, units]."""
        del training
        outputs = serialized_matmul(
            inputs,
            self.kernel,
            self.serialization_factor,
            _DIMENSIONS[self.serialization_dimension],
        )
        if self.bias is not None:
            outputs = keras.ops.add(outputs, self.bias)
        return outputs if self.activation is None else self.activation(outputs)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {
            **super().get_config(),
            "serialization_factor": self.serialization_factor,
            "serialization_dimension": self.serialization_dimension,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class SerialDense(SerialDenseBody, keras.layers.Dense):
    """Keras' dense layer, its product serialized to save memory of the device.

    Of inputs of shape [..., m, k] and a kernel of shape [k, n], "input_columns" splits m,
    "input_rows_kernel_columns" k and "kernel_rows" n; see `ipu_tf.ops.math_ops.serialized_matmul`.

    Args:
        units: Number of outputs.
        serialization_factor: Number of pieces; must divide the extent that is split.
        serialization_dimension: "input_columns", "input_rows_kernel_columns" or "kernel_rows".
        activation: Activation function, none if None.
        use_bias: Whether to add a bias.
        kernel_initializer: Initializer of the kernel.
        bias_initializer: Initializer of the bias.
        kernel_regularizer: Regularizer of the kernel.
        bias_regularizer: Regularizer of the bias.
        activity_regularizer: Regularizer of the outputs.
        kernel_constraint: Constraint of the kernel.
        bias_constraint: Constraint of the bias.
        **kwargs: Arguments of every layer.

    Raises:
        ValueError: The factor is below 1 or the dimension unknown; in `build` or `call`, if the
            factor does not divide the extent.
    """


class DenseBody(AnyKeras):
    """The parts of `Dense` that are the same over any Keras."""

    def __init__(
        self,
        units: int,
        kernel_format: object = None,
        kernel_scale: int = 0,
        kernel_data_initializer: Initializer = None,
        **kwargs: object,
    ) -> None:
        refuse(
            self,
            kernel_format=kernel_format,
            kernel_scale=kernel_scale,
            kernel_data_initializer=kernel_data_initializer,
        )
        super().__init__(units, **kwargs)

    def __call__(self, inputs: TensorStructure, *args: object, **kwargs: object) -> tf.Tensor:
        """Returns the outputs; makes the weights first if there are none.

        Raises:
            NotImplementedError: The inputs are data and metadata of a float8 tensor.
        """
        if isinstance(inputs, list | tuple):
            raise NotImplementedError(
                f"Dense layer '{self.name}': the float8 of the IPU is not simulated. Pass one "
                f"tensor of float16 or float32. Received: {len(inputs)} inputs."
            )
        return super().__call__(inputs, *args, **kwargs)


@keras.saving.register_keras_serializable("ipu_tf")
class Dense(DenseBody, keras.layers.Dense):
    """Keras' dense layer; the vendor's also takes inputs in the float8 of the IPU.

    Args:
        units: Number of outputs.
        kernel_format: Float8 format of the kernel for float8 inputs; must be left out.
        kernel_scale: Power of two by which such a kernel is scaled; must be 0.
        kernel_data_initializer: Initializer of the data of such a kernel; must be None.
        **kwargs: Arguments of `keras.layers.Dense`.

    Raises:
        NotImplementedError: An argument of float8 is given, or the inputs are float8.
    """

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        """Returns the outputs; see `keras.layers.Dense`."""
        return super().call(inputs, training)
