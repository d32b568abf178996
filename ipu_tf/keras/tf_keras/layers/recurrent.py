"""LSTM and GRU for tf_keras."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import keras
import tensorflow as tf
import tf_keras

from ipu_tf import scopes
from ipu_tf.internals.tf_keras import forgo_library_kernels
from ipu_tf.keras.layers.ipu_layer import drop, refuse
from ipu_tf.keras.layers.recurrent import PopnnBody, PopnnOptions
from ipu_tf.keras.layers.rnn import PopnnGRUBody, PopnnLSTMBody
from ipu_tf.keras.tf_keras.layers.base import IPULayer, OfTfKeras, registered


class PopnnRNN(PopnnBody, OfTfKeras):
    """What the recurrent layers change of those of tf_keras, which they name after this class."""

    def _of_keras(self, *, seed: int | None, time_major: bool) -> dict[str, object]:
        """Returns the arguments that tf_keras alone has."""
        del seed  # Initializers have it.
        return {"time_major": time_major}

    def _configure(self, options: PopnnOptions, dropout: float) -> None:
        """Sets the IPU's options, once the layer is made."""
        super()._configure(options, dropout)
        forgo_library_kernels(self)

    def call(
        self,
        inputs: tf.Tensor | list[tf.Tensor],
        mask: tf.Tensor | None = None,
        training: bool | None = None,
        initial_state: Sequence[tf.Tensor] | None = None,
    ) -> tf.Tensor | tuple[tf.Tensor, ...]:
        """Returns the outputs of the sequences, and the states if `return_state`.

        Args:
            inputs: Sequences of shape [batch, steps, features], [steps, batch, features] if
                `time_major`; tf_keras gives them in a list with symbolic initial states.
            mask: Not supported.
            training: Whether to apply dropout to the inputs.
            initial_state: The states before the first step, each of shape [batch, units]; zeros if
                None.

        Returns:
            What the layer of tf_keras returns.
        """
        refuse(self, "call", mask=mask)
        sequences, *states = inputs if isinstance(inputs, list) else [inputs]
        if training and self._rate:
            sizes = list(keras.ops.shape(sequences))
            sizes[0 if self.time_major else 1] = 1  # The same inputs at every step.
            seed = self._popnn.dropout_seed
            if seed is None:
                sequences = tf.nn.dropout(sequences, self._rate, noise_shape=sizes)
            else:
                sequences = drop(sequences, self._rate, sizes, seed)
        partials = scopes.partials_type(self._popnn.partials_dtype)
        with partials if self.compute_dtype == "float16" else contextlib.nullcontext():
            return super().call(sequences, training=False, initial_state=states or initial_state)


@registered
class PopnnLSTM(PopnnLSTMBody, PopnnRNN, IPULayer, tf_keras.layers.LSTM):
    """See `ipu_tf.keras.layers.PopnnLSTM`."""


@registered
class PopnnGRU(PopnnGRUBody, PopnnRNN, IPULayer, tf_keras.layers.GRU):
    """See `ipu_tf.keras.layers.PopnnGRU`."""
