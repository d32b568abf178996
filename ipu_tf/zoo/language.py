"""Language models: BERT with its heads of pre-training and of SQuAD, GPT-2, and a GPT-3.

Sources: Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language
Understanding", arXiv 1810.04805, section 3 and the vocabulary of the authors' code. Radford et al.,
"Language Models are Unsupervised Multitask Learners", OpenAI 2019, table 2. Brown et al., "Language
Models are Few-Shot Learners", arXiv 2005.14165, table 2.1; every layer attends densely here.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.layers import Gelu, Position
from ipu_tf.zoo.policies import dtype_policy
from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain
from ipu_tf.zoo.transformer import Transformer

_BERT_VOCABULARY = 30522
_BERT_POSITIONS = 512
_BERT_EPSILON = 1e-12
_GPT_VOCABULARY = 50257
_GPT_EPSILON = 1e-5


def bert_base(
    *,
    sequence_length: int = 128,
    masked_tokens: int = 20,
    dropout: float = 0.1,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = _BERT_VOCABULARY,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns BERT base with the heads of pre-training.

    It takes tokens, segments and mask, int32[batch, sequence_length], and the positions of masked
    tokens, int32[batch, masked_tokens]; it returns the logits of these tokens, and those of whether
    the second sentence follows the first. Blocks are "embeddings", layers "0" on, and "head".
    """
    inputs = {**_sequences(sequence_length), "positions": _integers(masked_tokens, "positions")}
    words = layers.ReversibleEmbedding(vocabulary, width, name="embeddings_words")

    def head(tokens: Any) -> Any:
        return _pretraining(tokens, inputs["positions"], words, width)

    blocks = _bert_blocks(inputs, words, dropout, depth, width, heads)
    outputs = chain(inputs["tokens"], [*blocks, ("head", head)], placement)
    return keras.Model([*inputs.values()], outputs, name="bert")


def bert_large(
    *,
    sequence_length: int = 128,
    masked_tokens: int = 20,
    dropout: float = 0.1,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns BERT large with the heads of pre-training; see `bert_base`."""
    return bert_base(
        sequence_length=sequence_length,
        masked_tokens=masked_tokens,
        dropout=dropout,
        depth=24,
        width=1024,
        heads=16,
        placement=placement,
    )


def bert_base_squad(
    *,
    sequence_length: int = 384,
    dropout: float = 0.1,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = _BERT_VOCABULARY,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns BERT base with the head of SQuAD.

    It takes tokens, segments and mask, int32[batch, sequence_length]; it returns the logits of the
    first and of the last token of the answer, [batch, sequence_length] both. Blocks as in
    `bert_base`.
    """
    inputs = _sequences(sequence_length)
    words = layers.ReversibleEmbedding(vocabulary, width, name="embeddings_words")
    blocks = _bert_blocks(inputs, words, dropout, depth, width, heads)
    outputs = chain(inputs["tokens"], [*blocks, ("head", _answer)], placement)
    return keras.Model([*inputs.values()], outputs, name="bert_squad")


def bert_large_squad(
    *, sequence_length: int = 384, dropout: float = 0.1, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns BERT large with the head of SQuAD; see `bert_base_squad`."""
    return bert_base_squad(
        sequence_length=sequence_length,
        dropout=dropout,
        depth=24,
        width=1024,
        heads=16,
        placement=placement,
    )


def gpt2(
    *,
    sequence_length: int = 1024,
    dropout: float = 0.1,
    depth: int = 12,
    width: int = 768,
    heads: int = 12,
    vocabulary: int = _GPT_VOCABULARY,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns GPT-2 of 124 million weights, from tokens, int32[batch, sequence_length], to logits.

    Blocks are "embeddings", layers "0" on, and "head".
    """
    decoder = Transformer(
        width=width,
        heads=heads,
        dropout=dropout,
        norm_first=True,
        causal=True,
        approximate_gelu=True,
        epsilon=_GPT_EPSILON,
    )
    words = layers.ReversibleEmbedding(vocabulary, width, name="embeddings_words")

    def embedded(tokens: Any) -> Any:
        x = Position(sequence_length, name="embeddings_positions")(words(tokens))
        return layers.Dropout(dropout, name="embeddings_dropout")(x) if dropout else x

    def head(tokens: Any) -> Any:
        x = layers.LayerNormalization(epsilon=_GPT_EPSILON, name="head_norm")(tokens)
        return words(x, reverse=True)

    inputs = _integers(sequence_length, "tokens")
    blocks: list[Block] = [("embeddings", embedded), *decoder.layers(depth), ("head", head)]
    return keras.Model(inputs, chain(inputs, blocks, placement), name="gpt")


def gpt2_medium(
    *, sequence_length: int = 1024, dropout: float = 0.1, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns GPT-2 of 355 million weights; see `gpt2`."""
    return gpt2(
        sequence_length=sequence_length,
        dropout=dropout,
        depth=24,
        width=1024,
        heads=16,
        placement=placement,
    )


def gpt3_175b(
    *, sequence_length: int = 2048, dtype: str = "float16", placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns GPT-3 of 175 billion weights, for estimates alone; see `gpt2`."""
    with dtype_policy(dtype):
        return gpt2(
            sequence_length=sequence_length,
            dropout=0.0,
            depth=96,
            width=12288,
            heads=96,
            placement=placement,
        )


def _sequences(length: int) -> dict[str, Any]:
    return {name: _integers(length, name) for name in ("tokens", "segments", "mask")}


def _integers(length: int, name: str) -> Any:
    return keras.Input((length,), dtype="int32", name=name)


def _bert_blocks(
    inputs: dict[str, Any], words: Any, dropout: float, depth: int, width: int, heads: int
) -> list[Block]:
    encoder = Transformer(width=width, heads=heads, dropout=dropout, epsilon=_BERT_EPSILON)

    def embedded(tokens: Any) -> Any:
        segments = layers.Embedding(2, width, name="embeddings_segments")(inputs["segments"])
        x = layers.Add(name="embeddings_sum")([words(tokens), segments])
        x = Position(_BERT_POSITIONS, name="embeddings_positions")(x)
        x = layers.LayerNormalization(epsilon=_BERT_EPSILON, name="embeddings_norm")(x)
        return layers.Dropout(dropout, name="embeddings_dropout")(x) if dropout else x

    return [("embeddings", embedded), *encoder.layers(depth, inputs["mask"])]


def _pretraining(tokens: Any, positions: Any, words: Any, width: int) -> list[Any]:
    """Returns the logits of the masked tokens, and of whether sentences follow each other."""
    masked = TokensAt(name="head_masked")([tokens, positions])
    x = layers.Dense(width, name="head_transform")(masked)
    x = Gelu(name="head_gelu")(x)
    x = layers.LayerNormalization(epsilon=_BERT_EPSILON, name="head_norm")(x)
    logits = Bias(name="head_bias")(words(x, reverse=True))
    pooled = layers.Dense(width, activation="tanh", name="head_pooled")(tokens[:, 0])
    return [logits, layers.Dense(2, name="head_next")(pooled)]


def _answer(tokens: Any) -> list[Any]:
    x = layers.Dense(2, name="head_answer")(tokens)
    return [x[..., 0], x[..., 1]]


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class TokensAt(layers.Layer):
    """Picks tokens: [batch, n, width] at positions int32[batch, m] gives [batch, m, width]."""

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the tokens at the positions of their sequence."""
        tokens, positions = inputs
        batch, length, width = tokens.shape
        count = positions.shape[1]
        # Rows of one table: a look-up along an axis would look up every element for itself.
        first = keras.ops.arange(keras.ops.shape(tokens)[0], dtype=positions.dtype) * length
        rows = keras.ops.reshape(tokens, (-1, width))
        picks = keras.ops.take(rows, keras.ops.reshape(positions + first[:, None], (-1,)), axis=0)
        return keras.ops.reshape(picks, (-1 if batch is None else batch, count, width))


@keras.saving.register_keras_serializable("ipu_tf.zoo")
class Bias(layers.Layer):
    """Adds a learnt number to every channel."""

    def build(self, input_shape: tuple[int, ...]) -> None:
        """Makes a number for each of the channels."""
        self.bias = self.add_weight(shape=(input_shape[-1],), initializer="zeros", name="bias")

    def call(self, inputs: keras.KerasTensor) -> keras.KerasTensor:
        """Returns the inputs with their biases."""
        return inputs + self.bias
