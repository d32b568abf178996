"""LSTM and GRU."""

from __future__ import annotations

from collections.abc import Mapping

import keras

from ipu_tf.internals.structures import DType
from ipu_tf.keras.layers.arguments import Activation, Constraint, Initializer, Regularizer, SeedPair
from ipu_tf.keras.layers.ipu_layer import AnyKeras
from ipu_tf.keras.layers.recurrent import (
    ACTIVATIONS,
    RECURRENT_ACTIVATIONS,
    PopnnRNN,
    activation_name,
    check_arguments,
    parse_options,
    seeded,
)


class PopnnLSTMBody(AnyKeras):
    """The parts of `PopnnLSTM` that are the same over any Keras."""

    def __init__(
        self,
        units: int,
        activation: Activation = "tanh",
        recurrent_activation: Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        dropout: float = 0.0,
        dropout_seed: SeedPair = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 2,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        partials_dtype: DType = "float32",
        seed: int | None = None,
        time_major: bool = False,
        available_memory_proportion_fwd: float | None = None,
        available_memory_proportion_bwd: float | None = None,
        options: Mapping[str, object] | None = None,
        options_bwd: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> None:
        check_arguments(self, implementation, {**locals(), **kwargs})
        extra = parse_options(
            "LSTM",
            dropout_seed=dropout_seed,
            partials_dtype=partials_dtype,
            time_major=time_major,
            available_memory_proportion_fwd=available_memory_proportion_fwd,
            available_memory_proportion_bwd=available_memory_proportion_bwd,
            options=options,
            options_bwd=options_bwd,
        )
        super().__init__(
            units,
            activation=activation_name("LSTM", "activation", activation, ACTIVATIONS),
            recurrent_activation=activation_name(
                "LSTM", "recurrent_activation", recurrent_activation, RECURRENT_ACTIVATIONS
            ),
            kernel_initializer=seeded(kernel_initializer, "glorot_uniform", seed, self._keras),
            recurrent_initializer=seeded(recurrent_initializer, "orthogonal", seed, self._keras),
            bias_initializer=bias_initializer or "zeros",
            unit_forget_bias=unit_forget_bias,
            return_sequences=return_sequences,
            return_state=return_state,
            stateful=stateful,
            **self._of_keras(seed=seed, time_major=time_major),
            **kwargs,
        )
        self._configure(extra, dropout)

    def get_bias(self) -> keras.Variable:
        """Returns the biases, of shape [4 * units]."""
        return self.biases

    def state_shape(self, batch_size: int) -> tuple[list[int], list[int]]:
        """Returns the shapes of the hidden state and of the cell state of a batch."""
        return [batch_size, self.units], [batch_size, self.units]


@keras.saving.register_keras_serializable("ipu_tf")
class PopnnLSTM(PopnnLSTMBody, PopnnRNN, keras.layers.LSTM):
    """Keras' LSTM, with its weights and gates in the same order: input, forget, cell, output.

    Args:
        units: Number of outputs.
        activation: Activation function: tanh, relu, softmax, sigmoid or hard_sigmoid.
        recurrent_activation: Activation of the gates: tanh, softmax, sigmoid or hard_sigmoid.
        use_bias: Must be True.
        kernel_initializer: Initializer of the kernel of the inputs, glorot_uniform if None.
        recurrent_initializer: Initializer of the kernel of the state, orthogonal if None.
        bias_initializer: Initializer of the biases, zeros if None.
        unit_forget_bias: Whether the biases of the forget gate start at 1.
        kernel_regularizer: Not supported, as all regularizers and constraints.
        recurrent_regularizer: Not supported.
        bias_regularizer: Not supported.
        activity_regularizer: Not supported.
        kernel_constraint: Not supported.
        recurrent_constraint: Not supported.
        bias_constraint: Not supported.
        dropout: Share of the inputs that is dropped in training, the same inputs at every step.
        dropout_seed: A pair of seeds that gives the same mask at every call.
        recurrent_dropout: Must be 0.
        implementation: 1 or 2; has no effect.
        return_sequences: Whether to return the outputs of all steps, not only of the last one.
        return_state: Whether to return also the states after the last step.
        go_backwards: Must be False.
        stateful: Whether a batch starts from the final states of the previous batch.
        unroll: Must be False.
        partials_dtype: Dtype of the partial sums of float16 products.
        seed: Seed of kernel initializers that are left out or given as a string, and of dropout
            without `dropout_seed`.
        time_major: Whether inputs and outputs have shape [steps, batch, ...].
        available_memory_proportion_fwd: See `PopnnOptions`, as for all after it.
        **kwargs: Arguments of every layer.

    Raises:
        NotImplementedError: An unsupported argument is given.
        ValueError: An activation, a dtype, a seed or a share is out of its range.
    """


class PopnnGRUBody(AnyKeras):
    """The parts of `PopnnGRU` that are the same over any Keras."""

    def __init__(
        self,
        units: int,
        activation: Activation = "tanh",
        recurrent_activation: Activation = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Initializer = "glorot_uniform",
        recurrent_initializer: Initializer = "orthogonal",
        bias_initializer: Initializer = "zeros",
        kernel_regularizer: Regularizer = None,
        recurrent_regularizer: Regularizer = None,
        bias_regularizer: Regularizer = None,
        activity_regularizer: Regularizer = None,
        kernel_constraint: Constraint = None,
        recurrent_constraint: Constraint = None,
        bias_constraint: Constraint = None,
        dropout: float = 0.0,
        dropout_seed: SeedPair = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 2,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        seed: int | None = None,
        partials_dtype: DType = "float32",
        time_major: bool = False,
        available_memory_proportion_fwd: float | None = None,
        available_memory_proportion_bwd: float | None = None,
        options: Mapping[str, object] | None = None,
        options_bwd: Mapping[str, object] | None = None,
        **kwargs: object,
    ) -> None:
        check_arguments(self, implementation, {**locals(), **kwargs})
        extra = parse_options(
            "GRU",
            dropout_seed=dropout_seed,
            partials_dtype=partials_dtype,
            time_major=time_major,
            available_memory_proportion_fwd=available_memory_proportion_fwd,
            available_memory_proportion_bwd=available_memory_proportion_bwd,
            options=options,
            options_bwd=options_bwd,
        )
        super().__init__(
            units,
            activation=activation_name("GRU", "activation", activation, ACTIVATIONS),
            recurrent_activation=activation_name(
                "GRU", "recurrent_activation", recurrent_activation, RECURRENT_ACTIVATIONS
            ),
            kernel_initializer=seeded(kernel_initializer, "glorot_uniform", seed, self._keras),
            recurrent_initializer=seeded(recurrent_initializer, "orthogonal", seed, self._keras),
            bias_initializer=bias_initializer or "zeros",
            return_sequences=return_sequences,
            return_state=return_state,
            stateful=stateful,
            reset_after=reset_after,
            **self._of_keras(seed=seed, time_major=time_major),
            **kwargs,
        )
        self._configure(extra, dropout)

    def state_shape(self, batch_size: int) -> list[int]:
        """Returns the shape of the state of a batch."""
        return [batch_size, self.units]


@keras.saving.register_keras_serializable("ipu_tf")
class PopnnGRU(PopnnGRUBody, PopnnRNN, keras.layers.GRU):
    """Keras' GRU, with its weights and gates in the same order: update, reset, candidate.

    Args:
        units: See `PopnnLSTM`, as for all arguments but `reset_after`.
        reset_after: Whether the reset gate applies after the product with the state, which then
            has its own biases, or before it.
        **kwargs: Arguments of every layer.

    Raises:
        NotImplementedError: An unsupported argument is given.
        ValueError: An activation, a dtype, a seed or a share is out of its range.
    """


LSTM = PopnnLSTM
GRU = PopnnGRU
