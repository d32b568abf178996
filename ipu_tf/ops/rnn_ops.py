"""Recurrent layers for sequences whose first axis is the steps, in the style of TensorFlow 1."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from ipu_tf import scopes
from ipu_tf.config.poplar_options import parse_partials
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.ops.functions import rnn_cells
from ipu_tf.ops.functions.program_variables import Initializer, VariableScope
from ipu_tf.ops.functions.rnn_cells import ACTIVATIONS, Gru, Lstm, Weights

LSTMStateTuple = namedtuple("LSTMStateTuple", ("c", "h"))
"""The states of an LSTM: cell state and outputs, each of shape [batch, units]."""

_RECURRENT = ("tanh", "softmax", "sigmoid", "hard_sigmoid")


class _PopnnRNN(tf.Module):
    """A recurrent layer that makes its weights at its first call.

    Args:
        num_units: Number of outputs.
        dtype: Type of inputs and weights, float16 or float32.
        partials_dtype: Type of the partial sums of float16 products.
        seed: Seed of the initializer of the kernel.
        weights_initializer: Initializer of the kernel, Glorot's uniform if None.
        bias_initializer: Initializer of the biases. Zeros if None; those of a `PopnnAUGRU`'s gates
            are then 1.
        activation: Activation function: tanh, relu, softmax, sigmoid or hard_sigmoid.
        recurrent_activation: Activation of the gates: tanh, softmax, sigmoid or hard_sigmoid.
        return_state: Whether calls return the final states, too.
        name: Name of the layer.
        options: Options of the forward pass for the vendor's compiler; without effect.
        options_bwd: The same of the backward pass.

    Raises:
        ValueError: An argument is out of its range.
    """

    _gates: int

    def __init__(
        self,
        num_units: int,
        dtype: Any = tf.float32,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: str = "tanh",
        recurrent_activation: str = "sigmoid",
        return_state: bool = True,
        name: str | None = None,
        options: Mapping[str, Any] | None = None,
        options_bwd: Mapping[str, Any] | None = None,
    ) -> None:
        del options, options_bwd
        owner = type(self).__name__
        super().__init__(name=name or owner.lower())
        if isinstance(num_units, bool) or not isinstance(num_units, int) or num_units < 1:
            raise ValueError(
                f"{owner}: num_units must be a positive integer. Received: num_units={num_units!r}."
            )
        self._dtype = tf.as_dtype(dtype)
        if self._dtype not in (tf.float16, tf.float32):
            raise ValueError(
                f"{owner}: only float16 and float32 are supported. Received: dtype={dtype!r}."
            )
        partials = parse_partials(partials_dtype)
        if partials is None:
            raise ValueError(
                f"{owner}: partials_dtype must be tf.float16 or tf.float32. "
                f"Received: partials_dtype={partials_dtype!r}."
            )
        self._units = num_units
        self._partials = partials
        self._weights_initializer = weights_initializer or tf.keras.initializers.GlorotUniform(seed)
        self._bias_initializer = bias_initializer or self._default_biases
        self._activation = _activation(owner, "activation", activation, tuple(ACTIVATIONS))
        self._recurrent_activation = _activation(
            owner, "recurrent_activation", recurrent_activation, _RECURRENT
        )
        self._return_state = return_state
        self._built = False

    @property
    def num_units(self) -> int:
        """Number of outputs."""
        return self._units

    @property
    def num_layers(self) -> int:
        """Number of layers: one."""
        return 1

    @property
    def input_size(self) -> int:
        """Number of features of a step.

        Raises:
            ValueError: The layer is not built.
        """
        if not self._built:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}' does not know its number of features "
                "before it is built. Call it, or its `build`, first."
            )
        return self._features

    @property
    def built(self) -> bool:
        """Whether the weights exist."""
        return self._built

    @property
    def canonical_weight_shape(self) -> list[int]:
        """Shape of the kernel: the rows of the inputs, then those of the state.

        Raises:
            ValueError: The layer is not built.
        """
        return [self.input_size + self._units, self._gates * self._units]

    @property
    def canonical_bias_shapes(self) -> list[int]:
        """Shape of the biases."""
        return [self._gates, self._units]

    @property
    def saveable(self) -> bool:
        """Always False: checkpoints save the layer's `variables`."""
        return False

    def build(self, input_shape: Any) -> None:
        """Makes the weights for inputs of shape [steps, batch, features].

        Raises:
            ValueError: The shape is not static, or of another rank.
        """
        shape = tf.TensorShape(input_shape)
        if shape.rank != 3 or not shape.is_fully_defined():
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': the inputs must have a static shape "
                f"[steps, batch, features]. Received: {shape}."
            )
        self._features = shape[2]
        scope = VariableScope(None, self.name)
        with scope.opened([]):
            self.kernel = scope.variable(
                "kernel",
                (self._features + self._units, self._gates * self._units),
                self._dtype,
                _initializer_of(self._weights_initializer),
            )
            self.biases = scope.variable(
                "biases",
                tuple(self.canonical_bias_shapes),
                self._dtype,
                _initializer_of(self._bias_initializer),
            )
        self._built = True

    @tf.autograph.experimental.do_not_convert
    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Returns `call` of the arguments; makes the weights first if there are none."""
        return self.call(inputs, *args, **kwargs)

    def call(self, inputs: Any, initial_state: Any = None, training: bool = True) -> Any:
        """Returns the outputs of all steps, followed by the final states if `return_state`.

        Args:
            inputs: The sequences, of shape [steps, batch, features].
            initial_state: The states before the first step; zeros if None.
            training: Accepted; the values are the same.

        Returns:
            Outputs of shape [steps, batch, units], and the states of that shape without steps.
        """
        del training
        return self._run(inputs, initial_state)

    def state_shape(self, batch_size: int) -> Any:
        """Returns the shape of a state."""
        return [batch_size, self._units]

    def _default_biases(self, shape: Any, dtype: tf.DType) -> tf.Tensor:
        return tf.zeros(shape, dtype)

    def _run(
        self,
        inputs: Any,
        initial_state: Any,
        seq_len: Any = None,
        attention: tf.Tensor | None = None,
        *,
        time_major: bool = True,
    ) -> Any:
        if not tf.is_tensor(inputs):
            inputs = tf.convert_to_tensor(inputs, self._dtype)
        if inputs.dtype != self._dtype:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}' has dtype {self._dtype.name}: tf.cast "
                f"the inputs. Received: {inputs.dtype.name}."
            )
        if not self._built:
            self.build(inputs.shape)
        if not time_major:
            inputs = tf.transpose(inputs, (1, 0, 2))
        lengths = None if seq_len is None else tf.cast(seq_len, tf.int32)
        if lengths is not None and lengths.shape != (inputs.shape[1],):
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': seq_len must have a length for each "
                f"of {inputs.shape[1]} sequences. Received: shape {lengths.shape}."
            )
        states = self._states(initial_state, inputs.shape[1])
        with tf.name_scope(self.name), scopes.partials_type(self._partials):
            outputs, after = rnn_cells.run(
                self._cell(), inputs, states, lengths=lengths, attention=attention
            )
        return (outputs, self._state_of(after)) if self._return_state else outputs

    def _weights(self) -> Weights:
        kernel = tf.convert_to_tensor(self.kernel)
        return Weights(
            inputs=kernel[: self._features],
            states=kernel[self._features :],
            biases=tf.convert_to_tensor(self.biases),
        )

    def _cell(self) -> Lstm | Gru:
        raise NotImplementedError

    def _states(self, initial_state: Any, batch: int) -> rnn_cells.States:
        if initial_state is None:
            return (tf.zeros([batch, self._units], self._dtype),)
        return (tf.convert_to_tensor(initial_state, self._dtype),)

    def _state_of(self, states: rnn_cells.States) -> Any:
        return states[0]


class PopnnLSTM(_PopnnRNN):
    """An LSTM; its kernel has the gates input, forget, candidate and output, in Keras' order.

    States are an `LSTMStateTuple`. Its arguments are those of `_PopnnRNN`.
    """

    _gates = 4

    def state_shape(self, batch_size: int) -> tuple[list[int], list[int]]:
        """Returns the shapes of the cell state and of the outputs."""
        return [batch_size, self._units], [batch_size, self._units]

    def _cell(self) -> Lstm:
        return Lstm(
            weights=self._weights(),
            activation=self._activation,
            recurrent_activation=self._recurrent_activation,
        )

    def _states(self, initial_state: Any, batch: int) -> rnn_cells.States:
        if initial_state is None:
            zeros = tf.zeros([batch, self._units], self._dtype)
            return zeros, zeros
        if getattr(initial_state, "_fields", None) != LSTMStateTuple._fields:
            raise ValueError(
                f"{type(self).__name__} layer '{self.name}': initial_state must be an "
                "LSTMStateTuple(c, h) of the cell state and the outputs. Received: a "
                f"{type(initial_state).__name__}."
            )
        cell, outputs = (tf.convert_to_tensor(state, self._dtype) for state in initial_state)
        return cell, outputs

    def _state_of(self, states: rnn_cells.States) -> LSTMStateTuple:
        return LSTMStateTuple(*states)


class PopnnDynamicLSTM(PopnnLSTM):
    """An LSTM for sequences of different lengths; see `PopnnLSTM`."""

    def call(  # type: ignore[override] # The vendor's signature.
        self,
        inputs: tf.Tensor,
        seq_len: tf.Tensor,
        initial_state: TensorStructure = None,
        training: bool = True,
    ) -> TensorStructure:
        """Returns the outputs, 0 beyond a sequence's length, and the states after its last step.

        Args:
            inputs: The sequences, of shape [steps, batch, features].
            seq_len: Steps of each sequence, of shape [batch].
            initial_state: See `PopnnLSTM`.
            training: See there.
        """
        del training
        return self._run(inputs, initial_state, seq_len)


class PopnnGRU(_PopnnRNN):
    """A GRU; its kernel has the gates update, reset and candidate, in Keras' order.

    Args:
        num_units: See `_PopnnRNN`, as for all that are not described.
        reset_after: Whether the reset gate multiplies the state's product rather than the state.
            The biases then have shape [3, 2, units], those of the inputs first.
    """

    _gates = 3

    def __init__(
        self,
        num_units: int,
        dtype: tf.DType | str | None = tf.float32,
        partials_dtype: tf.DType | str | None = tf.float32,
        seed: int | None = None,
        weights_initializer: object = None,
        bias_initializer: object = None,
        activation: str = "tanh",
        recurrent_activation: str = "sigmoid",
        return_state: bool = True,
        name: str | None = None,
        reset_after: bool = False,
        options: Mapping[str, object] | None = None,
        options_bwd: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(
            num_units,
            dtype,
            partials_dtype,
            seed,
            weights_initializer,
            bias_initializer,
            activation,
            recurrent_activation,
            return_state,
            name,
            options,
            options_bwd,
        )
        self._reset_after = reset_after

    @property
    def canonical_bias_shapes(self) -> list[int]:
        """Shape of the biases."""
        gates, units = super().canonical_bias_shapes
        return [gates, 2, units] if self._reset_after else [gates, units]

    def _cell(self) -> Gru:
        return Gru(
            weights=self._weights(),
            activation=self._activation,
            recurrent_activation=self._recurrent_activation,
            reset_after=self._reset_after,
        )


class PopnnDynamicGRU(PopnnGRU):
    """A GRU for sequences of different lengths; see `PopnnGRU`."""

    def call(  # type: ignore[override] # The vendor's signature.
        self,
        inputs: tf.Tensor,
        seq_len: tf.Tensor,
        initial_state: TensorStructure = None,
        training: bool = True,
        time_major: bool = True,
    ) -> TensorStructure:
        """Returns the outputs, 0 beyond a sequence's length, and the state after its last step.

        Args:
            inputs: The sequences, of shape [steps, batch, features].
            seq_len: Steps of each sequence, of shape [batch].
            initial_state: The state before the first step, of shape [batch, units].
            training: Accepted; the values are the same.
            time_major: Whether steps are the first axis of the inputs, not the second. They are
                the first axis of the outputs in any case.
        """
        del training
        return self._run(inputs, initial_state, seq_len, time_major=time_major)


class PopnnAUGRU(PopnnGRU):
    """A GRU whose update gate is damped by attention (Zhou et al., 2018); see `PopnnGRU`.

    Without a `bias_initializer`, the biases of its gates are 1 and those of its candidate 0.
    """

    def call(  # type: ignore[override] # The vendor's signature.
        self,
        inputs: tf.Tensor,
        seq_len: tf.Tensor,
        attention_score: tf.Tensor,
        initial_state: TensorStructure = None,
        training: bool = True,
        time_major: bool = True,
    ) -> TensorStructure:
        """Returns the outputs, 0 beyond a sequence's length, and the state after its last step.

        Args:
            inputs: See `PopnnDynamicGRU`, as for all that are not described.
            attention_score: Scores of shape [steps, batch], or [batch, steps] without `time_major`:
                the update gate is multiplied by one less the score.

        Raises:
            ValueError: There is not a score for every step.
        """
        del training
        if not tf.is_tensor(inputs):
            inputs = tf.convert_to_tensor(inputs, self._dtype)
        scores = tf.convert_to_tensor(attention_score, self._dtype)
        if scores.shape != inputs.shape[:2]:
            axes = "[steps, batch]" if time_major else "[batch, steps]"
            raise ValueError(
                f"PopnnAUGRU layer '{self.name}': attention_score must have the first axes of the "
                f"inputs, {axes} = {list(inputs.shape[:2])}. Received: shape {scores.shape}."
            )
        if not time_major:
            scores = tf.transpose(scores)
        return self._run(inputs, initial_state, seq_len, scores, time_major=time_major)

    def _default_biases(self, shape: Any, dtype: tf.DType) -> tf.Tensor:
        gates = tf.constant([1, 1, 0], dtype)
        return tf.broadcast_to(tf.reshape(gates, [-1] + [1] * (len(shape) - 1)), shape)


def _activation(
    owner: str, argument: str, name: str, names: tuple[str, ...]
) -> rnn_cells.Activation:
    if name not in names:
        raise ValueError(
            f"{owner}: `{argument}` must be one of {', '.join(names)}. "
            f"Received: {argument}={name!r}."
        )
    return ACTIVATIONS[name]


def _initializer_of(initializer: Any) -> Initializer:
    """Returns an initializer that draws the same numbers in every type.

    A class of initializers is made with its defaults.
    """
    draw: Initializer = initializer() if isinstance(initializer, type) else initializer

    def initialize(shape: Any, dtype: tf.DType) -> tf.Tensor:
        return tf.cast(draw(shape, dtype=tf.float32), dtype)

    return initialize
