"""A model of texts and one of images, in the Keras 2 that scripts of the vendor's guides use."""

import argparse

import numpy as np
import tensorflow as tf
from keras.optimizer_v2.adam import Adam
from tensorflow import keras
from tensorflow.keras import backend as K
from tensorflow.keras.layers import LSTM, Dense, Embedding, Input, Layer
from tensorflow.keras.layers.experimental import preprocessing
from tensorflow.python import ipu

parser = argparse.ArgumentParser()
parser.add_argument("--replicas", type=int, default=1)
parser.add_argument("--folder", required=True)
args = parser.parse_args()
keras.utils.set_random_seed(0)

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = args.replicas
cfg.configure_ipu_system()
strategy = ipu.ipu_strategy.IPUStrategy()


class Attention(Layer):
    def __init__(self, units=1, **kwargs):
        super().__init__(**kwargs)
        self.units = units

    def build(self, input_shape):
        self.w = self.add_weight("w", (input_shape[-1], self.units), initializer="uniform")
        super().build(input_shape)

    def call(self, x):
        weights = K.softmax(K.dot(x, self.w), axis=1)
        return K.sum(x * weights, axis=1)


random = np.random.RandomState(0)
texts = random.randint(0, 50, (64, 10)).astype("int32")
labels = (texts[:, 0] > 24).astype("float32")

with strategy.scope():
    inputs = Input(shape=(10), dtype="int32")
    x = Embedding(50, 8, input_length=10)(inputs)
    x = LSTM(8, return_sequences=True)(x)
    x = Attention()(x)
    x = tf.concat([x, tf.reduce_mean(x, axis=-1, keepdims=True)], axis=-1)
    model = keras.Model(inputs, Dense(1, activation="sigmoid")(x))
    steps = tf.constant(8 // args.replicas)
    model.compile(
        loss="binary_crossentropy",
        optimizer=Adam(lr=0.05, decay=1e-4),
        metrics=["acc"],
        steps_per_execution=steps,
    )
    history = model.fit(texts, labels, batch_size=8, epochs=15, workers=2, verbose=0).history
    print("accuracy", history["acc"][-1])
    model.save(args.folder)
    loaded = keras.models.load_model(args.folder, custom_objects={"Attention": Attention})
    before, after = (one.predict(texts, batch_size=8, verbose=0) for one in (model, loaded))
    print("difference", np.abs(before - after).max())

images = random.rand(64, 8, 8, 1).astype("float32")
classes = keras.utils.to_categorical(random.randint(0, 3, 64), 3).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((images, classes)).batch(8, drop_remainder=True)

with strategy.scope():
    convolutional = keras.Sequential()
    convolutional.add(preprocessing.Rescaling(2.0, input_shape=(8, 8, 1)))
    convolutional.add(keras.layers.Conv2D(4, (3, 3), activation="relu"))
    convolutional.add(keras.layers.BatchNormalization(fused=True))
    convolutional.add(keras.layers.Flatten())
    convolutional.add(Dense(3, activation="softmax"))
    convolutional.compile(
        tf.compat.v1.train.GradientDescentOptimizer(learning_rate=0.01),
        keras.losses.CategoricalCrossentropy(reduction=keras.losses.Reduction.AUTO),
        ["accuracy"],
        steps_per_execution=8 // args.replicas,
    )
    history = convolutional.fit_generator(dataset, steps_per_epoch=8, epochs=2, verbose=0).history
    print("loss", *history["loss"])
