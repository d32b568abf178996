"""Tokens of a shifted window see those of their own side alone, each with the bias of its distance.

The expected values follow section 3.2 of the paper token by token, without rolls and masks.
"""

import keras
import numpy as np
import pytest

from ipu_tf.zoo.stage_placement import StagePlacement
from ipu_tf.zoo.swin import Neighbours, swin_t
from ipu_tf.zoo.window_attention import WindowAttention, distances

SIZE, WINDOW, HEADS, WIDTH = 6, 3, 2, 4


@pytest.fixture(scope="module")
def image():
    return np.random.default_rng(5).normal(size=(2, SIZE, SIZE, WIDTH)).astype("float32")


def window_of(place, shift):
    """The window of a row or column; where windows are cut off by the edge, they end there."""
    return (place + WINDOW - shift) // WINDOW if shift else place // WINDOW


def expected(layer, image, shift):
    weights, offset = (value.numpy() for value in layer.projections.weights)
    result, result_offset = (value.numpy() for value in layer.result.weights)
    query, key, value = np.split(image @ weights + offset, 3, axis=-1)
    places = [(row, column) for row in range(SIZE) for column in range(SIZE)]
    out = np.zeros_like(image)
    for row, column in places:
        own = (window_of(row, shift), window_of(column, shift))
        seen = [at for at in places if (window_of(at[0], shift), window_of(at[1], shift)) == own]
        for head in range(HEADS):
            part = slice(head * WIDTH // HEADS, (head + 1) * WIDTH // HEADS)
            biases = [
                layer.biases.numpy()[
                    (row - other + WINDOW - 1) * (2 * WINDOW - 1) + column - across + WINDOW - 1,
                    head,
                ]
                for other, across in seen
            ]
            keys = np.stack([key[:, r, c, part] for r, c in seen], 1)
            scores = np.einsum("bd,bnd->bn", query[:, row, column, part], keys)
            scores = np.exp(scores / np.sqrt(WIDTH // HEADS) + biases)
            scores /= scores.sum(-1, keepdims=True)
            values = np.stack([value[:, r, c, part] for r, c in seen], 1)
            out[:, row, column, part] = np.einsum("bn,bnd->bd", scores, values)
    return out @ result + result_offset


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("shift", [0, 1])
def test_attention_is_that_of_the_paper(image, shift):
    keras.utils.set_random_seed(1)
    layer = WindowAttention(HEADS, WINDOW, shift)
    layer.build(image.shape)
    layer.biases.assign(np.random.default_rng(2).normal(size=layer.biases.shape))
    np.testing.assert_allclose(
        layer(image).numpy(), expected(layer, image, shift), rtol=1e-4, atol=1e-5
    )


def test_every_distance_has_its_number():
    numbers = distances(WINDOW)
    assert numbers.max() == (2 * WINDOW - 1) ** 2 - 1
    assert numbers[0, -1] == 0  # from the first corner to the last one
    assert set(np.diag(numbers)) == {numbers.max() // 2}


def test_merging_joins_four_neighbours_down_the_columns():
    image = np.arange(16.0).reshape(1, 4, 4, 1)
    assert Neighbours()(image).numpy()[0, 0, 1].tolist() == [2, 6, 3, 7]


def test_blocks_have_names():
    with pytest.raises(ValueError, match=r"Name blocks of patches, 1\.1, 1\.2, merge2, 2\.1, head"):
        swin_t(
            image_size=32,
            width=32,
            depths=(2, 1),
            window=4,
            placement=StagePlacement(stages=("9",)),
        )


def test_layers_are_made_again_from_their_configuration():
    layer = WindowAttention(HEADS, WINDOW, 1)
    assert WindowAttention.from_config(layer.get_config()).shift == 1
