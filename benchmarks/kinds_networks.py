"""The networks of the `kinds` benchmark: one of each kind, with the batch that they train on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

from ipu_tf.zoo import language
from tutorials import cifar10

CLASSES = 10
TOKENS = 2000
GRAPHS = 16

Arrays = tuple[np.ndarray, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network and its data.

    Attributes:
        what: It, in words.
        build: Makes it; it ends in the probabilities of classes.
        batch: Samples of a batch.
        inputs: Shape and type of each input of a sample, the bound of those that are integers.
        optimizer: "sgd" or "adam", its own; both can be measured.
        steps: Batches of a round of a trial, a multiple of 10 but for big networks.
        labels: Shape of the labels of a sample.
    """

    what: str
    build: Callable[[], keras.Model]
    batch: int
    inputs: tuple[tuple[tuple[int, ...], int | None], ...]
    optimizer: str
    steps: int
    labels: tuple[int, ...] = ()

    def samples(self, batches: int) -> tuple[Arrays, np.ndarray]:
        """Generated inputs and labels."""
        random = np.random.default_rng(0)
        count = self.batch * batches
        arrays = tuple(
            random.random((count, *shape), np.float32)
            if bound is None
            else np.sort(random.integers(0, bound, (count, *shape), np.int32), axis=-1)
            for shape, bound in self.inputs
        )
        return arrays, random.integers(0, CLASSES, (count, *self.labels))


def _head(inputs: Any, x: Any) -> keras.Model:
    return keras.Model(inputs, layers.Dense(CLASSES, activation="softmax")(x))


def mlp() -> keras.Model:
    """Dense layers 784-512-512-10."""
    inputs = x = keras.Input((784,))
    for _ in range(2):
        x = layers.Dense(512, activation="relu")(x)
    return _head(inputs, x)


def residual() -> keras.Model:
    """Six residual blocks of two convolutions with batch norm, 32 to 128 channels."""
    inputs = keras.Input((32, 32, 3))
    x = _normed(layers.Conv2D(32, 3, padding="same", use_bias=False)(inputs))
    for width, stride in ((32, 1), (32, 1), (64, 2), (64, 1), (128, 2), (128, 1)):
        y = layers.Conv2D(width, 3, stride, padding="same", use_bias=False)(x)
        y = layers.Conv2D(width, 3, padding="same", use_bias=False)(_normed(y))
        if stride != 1:
            x = layers.Conv2D(width, 1, stride, use_bias=False)(x)
        x = layers.ReLU()(layers.BatchNormalization()(y) + x)
    return _head(inputs, layers.GlobalAveragePooling2D()(x))


def _normed(x: Any) -> Any:
    return layers.ReLU()(layers.BatchNormalization()(x))


def transformer() -> keras.Model:
    """Three encoder blocks of 256 features and 4 heads over 128 tokens."""
    width, tokens = 256, 128
    inputs = keras.Input((tokens,), dtype="int32")
    x = layers.Embedding(TOKENS, width)(inputs)
    for _ in range(3):
        normed = layers.LayerNormalization()(x)
        x = x + layers.MultiHeadAttention(4, width // 4, dropout=0.1)(normed, normed)
        hidden = layers.Dense(4 * width, activation="gelu")(layers.LayerNormalization()(x))
        x = x + layers.Dropout(0.1)(layers.Dense(width)(hidden))
    return _head(inputs, layers.GlobalAveragePooling1D()(x))


def recurrent(layer: type[keras.Layer]) -> keras.Model:
    """A recurrent layer of 128 units over 80 tokens."""
    inputs = keras.Input((80,), dtype="int32")
    return _head(inputs, layer(128)(layers.Embedding(TOKENS, 128)(inputs)))


def depthwise() -> keras.Model:
    """Separable convolutions with batch norm, 64 and 128 channels."""
    inputs = keras.Input((32, 32, 3))
    x = _normed(layers.Conv2D(64, 3, padding="same", use_bias=False)(inputs))
    for width, stride in ((64, 1), (128, 2), (128, 1), (128, 1)):
        x = _normed(layers.SeparableConv2D(width, 3, stride, padding="same", use_bias=False)(x))
    return _head(inputs, layers.GlobalAveragePooling2D()(x))


def mobilenet() -> keras.Model:
    """MobileNet at 96 pixels."""
    return keras.applications.MobileNet((96, 96, 3), weights=None, classes=CLASSES)


def unet() -> keras.Model:
    """A U-Net of 16 to 64 channels over 64 pixels, with transposed convolutions."""
    inputs = x = keras.Input((64, 64, 3))
    links = []
    for width in (16, 32):
        x = _convolutions(x, width)
        links.append(x)
        x = layers.MaxPooling2D()(x)
    x = _convolutions(x, 64)
    for width in (32, 16):
        x = layers.Conv2DTranspose(width, 2, 2)(x)
        x = _convolutions(layers.Concatenate()([links.pop(), x]), width)
    return keras.Model(inputs, layers.Conv2D(CLASSES, 1, activation="softmax")(x))


def _convolutions(x: Any, width: int) -> Any:
    for _ in range(2):
        x = layers.Conv2D(width, 3, padding="same", activation="relu")(x)
    return x


class MessagePassing(layers.Layer):
    """Adds to each node of a batch of graphs the messages along its edges."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._message = layers.Dense(width, activation="relu")
        self._update = layers.Dense(width, activation="relu")

    def call(self, nodes: Any, senders: Any, receivers: Any) -> Any:
        """Returns nodes of the shape of `nodes`, [graphs, nodes, features]."""
        graphs, count, width = nodes.shape
        flat = tf.reshape(nodes, (graphs * count, width))
        first = tf.range(graphs)[:, None] * count
        sent = tf.gather(self._message(flat), tf.reshape(senders + first, (-1,)))
        to = tf.reshape(receivers + first, (-1,))
        sums = tf.math.unsorted_segment_sum(sent, to, graphs * count)
        return nodes + tf.reshape(self._update(tf.concat([flat, sums], 1)), nodes.shape)


def graph() -> keras.Model:
    """Three rounds of messages between 128 nodes of 64 features along 1024 edges."""
    nodes = keras.Input((128, 64), batch_size=GRAPHS)
    senders, receivers = (keras.Input((1024,), batch_size=GRAPHS, dtype="int32") for _ in range(2))
    x = nodes
    for _ in range(3):
        x = MessagePassing(64)(x, senders, receivers)
    return _head([nodes, senders, receivers], layers.GlobalAveragePooling1D()(x))


def _images(size: int) -> tuple[tuple[tuple[int, ...], int | None], ...]:
    return (((size, size, 3), None),)


def _tokens(count: int) -> tuple[tuple[tuple[int, ...], int | None], ...]:
    return (((count,), TOKENS),)


def resnet50() -> keras.Model:
    """ResNet-50 at 224 pixels."""
    return keras.applications.ResNet50(weights=None, classes=CLASSES)


def bert_base() -> keras.Model:
    """BERT base over 128 tokens, with the head for 20 masked ones."""
    model = language.bert_base(sequence_length=128, masked_tokens=20)
    return keras.Model(model.inputs, layers.Softmax()(model.outputs[0]))


NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "mlp": Network(
            what="MLP 784-512-512-10",
            build=mlp,
            batch=64,
            inputs=(((784,), None),),
            optimizer="sgd",
            steps=500,
        ),
        "cnn": Network(
            what="CIFAR-10 like CNN, tutorials/cifar10.py",
            build=cifar10.make_model,
            batch=64,
            inputs=_images(32),
            optimizer="sgd",
            steps=20,
        ),
        "residual": Network(
            what="residual CNN with batch norm",
            build=residual,
            batch=32,
            inputs=_images(32),
            optimizer="sgd",
            steps=10,
        ),
        "transformer": Network(
            what="transformer, 3 blocks of 256, 128 tokens",
            build=transformer,
            batch=16,
            inputs=_tokens(128),
            optimizer="adam",
            steps=10,
        ),
        "lstm": Network(
            what="LSTM 128 over 80 steps",
            build=lambda: recurrent(layers.LSTM),
            batch=32,
            inputs=_tokens(80),
            optimizer="adam",
            steps=20,
        ),
        "gru": Network(
            what="GRU 128 over 80 steps",
            build=lambda: recurrent(layers.GRU),
            batch=32,
            inputs=_tokens(80),
            optimizer="adam",
            steps=20,
        ),
        "depthwise": Network(
            what="depthwise separable CNN",
            build=depthwise,
            batch=32,
            inputs=_images(32),
            optimizer="sgd",
            steps=20,
        ),
        "mobilenet": Network(
            what="MobileNet at 96 pixels",
            build=mobilenet,
            batch=16,
            inputs=_images(96),
            optimizer="adam",
            steps=10,
        ),
        "unet": Network(
            what="U-Net with transposed convolutions, 64 pixels",
            build=unet,
            batch=8,
            inputs=_images(64),
            optimizer="adam",
            steps=20,
            labels=(64, 64),
        ),
        "graph": Network(
            what="graph network, gather and segment_sum",
            build=graph,
            batch=GRAPHS,
            inputs=(((128, 64), None), ((1024,), 128), ((1024,), 128)),
            optimizer="adam",
            steps=50,
        ),
    }
)
"""The networks by their names."""

BIG_NETWORKS: Mapping[str, Network] = MappingProxyType(
    {
        "resnet50": Network(
            what="ResNet-50 at 224 pixels",
            build=resnet50,
            batch=8,
            inputs=_images(224),
            optimizer="sgd",
            steps=3,
        ),
        "bert_base": Network(
            what="BERT base, 128 tokens",
            build=bert_base,
            batch=4,
            inputs=(((128,), TOKENS), ((128,), 2), ((128,), 2), ((20,), 128)),
            optimizer="adam",
            steps=3,
            labels=(20,),
        ),
    }
)
"""Those that take a second a step."""

ALL_NETWORKS: Mapping[str, Network] = MappingProxyType({**NETWORKS, **BIG_NETWORKS})
