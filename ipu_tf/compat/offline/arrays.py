"""Arrays of the shapes, dtypes and value ranges of published data sets, that can be learned.

The values are generated: a model trains on them as it does on the data set, to another accuracy.
All of them come from fixed seeds.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, np.ndarray]

_SEED = 2020
_NOISE_LEVELS = 96


def images(
    count: int, shape: tuple[int, ...], classes: int, split: int, ink: float = 1.0
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Returns images and their labels: a coarse picture of each class, and noise.

    Args:
        count: The number of images.
        shape: Height, width and, if they are coloured, channels.
        classes: The number of classes. They come about equally often.
        split: 0 for the training data, 1 for the test data: other images of the same classes.
        ink: Share of the pixels that are not black, the same ones in all images of a class. Below
            1 those are bright, as strokes on a black ground: learning rates of published scripts
            depend on the mean and the spread of the pixels.

    Returns:
        Images, uint8 of shape [count, *shape], from 0 to 255; labels, uint8 of shape [count].
    """
    pictures = _pictures(shape, classes, ink)
    random = np.random.default_rng((_SEED, split, classes))
    labels = random.integers(classes, size=count, dtype=np.uint8)
    pixels = random.integers(_NOISE_LEVELS, size=(count, *shape), dtype=np.uint8)
    if ink < 1:
        pixels *= pictures[labels] > 0
    pixels += pictures[labels]
    return pixels, labels


def _pictures(shape: tuple[int, ...], classes: int, ink: float) -> np.ndarray:
    """Returns a picture of each class, uint8 up to 255 less the noise."""
    height, width = shape[:2]
    random = np.random.default_rng((_SEED, classes))
    coarse = random.random((classes, 4, 4, *shape[2:]))
    if ink < 1:
        darkest = np.quantile(coarse, 1 - ink, axis=(1, 2), keepdims=True)
        coarse = (coarse > darkest).astype(float)
    rows = np.arange(height) * 4 // height
    columns = np.arange(width) * 4 // width
    fine = coarse[:, rows][:, :, columns]
    shares = (fine - fine.min()) / (fine.max() - fine.min())
    pictures: np.ndarray = (shares * (256 - _NOISE_LEVELS)).astype(np.uint8)
    return pictures


def sequences(
    count: int, words: int, classes: int, mean_length: int, split: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns texts as lists of the ranks of their words, and their labels.

    Words are as frequent as in a language: the word of rank k comes 1/k as often as the first.
    Every second word is of those that the class prefers.

    Returns:
        Texts, an array of objects, each a list of whole numbers from 1 to `words`, of lengths that
        differ; labels, int64 of shape [count].
    """
    random = np.random.default_rng((_SEED, split, classes, words))
    labels = random.integers(classes, size=count)
    lengths = np.clip(random.lognormal(np.log(mean_length), 0.6, count), 10, 2500).astype(int)
    total = int(lengths.sum())
    ranks = np.exp(random.random(total) * np.log(words)).astype(int)
    of_class = np.repeat(labels, lengths)
    preferred = ranks - ranks % classes + of_class
    picks = np.where(random.random(total) < 0.5, preferred, ranks)
    np.clip(picks, 1, words, out=picks)
    texts = np.empty(count, dtype=object)
    ends = np.cumsum(lengths)
    for number, (length, end) in enumerate(zip(lengths, ends, strict=True)):
        texts[number] = picks[end - length : end].tolist()
    return texts, labels


def word_index(words: int) -> dict[str, int]:
    """Returns the rank of each word, from 1 for the most frequent."""
    return {f"word{rank}": rank for rank in range(1, words + 1)}


def regression(
    count: int, low: tuple[float, ...], high: tuple[float, ...], targets: tuple[float, float]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns features in ranges of their own, and targets that depend on them, with noise.

    Returns:
        Features, float64 of shape [count, len(low)]; targets, float64 of shape [count].
    """
    random = np.random.default_rng((_SEED, count))
    shares = random.random((count, len(low)))
    features = np.array(low) + shares * (np.array(high) - np.array(low))
    score = shares @ random.standard_normal(len(low)) + random.standard_normal(count) * 0.1
    score = (score - score.min()) / (score.max() - score.min())
    return features, targets[0] + score * (targets[1] - targets[0])
