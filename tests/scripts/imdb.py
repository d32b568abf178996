"""Sentiment of reviews with the layers of the add-ons, as a pipeline over two IPUs."""

import argparse

import tensorflow as tf
from ipu_tensorflow_addons.keras.layers import LSTM, Dropout, Embedding, LayerNormalization
from tensorflow import keras
from tensorflow.keras.preprocessing import sequence
from tensorflow.python import ipu

MAX_FEATURES = 2000
MAX_LENGTH = 40
BATCH_SIZE = 32
ACCUMULATE = 4

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=3)
parser.add_argument("--samples", type=int, default=25_000)
args = parser.parse_args()

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 2
cfg.configure_ipu_system()

(x_train, y_train), _ = keras.datasets.imdb.load_data(num_words=MAX_FEATURES)
x_train = sequence.pad_sequences(x_train[: args.samples], maxlen=MAX_LENGTH)
dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train[: args.samples]))
dataset = dataset.map(lambda x, y: (tf.cast(x, tf.int32), tf.cast(y, tf.float32)))
dataset = dataset.batch(BATCH_SIZE, drop_remainder=True).repeat()
steps = args.samples // BATCH_SIZE // ACCUMULATE * ACCUMULATE

strategy = ipu.ipu_strategy.IPUStrategyV1()
with strategy.scope():
    tokens = keras.layers.Input(shape=(MAX_LENGTH), dtype=tf.int32)
    with keras.ipu.PipelineStage(0):
        x = Embedding(MAX_FEATURES, 32)(tokens)
    with keras.ipu.PipelineStage(1):
        x = LSTM(32)(x)
        x = LayerNormalization()(x)
        x = Dropout(0.2)(x)
        x = keras.layers.Dense(1, activation="sigmoid")(x)
    model = keras.Model(inputs=tokens, outputs=x)
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=ACCUMULATE,
        pipeline_schedule=ipu.ops.pipelining_ops.PipelineSchedule.Grouped,
    )
    model.compile(
        loss="binary_crossentropy",
        optimizer=keras.optimizers.Adam(0.005),
        metrics=["accuracy"],
        steps_per_execution=steps,
    )
    history = model.fit(dataset, steps_per_epoch=steps, epochs=args.epochs, verbose=2)
print("accuracy", history.history["accuracy"][-1])
