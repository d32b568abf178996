"""Handwritten digits with a dense network: training, evaluation and prediction."""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu

BATCH_SIZE = 32

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--steps-per-execution", type=int, default=1875)
args = parser.parse_args()

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()


def create_dataset(images, labels):
    images = images.astype(np.float32) / 255.0
    dataset = tf.data.Dataset.from_tensor_slices((images, labels.astype(np.int32)))
    return dataset.batch(BATCH_SIZE, drop_remainder=True)


def create_model():
    inputs = keras.layers.Input(shape=(28, 28), dtype=tf.float32, batch_size=BATCH_SIZE)
    x = keras.layers.Flatten()(inputs)
    x = keras.layers.Dense(128, activation="relu")(x)
    x = keras.layers.Dense(10, activation="softmax")(x)
    return keras.Model(inputs, x)


(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
train, test = create_dataset(x_train, y_train), create_dataset(x_test[:9984], y_test[:9984])

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = create_model()
    model.summary()
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(),
        optimizer=keras.optimizers.Adam(lr=0.001),
        metrics=["accuracy"],
        steps_per_execution=min(args.steps_per_execution, len(train)),
    )
    history = model.fit(train, epochs=args.epochs, steps_per_epoch=len(train), verbose=2)
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(),
        metrics=["accuracy"],
        steps_per_execution=len(test),
    )
    _, accuracy = model.evaluate(test, verbose=0)
    predictions = model.predict(test)

print("epochs", len(history.epoch))
print("accuracy", accuracy)
print("predictions", *predictions.shape)
