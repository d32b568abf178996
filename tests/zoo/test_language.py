"""Tokens see what they should, and masks take no room in programs."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.zoo import language
from ipu_tf.zoo.layers import AddedMaskAttention, CausalMask
from tests.zoo import tiny


def test_tokens_of_gpt_see_only_earlier_ones():
    model = language.gpt2(sequence_length=6, **tiny.LANGUAGE)
    tokens = np.array([[1, 2, 3, 4, 5, 6]], "int32")
    changed = np.array([[1, 2, 3, 9, 5, 6]], "int32")
    before, after = model(tokens).numpy(), model(changed).numpy()
    np.testing.assert_allclose(before[:, :3], after[:, :3], rtol=1e-5)
    assert not np.allclose(before[:, 3:], after[:, 3:])


def test_masked_tokens_of_bert_are_not_seen():
    model = language.bert_base_squad(sequence_length=6, **tiny.LANGUAGE)
    tokens, segments, mask = tiny.words()
    changed = tokens.copy()
    changed[:, -1] = (tokens[:, -1] + 1) % 11
    before, after = (model([one, segments, mask])[0].numpy() for one in (tokens, changed))
    np.testing.assert_allclose(before[:, :-1], after[:, :-1], rtol=1e-5)
    assert not np.allclose(before[:, -1], after[:, -1])


def test_masked_tokens_are_looked_up_row_by_row():
    def gather_cycles(width):
        inputs = [keras.Input((16, width)), keras.Input((4,), dtype="int32")]
        model = keras.Model(inputs, language.TokensAt(name="picked")(inputs))
        report = ipu_tf.estimate(model, batch_size=2, training=False, insights=False)
        steps = report.programs[0].device.steps
        return sum(step.cycles for step in steps if step.opcode == "gather")

    narrow, wide = (gather_cycles(width) for width in (32, 64))
    assert 0 < wide < 1.5 * narrow


def test_tokens_are_those_at_the_positions_of_their_sequence():
    tokens = np.arange(24, dtype="float32").reshape(2, 4, 3)
    positions = np.array([[3, 0], [1, 1]], "int32")
    picked = language.TokensAt()([tokens, positions])
    np.testing.assert_array_equal(picked, np.take_along_axis(tokens, positions[..., None], axis=1))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_masks_are_added_with_the_weights_of_keras(dropout):
    tokens = np.random.default_rng(4).normal(size=(2, 5, 8)).astype("float32")
    mask = np.array([[[1, 1, 1, 0, 0]], [[1, 1, 1, 1, 1]]], "int32")
    layer = AddedMaskAttention(2, 4, dropout=dropout)
    stock = keras.layers.MultiHeadAttention(2, 4, dropout=dropout)
    for one in (layer, stock):
        one.build(tokens.shape, tokens.shape)
    stock.set_weights(layer.get_weights())

    @tf.function
    def attended(tokens):
        return layer(tokens, tokens, attention_mask=mask, return_attention_scores=True)[0]

    np.testing.assert_allclose(
        attended(tokens), stock(tokens, tokens, attention_mask=mask), rtol=1e-5, atol=1e-6
    )
    kinds = {op.type for op in attended.get_concrete_function(tokens).graph.get_operations()}
    assert "SelectV2" not in kinds


def test_networks_with_masks_add_them():
    made = [
        language.gpt2(sequence_length=6, **tiny.LANGUAGE),
        language.bert_base_squad(sequence_length=6, **tiny.LANGUAGE),
    ]
    for model in made:
        assert isinstance(model.get_layer("0_attention"), AddedMaskAttention)


@pytest.mark.parametrize("length", [1, 5])
def test_causal_masks(length):
    mask = CausalMask()(np.zeros((2, length, 3), "float32"))
    np.testing.assert_array_equal(mask, np.tri(length, dtype=bool)[None])


def test_all_layers_of_gpt_read_one_mask():
    model = language.gpt2(sequence_length=6, **{**tiny.LANGUAGE, "depth": 3})
    masks = [layer for layer in model.layers if isinstance(layer, CausalMask)]
    assert len(masks) == 1
