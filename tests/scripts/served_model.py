"""A model that is trained, exported, and served: alone, with feeds, and by the embedded runtime."""

import argparse
import os
import tempfile

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu
from tensorflow.python.ipu import embedded_runtime, serving

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=12_800)
parser.add_argument("--requests", type=int, default=8)
args = parser.parse_args()

BATCH = 16

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.device_connection.type = ipu.config.DeviceConnectionType.ON_DEMAND
cfg.configure_ipu_system()

(x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
x_train = x_train[: args.samples, ..., np.newaxis].astype("float32") / 255
y_train = y_train[: args.samples].astype("int32")
images = x_test[: args.requests * BATCH]
labels = y_test[: args.requests * BATCH]

strategy = ipu.ipu_strategy.IPUStrategy()
with strategy.scope():
    model = keras.Sequential(
        [
            keras.layers.Conv2D(8, 3, strides=2, activation="relu", input_shape=(28, 28, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(10),
        ]
    )
    model.compile(
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        optimizer=keras.optimizers.SGD(learning_rate=0.05, momentum=0.9),
        steps_per_execution=args.samples // 32,
    )
    model.fit(x_train, y_train, batch_size=32, epochs=2, verbose=2)


@tf.function(input_signature=[tf.TensorSpec((BATCH, 28, 28), tf.uint8, "images")])
def scaled(pixels):
    return tf.cast(pixels[..., tf.newaxis], tf.float32) / 255


@tf.function
def classified(logits):
    return {"classes": tf.argmax(logits, axis=1, output_type=tf.int32), "logits": logits}


export_dir = os.path.join(tempfile.mkdtemp(), "mnist", "1")
with strategy.scope():
    predict = model.export_for_ipu_serving(
        export_dir,
        batch_size=BATCH,
        preprocessing_step=scaled,
        postprocessing_step=classified,
    )
    # A step of one's own, without Keras.
    kernel = tf.Variable(np.ones((28 * 28, 1), "float32"))
    brightness_dir = os.path.join(tempfile.mkdtemp(), "brightness")
    serving.export_single_step(
        lambda x: tf.matmul(tf.reshape(x, (BATCH, 28 * 28)), kernel) / (28 * 28),
        brightness_dir,
        iterations=args.requests,
        input_dataset=tf.data.Dataset.from_tensor_slices(x_train[..., 0]).batch(
            BATCH, drop_remainder=True
        ),
        output_names="brightness",
    )

requests = images.reshape(args.requests, BATCH, 28, 28)
served = np.concatenate([predict(batch)["classes"] for batch in requests])
print("accuracy", np.mean(served == labels))

# The same model in an on-device loop, with feeds.
dataset = tf.data.Dataset.from_tensor_slices(requests).map(
    lambda pixels: tf.cast(pixels, tf.float32) / 255
)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
with strategy.scope():
    loaded = tf.saved_model.load(export_dir)


def answer(batch):
    logits = loaded.program(batch[..., tf.newaxis])
    outfeed.enqueue(tf.argmax(logits, axis=1, output_type=tf.int32))


@tf.function
def serve():
    ipu.loops.repeat(args.requests, answer, [], infeed)


strategy.run(serve)
fed = outfeed.dequeue().numpy().reshape(-1)
print("equal", np.mean(fed == served))

# And by the embedded runtime.
context = embedded_runtime.embedded_runtime_start(brightness_dir, [], "brightness")
for batch in requests[:2]:
    pixels = batch.astype("float32") / 255
    (brightness,) = embedded_runtime.embedded_runtime_call([pixels], context)
    np.testing.assert_allclose(brightness[:, 0], pixels.mean(axis=(1, 2)), rtol=1e-4)
print("brightness", float(tf.reduce_mean(brightness)))

signature = tf.saved_model.load(export_dir).signatures["serving_default"]
again = np.concatenate([signature(images=tf.constant(batch))["classes"] for batch in requests])
print("stock", np.mean(again == served))
