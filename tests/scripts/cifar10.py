"""The CIFAR-10 network, written as the vendor's guides write it."""

import argparse

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from tensorflow.python import ipu

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=40)
parser.add_argument("--samples", type=int, default=50_000)
args = parser.parse_args()

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()

(x_train, y_train), _ = keras.datasets.cifar10.load_data()
x_train = x_train[: args.samples].astype("float32") / 255
y_train = keras.utils.to_categorical(y_train[: args.samples], 10)
dataset = tf.data.Dataset.from_tensor_slices((x_train, y_train))
dataset = dataset.shuffle(1024, seed=7).batch(64, drop_remainder=True)

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = keras.Sequential(
        [
            layers.Conv2D(32, 3, padding="same", input_shape=(32, 32, 3)),
            layers.Activation("relu"),
            layers.Conv2D(32, 3),
            layers.Activation("relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Conv2D(64, 3, padding="same"),
            layers.Activation("relu"),
            layers.Conv2D(32, 3),
            layers.Activation("relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(512),
            layers.Activation("relu"),
            layers.Dropout(0.5),
            layers.Dense(10),
            layers.Activation("softmax"),
        ]
    )
    model.compile(
        loss="categorical_crossentropy",
        optimizer=keras.optimizers.SGD(learning_rate=0.016),
        metrics=["accuracy"],
        steps_per_execution=args.samples // 64,
    )
    history = model.fit(dataset, epochs=args.epochs, verbose=2)
print("accuracy", history.history["accuracy"][-1])
