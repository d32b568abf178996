"""Attention over batches of sequences of different lengths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import keras
import tensorflow as tf
from keras import ops

from ipu_tf.internals.structures import Shape
from ipu_tf.keras.layers.arguments import Activation, Initializer
from ipu_tf.keras.layers.dropout import Dropout
from ipu_tf.keras.layers.ipu_layer import AnyKeras
from ipu_tf.keras.layers.normalization import LayerNormalization

# Inputs of the layer: the sequences, their lengths, and optionally a mask of heads.
_INPUTS = (4, 5)


class EffectiveTransformerBody(AnyKeras):
    """The parts of `EffectiveTransformer` that are the same over any Keras."""

    _dropout: ClassVar[Any]
    _norm: ClassVar[Any]

    def __init__(
        self,
        output_layer_size: int,
        max_batch_size: int,
        use_scale: bool = False,
        num_attention_heads: int = 1,
        attention_head_size: int = 1,
        sequences_per_iter: int = 1,
        qkv_activation: Activation = None,
        attention_dropout_prob: float | None = None,
        output_activation: Activation = None,
        output_dropout_prob: float | None = None,
        layer_norm_output: bool = True,
        embedding_initializer: Initializer = "glorot_uniform",
        embedding_bias_initializer: Initializer = "zeros",
        output_initializer: Initializer = "glorot_uniform",
        output_bias_initializer: Initializer = "zeros",
        **kwargs: object,
    ) -> None:
        if sequences_per_iter > max_batch_size:
            raise ValueError(
                "EffectiveTransformer: max_batch_size must be at least sequences_per_iter. "
                f"Received: max_batch_size={max_batch_size}, "
                f"sequences_per_iter={sequences_per_iter}."
            )
        super().__init__(**kwargs)
        self.output_layer_size = output_layer_size
        self.max_batch_size = max_batch_size
        self.use_scale = use_scale
        self.num_attention_heads = num_attention_heads
        self.attention_head_size = attention_head_size
        self.sequences_per_iter = sequences_per_iter
        self.qkv_activation = self._keras.activations.get(qkv_activation)
        self.attention_dropout_prob = attention_dropout_prob
        self.output_activation = self._keras.activations.get(output_activation)
        self.output_dropout_prob = output_dropout_prob
        self.layer_norm_output = layer_norm_output
        self.embedding_initializer = self._keras.initializers.get(embedding_initializer)
        self.embedding_bias_initializer = self._keras.initializers.get(embedding_bias_initializer)
        self.output_initializer = self._keras.initializers.get(output_initializer)
        self.output_bias_initializer = self._keras.initializers.get(output_bias_initializer)
        self._make_layers()

    def _make_layers(self) -> None:
        policy = self.dtype_policy
        self._embeddings = [
            self._keras.layers.Dense(
                self.num_attention_heads * self.attention_head_size,
                activation=self.qkv_activation,
                kernel_initializer=_fresh(self.embedding_initializer),
                bias_initializer=_fresh(self.embedding_bias_initializer),
                name=f"{part}_layer",
                dtype=policy,
            )
            for part in ("query", "key", "value")
        ]
        self._output_layer = self._keras.layers.Dense(
            self.output_layer_size,
            activation=self.output_activation,
            kernel_initializer=self.output_initializer,
            bias_initializer=self.output_bias_initializer,
            name="output_layer",
            dtype=policy,
        )
        self._attention_dropout = self._dropout(self.attention_dropout_prob or 0.0, dtype=policy)
        self._output_dropout = self._dropout(self.output_dropout_prob or 0.0, dtype=policy)
        self._layer_norm = self._norm(dtype=policy) if self.layer_norm_output else None

    def build(self, input_shape: Sequence[Shape]) -> None:
        """Makes the weights.

        Args:
            input_shape: The shapes of the inputs of `call`.
        """
        if len(input_shape) not in _INPUTS:
            raise ValueError(
                f"EffectiveTransformer layer '{self.name}' must be built with either four or five "
                f"input shapes. Received: {len(input_shape)} shapes."
            )
        from_shape: Any = input_shape[0]  # The number of steps is static.
        for layer in self._embeddings:
            layer.build((*from_shape, 1))
        features = from_shape[1] * self.num_attention_heads * self.attention_head_size
        self._output_layer.build((from_shape[0], features))
        if self._layer_norm is not None:
            self._layer_norm.build((from_shape[0], self.output_layer_size))
        self._scale = (
            self.add_weight(shape=(1,), name="scale", initializer="ones")
            if self.use_scale
            else None
        )
        self.built = True

    def call(
        self, inputs: Sequence[tf.Tensor], training: bool | None = True
    ) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the outputs and the context.

        Args:
            inputs: The sequences to attend from, of shape [batch, from]; their lengths, of shape
                [batch] or [batch, 1]; the sequences to attend to, of shape [batch, to]; their
                lengths; and maybe a mask of shape [batch, heads] that is False where the context of
                a head is to be zero.
            training: Whether to apply dropout to the context and the outputs.

        Returns:
            The outputs, of shape [batch, output_layer_size], and the context, of shape [batch,
            from, heads, head size].
        """
        self._check(inputs)
        from_sequences, from_lengths, to_sequences, to_lengths, *mask = inputs
        parts = [(from_sequences, from_lengths), (to_sequences, to_lengths)]
        query, key, value = (
            self._heads(layer, *part)
            for layer, part in zip(self._embeddings, (parts[0], parts[1], parts[1]), strict=True)
        )
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
        if self._scale is not None:
            scores = ops.multiply(scores, self._scale)
        context = ops.matmul(ops.softmax(scores), value)
        if mask:
            heads = ops.cast(mask[0], context.dtype)
            context = ops.multiply(context, heads[:, :, None, None])
        context = self._attention_dropout(context, training=training)
        context = ops.transpose(context, (0, 2, 1, 3))
        flat = ops.reshape(context, (ops.shape(context)[0], -1))
        outputs = self._output_dropout(self._output_layer(flat), training=training)
        return outputs if self._layer_norm is None else self._layer_norm(outputs), context

    def _heads(
        self, layer: keras.layers.Layer, sequences: tf.Tensor, lengths: tf.Tensor
    ) -> tf.Tensor:
        """Returns embedded sequences, zero beyond their lengths, [batch, heads, steps, size]."""
        batch, steps = ops.shape(sequences)
        embedded = layer(ops.cast(sequences, self.compute_dtype)[:, :, None])
        inside = ops.arange(steps, dtype="int32")[None, :] < ops.cast(
            ops.reshape(lengths, (-1, 1)), "int32"
        )
        embedded = ops.multiply(embedded, ops.cast(inside, embedded.dtype)[:, :, None])
        heads = (batch, steps, self.num_attention_heads, self.attention_head_size)
        return ops.transpose(ops.reshape(embedded, heads), (0, 2, 1, 3))

    def _check(self, inputs: Sequence[tf.Tensor]) -> None:
        """Checks that the inputs fit together.

        Raises:
            ValueError: They do not.
        """
        if len(inputs) not in _INPUTS:
            raise ValueError(
                f"EffectiveTransformer layer '{self.name}' must take either four or five inputs. "
                f"Received: {len(inputs)} inputs."
            )
        from_sequences, from_lengths, to_sequences, to_lengths, *mask = inputs
        batch = from_sequences.shape[0]
        heads = (batch, self.num_attention_heads)
        rules = {
            "from_sequences and to_sequences must be equal rank": (
                len(from_sequences.shape) == len(to_sequences.shape)
            ),
            "from_sequences and to_sequences must contain an equal number of sequences": (
                batch == to_sequences.shape[0]
            ),
            "from_sequence_lengths and to_sequence_lengths must have lengths equal to the number "
            "of sequences provided": (
                from_lengths.shape[0] == batch and from_lengths.shape == to_lengths.shape
            ),
            "from_sequences and to_sequences must be equal types": (
                from_sequences.dtype == to_sequences.dtype
            ),
            "q_mask must have shape [num_sequences, num_attention_heads]": (
                not mask or tuple(mask[0].shape) == heads
            ),
        }
        for rule, attributes in rules.items():
            if not attributes:
                shapes = ", ".join(f"{tuple(x.shape)} {_dtype_name(x)}" for x in inputs)
                raise ValueError(
                    f"EffectiveTransformer layer '{self.name}': {rule}. Received: {shapes}."
                )

    def compute_output_shape(self, input_shape: Sequence[Shape]) -> tuple[Shape, Shape]:
        """Returns the shapes of the outputs and of the context."""
        batch, steps = input_shape[0]
        context = (batch, steps, self.num_attention_heads, self.attention_head_size)
        return (batch, self.output_layer_size), context

    def get_config(self) -> dict[str, object]:
        """Returns the arguments that make this layer."""
        initializers = {
            name: self._keras.initializers.serialize(getattr(self, name))
            for name in (
                "embedding_initializer",
                "embedding_bias_initializer",
                "output_initializer",
                "output_bias_initializer",
            )
        }
        return {
            **super().get_config(),
            "output_layer_size": self.output_layer_size,
            "max_batch_size": self.max_batch_size,
            "use_scale": self.use_scale,
            "num_attention_heads": self.num_attention_heads,
            "attention_head_size": self.attention_head_size,
            "sequences_per_iter": self.sequences_per_iter,
            "qkv_activation": self._keras.activations.serialize(self.qkv_activation),
            "attention_dropout_prob": self.attention_dropout_prob,
            "output_activation": self._keras.activations.serialize(self.output_activation),
            "output_dropout_prob": self.output_dropout_prob,
            "layer_norm_output": self.layer_norm_output,
            **initializers,
        }


@keras.saving.register_keras_serializable("ipu_tf")
class EffectiveTransformer(EffectiveTransformerBody, keras.layers.Layer):
    """Multi-head attention (Vaswani et al., 2017) from one batch of sequences to another.

    The elements of a sequence are numbers, embedded one by one. Queries, keys and values beyond
    the length of a sequence are zero; zero keys take part in the softmax. The device packs the
    sequences of a batch without their padding before it embeds them, by `max_batch_size` and
    `sequences_per_iter`; results do not depend on how it packs them.

    Args:
        output_layer_size: Number of outputs.
        max_batch_size: Greatest number of sequences in a pack.
        use_scale: Whether the scores are scaled by a weight.
        num_attention_heads: Number of heads.
        attention_head_size: Size of a head.
        sequences_per_iter: Number of full sequences that fit into a pack.
        qkv_activation: Activation function of queries, keys and values.
        attention_dropout_prob: Share of the context that is dropped in training, none if None.
        output_activation: Activation function of the outputs.
        output_dropout_prob: Share of the outputs that is dropped in training, none if None.
        layer_norm_output: Whether the outputs are normalized.
        embedding_initializer: Initializer of the kernels of queries, keys and values.
        embedding_bias_initializer: Initializer of their biases.
        output_initializer: Initializer of the kernel of the outputs.
        output_bias_initializer: Initializer of their biases.
        **kwargs: Arguments of every layer.

    Raises:
        ValueError: `sequences_per_iter` is greater than `max_batch_size`; in `build` or `call`, if
            the inputs do not fit together.
    """

    _dropout = Dropout
    _norm = LayerNormalization


def _fresh(initializer: Any) -> Initializer:
    """Returns a copy of an initializer; without a seed it draws other values than the original."""
    is_object = hasattr(initializer, "get_config")
    return type(initializer).from_config(initializer.get_config()) if is_object else initializer


def _dtype_name(tensor: tf.Tensor) -> str:
    return keras.backend.standardize_dtype(tensor.dtype)
