"""Files in the formats that the addresses of published data sets give."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import tarfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ipu_tf.compat.offline.arrays import images, regression, sequences, word_index
from ipu_tf.compat.offline.texts import plays

Writer = Callable[[Path], None]

_GOOGLE = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/"
_DOWNLOADS = "https://storage.googleapis.com/download.tensorflow.org/data/"
_TORONTO = "https://www.cs.toronto.edu/~kriz/"

# Python's own protocols from 5 on name functions of NumPy that Keras refuses to unpickle.
_PICKLE_PROTOCOL = 4

_IMDB_WORDS = 88_584
_REUTERS_WORDS = 30_979
_SHAKESPEARE_CHARACTERS = 1_115_394
_IMAGENET_CLASSES = 1000

# Pixels have a mean of 39 and 78 and a standard deviation of 82 and 102 with them; those of the
# published images 33 and 73, and 79 and 90.
_DIGITS_INK = 0.17
_CLOTHES_INK = 0.35

# The least and the greatest value of each feature.
_BOSTON = (
    (0.006, 0.0, 0.46, 0.0, 0.385, 3.56, 2.9, 1.13, 1.0, 187.0, 12.6, 0.32, 1.73),
    (88.98, 100.0, 27.74, 1.0, 0.871, 8.78, 100.0, 12.13, 24.0, 711.0, 22.0, 396.9, 37.97),
)
_CALIFORNIA = (
    (-124.35, 32.54, 1.0, 3.0, 1.0, 0.4999, 2.0, 1.0),
    (-114.31, 41.95, 52.0, 35_682.0, 6_082.0, 15.0001, 39_320.0, 6_445.0),
)


def _mnist(path: Path) -> None:
    x_train, y_train = images(60_000, (28, 28), 10, split=0, ink=_DIGITS_INK)
    x_test, y_test = images(10_000, (28, 28), 10, split=1, ink=_DIGITS_INK)
    _save(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def _fashion_images(count: int, split: int, path: Path) -> None:
    pixels, _ = images(count, (28, 28), 10, split=split + 2, ink=_CLOTHES_INK)
    _gzip(path, struct.pack(">4i", 0x803, count, 28, 28) + pixels.tobytes())


def _fashion_labels(count: int, split: int, path: Path) -> None:
    _, labels = images(count, (28, 28), 10, split=split + 2, ink=_CLOTHES_INK)
    _gzip(path, struct.pack(">2i", 0x801, count) + labels.tobytes())


def _cifar10(path: Path) -> None:
    x, labels = images(50_000, (32, 32, 3), 10, split=0)
    x_test, labels_test = images(10_000, (32, 32, 3), 10, split=1)
    batches = {
        f"data_batch_{number + 1}": slice(number * 10_000, (number + 1) * 10_000)
        for number in range(5)
    }
    members = {name: _cifar_batch(x[part], labels=labels[part]) for name, part in batches.items()}
    members["test_batch"] = _cifar_batch(x_test, labels=labels_test)
    _tar(path, "cifar-10-batches-py", members)


def _cifar100(path: Path) -> None:
    members = {}
    for split, (name, count) in enumerate((("train", 50_000), ("test", 10_000))):
        x, fine = images(count, (32, 32, 3), 100, split=split)
        members[name] = _cifar_batch(x, fine_labels=fine, coarse_labels=fine // 5)
    _tar(path, "cifar-100-python", members)


def _cifar_batch(pixels: np.ndarray, **labels: np.ndarray) -> bytes:
    rows = pixels.transpose(0, 3, 1, 2).reshape(len(pixels), -1)
    batch: dict[bytes, Any] = {name.encode(): of.tolist() for name, of in labels.items()}
    return pickle.dumps({b"data": rows, **batch}, protocol=_PICKLE_PROTOCOL)


def _imdb(path: Path) -> None:
    x_train, y_train = sequences(25_000, _IMDB_WORDS, 2, mean_length=200, split=0)
    x_test, y_test = sequences(25_000, _IMDB_WORDS, 2, mean_length=200, split=1)
    _save(path, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


def _reuters(path: Path) -> None:
    x, y = sequences(11_228, _REUTERS_WORDS, 46, mean_length=120, split=0)
    _save(path, x=x, y=y)


def _word_index(words: int, path: Path) -> None:
    path.write_text(json.dumps(word_index(words)))


def _shakespeare(path: Path) -> None:
    path.write_text(plays(_SHAKESPEARE_CHARACTERS))


def _imagenet_classes(path: Path) -> None:
    """Writes names of the classes, for `decode_predictions` of `keras.applications`."""
    names = {str(one): [f"n{one:08}", f"class_{one}"] for one in range(_IMAGENET_CLASSES)}
    path.write_text(json.dumps(names))


def _boston(path: Path) -> None:
    x, y = regression(506, *_BOSTON, targets=(5.0, 50.0))
    _save(path, x=x, y=y)


def _california(path: Path) -> None:
    x, y = regression(20_640, *_CALIFORNIA, targets=(14_999.0, 500_001.0))
    _save(path, x=x.astype(np.float32), y=y.astype(np.float32))


WRITERS: Mapping[str, Writer] = MappingProxyType(
    {
        f"{_GOOGLE}mnist.npz": _mnist,
        f"{_GOOGLE}train-images-idx3-ubyte.gz": partial(_fashion_images, 60_000, 0),
        f"{_GOOGLE}train-labels-idx1-ubyte.gz": partial(_fashion_labels, 60_000, 0),
        f"{_GOOGLE}t10k-images-idx3-ubyte.gz": partial(_fashion_images, 10_000, 1),
        f"{_GOOGLE}t10k-labels-idx1-ubyte.gz": partial(_fashion_labels, 10_000, 1),
        f"{_TORONTO}cifar-10-python.tar.gz": _cifar10,
        f"{_TORONTO}cifar-100-python.tar.gz": _cifar100,
        f"{_GOOGLE}imdb.npz": _imdb,
        f"{_GOOGLE}imdb_word_index.json": partial(_word_index, _IMDB_WORDS),
        f"{_GOOGLE}reuters.npz": _reuters,
        f"{_GOOGLE}reuters_word_index.json": partial(_word_index, _REUTERS_WORDS),
        f"{_GOOGLE}boston_housing.npz": _boston,
        f"{_GOOGLE}california_housing.npz": _california,
        f"{_DOWNLOADS}shakespeare.txt": _shakespeare,
        f"{_DOWNLOADS}imagenet_class_index.json": _imagenet_classes,
    }
)
"""Writes the file of an address that `keras.datasets`, `decode_predictions` or a guide loads."""


def _save(path: Path, **arrays: Any) -> None:
    with path.open("wb") as file:
        np.savez(file, **arrays)


def _gzip(path: Path, content: bytes) -> None:
    # Noise does not compress; a script waits for it.
    path.write_bytes(gzip.compress(content, compresslevel=0, mtime=0))


def _tar(path: Path, folder: str, members: Mapping[str, bytes]) -> None:
    with tarfile.open(path, "w:gz", compresslevel=0) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
