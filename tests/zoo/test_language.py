"""Tokens see what they should, and masks take no room in programs."""

import numpy as np
import pytest

from ipu_tf.zoo import language
from ipu_tf.zoo.layers import CausalMask
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


@pytest.mark.parametrize("length", [1, 5])
def test_causal_masks(length):
    mask = CausalMask()(np.zeros((2, length, 3), "float32"))
    np.testing.assert_array_equal(mask, np.tri(length, dtype=bool)[None])


def test_all_layers_of_gpt_read_one_mask():
    model = language.gpt2(sequence_length=6, **{**tiny.LANGUAGE, "depth": 3})
    masks = [layer for layer in model.layers if isinstance(layer, CausalMask)]
    assert len(masks) == 1
