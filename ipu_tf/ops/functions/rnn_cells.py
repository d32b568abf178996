"""Recurrent cells over sequences: LSTM, GRU, and GRU with attention.

Gates are in Keras' order: input, forget, candidate, output for an LSTM; update, reset, candidate
for a GRU. The vendor's TensorFlow sets this order in the machine's library, whose own differs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

Activation = Callable[[tf.Tensor], tf.Tensor]
States = tuple[tf.Tensor, ...]

ACTIVATIONS: dict[str, Activation] = {
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "softmax": tf.nn.softmax,
    "sigmoid": tf.sigmoid,
    "hard_sigmoid": lambda x: tf.clip_by_value(x * 0.2 + 0.5, 0, 1),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """The weights of a cell.

    Attributes:
        inputs: The kernel of the inputs, of shape [features, gates * units].
        states: The kernel of the state, of shape [units, gates * units].
        biases: The biases, of shape [gates, units]; [gates, 2, units] for a GRU that resets after
            its product, those of the inputs first.
    """

    inputs: tf.Tensor
    states: tf.Tensor
    biases: tf.Tensor

    @property
    def units(self) -> int:
        """Number of outputs."""
        return int(self.states.shape[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lstm:
    """The step of an LSTM; its states are the cell state and the outputs."""

    weights: Weights
    activation: Activation
    recurrent_activation: Activation

    def prepared(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the part of the gates that depends on the inputs, for all steps at once."""
        return _product(inputs, self.weights.inputs) + tf.reshape(self.weights.biases, [-1])

    def step(
        self, part: tf.Tensor, states: States, attention: tf.Tensor | None
    ) -> tuple[tf.Tensor, States]:
        """Returns the outputs and the states after a step."""
        del attention
        cell, outputs = states
        gates = tf.split(part + tf.matmul(outputs, self.weights.states), 4, axis=1)
        write, forget, candidate, expose = gates
        cell = self.recurrent_activation(forget) * cell + self.recurrent_activation(
            write
        ) * self.activation(candidate)
        outputs = self.recurrent_activation(expose) * self.activation(cell)
        return outputs, (cell, outputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gru:
    """The step of a GRU; its state is its outputs.

    Attributes:
        weights: The weights.
        activation: Activation of the candidate.
        recurrent_activation: Activation of the gates.
        reset_after: Whether the reset gate multiplies the state's product, not the state.
    """

    weights: Weights
    activation: Activation
    recurrent_activation: Activation
    reset_after: bool

    def prepared(self, inputs: tf.Tensor) -> tf.Tensor:
        """Returns the part of the gates that depends on the inputs, for all steps at once."""
        biases = self.weights.biases[:, 0] if self.reset_after else self.weights.biases
        return _product(inputs, self.weights.inputs) + tf.reshape(biases, [-1])

    def step(
        self, part: tf.Tensor, states: States, attention: tf.Tensor | None
    ) -> tuple[tf.Tensor, States]:
        """Returns the outputs and the state after a step; attention damps the update gate."""
        (outputs,) = states
        of_update, of_reset, of_candidate = tf.split(part, 3, axis=1)
        kernels = tf.split(self.weights.states, 3, axis=1)
        if self.reset_after:
            biases = tf.reshape(self.weights.biases[:, 1], [-1])
            recurrent = tf.split(tf.matmul(outputs, self.weights.states) + biases, 3, axis=1)
            update = self.recurrent_activation(of_update + recurrent[0])
            reset = self.recurrent_activation(of_reset + recurrent[1])
            candidate = self.activation(of_candidate + reset * recurrent[2])
        else:
            gates = tf.matmul(outputs, tf.concat(kernels[:2], axis=1))
            of_state_update, of_state_reset = tf.split(gates, 2, axis=1)
            update = self.recurrent_activation(of_update + of_state_update)
            reset = self.recurrent_activation(of_reset + of_state_reset)
            candidate = self.activation(of_candidate + tf.matmul(reset * outputs, kernels[2]))
        if attention is not None:
            update *= 1 - attention[:, tf.newaxis]
        outputs = update * outputs + (1 - update) * candidate
        return outputs, (outputs,)


def run(
    cell: Lstm | Gru,
    inputs: tf.Tensor,
    states: States,
    *,
    lengths: tf.Tensor | None = None,
    attention: tf.Tensor | None = None,
) -> tuple[tf.Tensor, States]:
    """Returns the outputs of all steps, and the states after the last one.

    Args:
        cell: The cell.
        inputs: The sequences, of shape [steps, batch, features].
        states: The states before the first step, each of shape [batch, units].
        lengths: Steps of each sequence, of shape [batch]; outputs of later steps are 0, and the
            states are those after the last step of the sequence.
        attention: Scores of shape [steps, batch], for a GRU.
    """
    parts = cell.prepared(inputs)
    steps, batch = inputs.shape[0], inputs.shape[1]
    outputs_of_steps = tf.TensorArray(
        inputs.dtype, size=steps, element_shape=(batch, cell.weights.units), name="outputs"
    )

    def body(number: tf.Tensor, outputs_of_steps: Any, *states: tf.Tensor) -> Any:
        score = None if attention is None else attention[number]
        outputs, after = cell.step(parts[number], states, score)
        if lengths is not None:
            is_inside = tf.reshape(number < lengths, [-1, 1])
            outputs = tf.where(is_inside, outputs, tf.zeros_like(outputs))
            after = tuple(
                tf.where(is_inside, new, old) for new, old in zip(after, states, strict=True)
            )
        return (number + 1, outputs_of_steps.write(number, outputs), *after)

    _, outputs_of_steps, *after = tf.while_loop(
        lambda number, *_: number < steps,
        body,
        (tf.constant(0), outputs_of_steps, *states),
        maximum_iterations=steps,
    )
    return outputs_of_steps.stack(), tuple(after)


def _product(inputs: tf.Tensor, kernel: tf.Tensor) -> tf.Tensor:
    """Returns the products of all steps with a kernel, as one product."""
    steps, batch, features = inputs.shape
    flat = tf.matmul(tf.reshape(inputs, [steps * batch, features]), kernel)
    return tf.reshape(flat, [steps, batch, kernel.shape[1]])
