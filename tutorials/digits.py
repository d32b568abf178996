"""The data and the network of the small tutorials: handwritten digits, and two dense layers."""

from __future__ import annotations

import argparse

import keras
import numpy as np
import tensorflow as tf

PIXELS = 64
CLASSES = 10


def load_digits() -> tuple[np.ndarray, np.ndarray]:
    """Scikit-learn's 1,797 handwritten digits.

    Returns:
        float32 pixels `[n, 64]` from 0 to 1, int32 labels `[n]`, shuffled.

    Raises:
        SystemExit: scikit-learn is not installed.
    """
    try:
        from sklearn import datasets
    except ModuleNotFoundError:
        raise SystemExit(
            "This tutorial needs scikit-learn. Install it: pip install scikit-learn"
        ) from None
    digits = datasets.load_digits()
    order = np.random.default_rng(0).permutation(len(digits.target))
    return (digits.data / 16.0).astype("float32")[order], digits.target.astype("int32")[order]


def make_dataset(batch_size: int) -> tf.data.Dataset:
    """Shuffled batches of digits; it repeats, and a short last batch is dropped."""
    x, y = load_digits()
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).cache().shuffle(len(x), seed=1)
    return dataset.batch(batch_size, drop_remainder=True).repeat()


def make_model() -> keras.Sequential:
    """A hidden layer of 128 units, and the digits' logits."""
    return keras.Sequential(
        [
            keras.Input((PIXELS,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(CLASSES, dtype="float32"),
        ]
    )


def loss() -> keras.losses.Loss:
    """Cross-entropy of the logits."""
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def largest_difference(some: list[np.ndarray], others: list[np.ndarray]) -> float:
    """The largest difference between the weights of two models."""
    return max(float(np.abs(one - other).max()) for one, other in zip(some, others, strict=True))


def epochs(description: str | None, arguments: list[str] | None, default: int) -> int:
    """The number of epochs on the command line."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--epochs", type=int, default=default)
    count: int = parser.parse_args(arguments).epochs
    if count < 1:
        parser.error(f"--epochs must be at least 1. Received: {count}")
    return count
