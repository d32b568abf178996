"""A pre-training of an encoder of tf_keras in three stages, as published transformers have it.

The layers are subclasses whose parts are named alike, the embeddings are the weights of a head
too, and there is a loss for each of two heads.
"""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.keras import PipelineStage
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from tests.keras.tf_keras_training import check_equal, strategy_of

tf_keras = pytest.importorskip("tf_keras")
optimizers = pytest.importorskip("ipu_tf.keras.tf_keras.optimizers")
vendor_layers = pytest.importorskip("ipu_tf.keras.tf_keras.layers")
layers = tf_keras.layers

RANDOM = np.random.default_rng(6)
SAMPLES, LENGTH, VOCABULARY, WIDTH, HEADS, MASKED = 24, 6, 12, 8, 2, 2
MICRO_BATCH, MICRO_BATCHES = 2, 6
TOKENS = RANDOM.integers(0, VOCABULARY, (SAMPLES, LENGTH)).astype("int32")
POSITIONS = RANDOM.integers(0, LENGTH, (SAMPLES, MASKED)).astype("int32")
X = {"tokens": TOKENS, "positions": POSITIONS}
Y = {
    "words": RANDOM.integers(0, VOCABULARY, (SAMPLES, MASKED)).astype("int32"),
    "order": RANDOM.integers(0, 2, (SAMPLES, 1)).astype("int32"),
}


def norm():
    """The vendor's layer normalization on the IPU, that of tf_keras elsewhere."""
    of_scope = vendor_layers if tf.distribute.has_strategy() else layers
    return of_scope.LayerNormalization(name="LayerNorm")


class Embeddings(layers.Layer):
    """Words and positions, normalized."""

    def build(self, shape):
        self.weight = self.add_weight("weight", (VOCABULARY, WIDTH), initializer="uniform")
        self.position = self.add_weight("position", (LENGTH, WIDTH), initializer="uniform")
        self.norm = norm()

    def call(self, tokens):
        return self.norm(tf.gather(self.weight, tokens) + self.position)


class Attention(layers.Layer):
    """Self-attention, added to its input and normalized."""

    def build(self, shape):
        self.parts = [
            layers.Dense(WIDTH, use_bias=False, name=name) for name in ("query", "key", "value")
        ]
        self.dense = layers.Dense(WIDTH, name="dense")
        self.norm = norm()

    def call(self, x):
        query, key, value = (
            tf.transpose(tf.reshape(part(x), [-1, LENGTH, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])
            for part in self.parts
        )
        weights = tf.nn.softmax(tf.matmul(query, key, transpose_b=True) / 2.0)
        seen = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        return self.norm(self.dense(tf.reshape(seen, tf.shape(x))) + x)


class Block(layers.Layer):
    """A layer of the encoder."""

    def build(self, shape):
        self.attention = Attention(name="attention")
        self.wide = layers.Dense(2 * WIDTH, activation="gelu", name="intermediate")
        self.dense = layers.Dense(WIDTH, name="dense")
        self.norm = norm()

    def call(self, x):
        x = self.attention(x)
        return self.norm(self.dense(self.wide(x)) + x)


class Words(layers.Layer):
    """The logits of masked words, by the weights of the embeddings."""

    def __init__(self, embeddings, **how):
        super().__init__(**how)
        self.embeddings = embeddings

    def build(self, shape):
        self.norm = norm()
        self.bias = self.add_weight("bias", (VOCABULARY,), initializer="zeros")

    def call(self, x, positions):
        found = self.norm(tf.gather(x, positions, batch_dims=1))
        return tf.matmul(found, self.embeddings.weight, transpose_b=True) + self.bias


def encoder(stage):
    tokens = tf_keras.Input((LENGTH,), dtype="int32", name="tokens")
    positions = tf_keras.Input((MASKED,), dtype="int32", name="positions")
    with stage(0):
        embeddings = Embeddings(name="embeddings")
        x = embeddings(tokens)
    with stage(1):
        x = Block(name="layer_._0")(x)
    with stage(2):
        pooled = layers.Dense(WIDTH, activation="tanh", name="pooler")(x[:, 0])
        order = layers.Dense(2, name="order")(pooled)
        words = Words(embeddings, name="words")(x, positions)
    return tf_keras.Model({"tokens": tokens, "positions": positions}, [words, order])


class Warming(tf_keras.optimizers.schedules.LearningRateSchedule):
    """A rate that counts the updates itself, as float32."""

    def __init__(self):
        super().__init__()
        self.updates = tf.Variable(0.0, trainable=False)

    def __call__(self, step):
        return 0.01 * self.updates.assign_add(1.0)

    def get_config(self):
        return {}


def trained(strategy=None):
    """A trained model, the logs of its training, its first norms and the count of its schedule."""
    stage = PipelineStage if strategy else lambda number: contextlib.nullcontext()
    micro_batches = MICRO_BATCHES if strategy else 1
    with strategy.scope() if strategy else contextlib.nullcontext():
        tf_keras.utils.set_random_seed(3)
        model = encoder(stage)
        schedule = Warming()
        model.compile(
            tf_keras.mixed_precision.LossScaleOptimizer(
                optimizers.LAMBIpuOptimizer(
                    schedule, weight_decay_rate=0.1, exclude_from_weight_decay=["bias", "beta"]
                ),
                dynamic=False,
                initial_scale=128.0,
            ),
            dict.fromkeys(Y, tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
            steps_per_execution=micro_batches,
        )
        if strategy:
            model.set_pipelining_options(
                MICRO_BATCHES,
                gradient_accumulation_reduction_method="mean",
                device_mapping=[0, 1, 0],  # Both uses of the embeddings are on one IPU.
                pipeline_schedule=PipelineSchedule.Grouped,
            )
        before = norms_of(model)
        batch = MICRO_BATCH * MICRO_BATCHES // micro_batches
        history = model.fit(X, Y, batch_size=batch, epochs=2, shuffle=False, verbose=0)
    return model, history.history, before, float(schedule.updates)


def norms_of(model):
    return [
        weight.numpy()
        for weight in model.trainable_weights
        if weight.name.endswith(("gamma:0", "beta:0"))
    ]


@pytest.mark.slow
def test_an_encoder_trains_in_three_stages_as_in_stock_tf_keras():
    strategy = strategy_of(2)
    *ours, before, updates = trained(strategy)
    *stock, _, expected_updates = trained()
    check_equal(ours, stock)
    assert updates == expected_updates == 2 * SAMPLES / (MICRO_BATCH * MICRO_BATCHES)
    after = norms_of(ours[0])
    assert len(before) == 2 * 4
    assert all((one != other).all() for one, other in zip(before, after, strict=True))
    (program,) = strategy.report(insights=False).programs
    assert len(program.device.stages) == 3
