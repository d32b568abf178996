"""Training in an on-device loop with feeds, written as the vendor's guides write it."""

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()

(x, y), _ = tf.keras.datasets.mnist.load_data()
x = x[:2048].reshape(-1, 784).astype("float32") / 255
dataset = tf.data.Dataset.from_tensor_slices((x, y[:2048].astype("int32")))
dataset = dataset.batch(32, drop_remainder=True).repeat()

infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset)
outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
strategy = ipu.ipu_strategy.IPUStrategy()

with strategy.scope():
    kernel = tf.Variable(tf.zeros([784, 10]))
    optimizer = ipu.optimizers.GradientAccumulationOptimizerV2(
        tf.compat.v1.train.GradientDescentOptimizer(0.1), num_mini_batches=4
    )

    def step(images, labels):
        logits = tf.matmul(images, kernel)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        loss = tf.reduce_mean(losses)
        return [outfeed.enqueue({"loss": loss}), optimizer.minimize(loss, var_list=[kernel])]

    @tf.function(experimental_compile=True)
    def train():
        ipu.loops.repeat(64, step, [], infeed)

    for _ in range(2):
        strategy.run(train)
        losses = outfeed.dequeue()["loss"].numpy()
        print("steps", len(losses))
    print("improved", bool(np.mean(losses[-8:]) < 2.0))
