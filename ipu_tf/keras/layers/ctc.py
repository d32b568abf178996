"""The loss and the predictions of connectionist temporal classification (Graves et al., 2006)."""

from __future__ import annotations

import keras
import tensorflow as tf

from ipu_tf.keras.layers.ipu_layer import AnyKeras
from ipu_tf.ops.functions import ctc_ops


class CTCLossBody(AnyKeras):
    """The parts of `CTCLoss` that are the same over any Keras."""

    def __init__(self, blank_index: int = 0, from_logits: bool = False, **kwargs: object) -> None:
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.from_logits = from_logits

    def call(
        self,
        labels: tf.Tensor,
        data: tf.Tensor,
        label_length: tf.Tensor,
        data_length: tf.Tensor,
    ) -> tf.Tensor:
        """Returns the loss, of shape [1].

        Args:
            labels: Integers of shape [batch, labels].
            data: Logits or logarithms of probabilities, of shape [steps, batch, classes].
            label_length: Number of labels of each sample, of shape [batch].
            data_length: Number of steps of each sample, of shape [batch].
        """
        loss = ctc_ops.ctc_loss_v2 if self.from_logits else ctc_ops.ctc_loss_with_log_probs
        losses = loss(labels, data, label_length, data_length, self.blank_index)
        return tf.reshape(tf.reduce_mean(losses), [1])

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {
            **super().get_config(),
            "blank_index": self.blank_index,
            "from_logits": self.from_logits,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class CTCLoss(CTCLossBody, keras.layers.Layer):
    """The mean CTC loss of a batch.

    Args:
        blank_index: The class of the blank label.
        from_logits: Whether the data are logits, or logarithms of probabilities.
        **kwargs: Arguments of `keras.layers.Layer`.
    """

    def compute_output_spec(
        self,
        labels: keras.KerasTensor,
        data: keras.KerasTensor,
        label_length: keras.KerasTensor,
        data_length: keras.KerasTensor,
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the loss."""
        del labels, label_length, data_length
        return keras.KerasTensor((1,), dtype=data.dtype)


class CTCInferenceLayerBody(AnyKeras):
    """The parts of `CTCInferenceLayer` that are the same over any Keras."""

    def __init__(
        self,
        blank_index: int = 0,
        beam_width: int = 100,
        top_paths: int = 1,
        from_logits: bool = False,
        **kwargs: object,
    ) -> None:
        if not 1 <= top_paths <= beam_width:
            raise ValueError(
                f"{type(self).__name__}: top_paths must be from 1 to beam_width. "
                f"Received: top_paths={top_paths}, beam_width={beam_width}."
            )
        super().__init__(**kwargs)
        self.blank_index = blank_index
        self.beam_width = beam_width
        self.top_paths = top_paths
        self.from_logits = from_logits

    def call(self, data: tf.Tensor, data_length: tf.Tensor) -> ctc_ops.Decoded:
        """Returns the most likely sequences.

        Args:
            data: Logits or logarithms of probabilities, of shape [steps, batch, classes].
            data_length: Number of steps of each sample, of shape [batch].

        Returns:
            The negative logarithms of the sequences' probabilities, float32 of shape [batch,
            paths]; their lengths, int32 of shape [batch, paths]; the labels, int32 of shape
            [batch, paths, steps], blank beyond the length of a sequence.
        """
        return self._search(data, data_length)

    def _search(self, data: tf.Tensor, data_length: tf.Tensor) -> ctc_ops.Decoded:
        search = (
            ctc_ops.ctc_beam_search_decoder
            if self.from_logits
            else ctc_ops.ctc_beam_search_decoder_with_log_probs
        )
        return search(data, data_length, self.beam_width, self.top_paths, self.blank_index)

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        return {
            **super().get_config(),
            "blank_index": self.blank_index,
            "beam_width": self.beam_width,
            "top_paths": self.top_paths,
            "from_logits": self.from_logits,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class CTCInferenceLayer(CTCInferenceLayerBody, keras.layers.Layer):
    """The most likely sequences of labels, found by a beam search.

    Args:
        blank_index: The class of the blank label.
        beam_width: Number of sequences that the search keeps at a step.
        top_paths: Number of sequences that it returns.
        from_logits: Whether the data are logits, or logarithms of probabilities.
        **kwargs: Arguments of `keras.layers.Layer`.

    Raises:
        ValueError: `top_paths` is greater than `beam_width`, or below 1.
    """

    def compute_output_spec(
        self, data: keras.KerasTensor, data_length: keras.KerasTensor
    ) -> tuple[keras.KerasTensor, keras.KerasTensor, keras.KerasTensor]:
        """Returns the shapes and dtypes of the results."""
        del data_length
        steps, batch, _ = data.shape
        return (
            keras.KerasTensor((batch, self.top_paths), dtype="float32"),
            keras.KerasTensor((batch, self.top_paths), dtype="int32"),
            keras.KerasTensor((batch, self.top_paths, steps), dtype="int32"),
        )


class CTCPredictionsLayerBody(AnyKeras):
    """The parts of `CTCPredictionsLayer` that are the same over any Keras."""

    def call(self, data: tf.Tensor, data_length: tf.Tensor) -> tf.Tensor:
        """Returns the labels of the most likely sequence, int32 of shape [batch, steps].

        Args:
            data: Logits or logarithms of probabilities, of shape [steps, batch, classes].
            data_length: Number of steps of each sample, of shape [batch].
        """
        costs, _, labels = self._search(data, data_length)
        return tf.gather(labels, tf.argmin(costs, axis=1, output_type=tf.int32), batch_dims=1)


@keras.saving.register_keras_serializable("ipu_tf")
class CTCPredictionsLayer(CTCPredictionsLayerBody, CTCInferenceLayer):
    """The most likely sequence of labels, blank beyond its length.

    Its arguments are those of `CTCInferenceLayer`; it returns the best of the paths.
    """

    def compute_output_spec(
        self, data: keras.KerasTensor, data_length: keras.KerasTensor
    ) -> keras.KerasTensor:
        """Returns the shape and dtype of the labels."""
        _, _, labels = super().compute_output_spec(data, data_length)
        batch, _, steps = labels.shape
        return keras.KerasTensor((batch, steps), dtype="int32")
