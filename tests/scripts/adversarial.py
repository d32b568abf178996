"""A generator against a discriminator, with several datasets in one infeed."""

import numpy as np
import tensorflow as tf
from tensorflow.python import ipu

cfg = ipu.config.IPUConfig()
cfg.auto_select_ipus = 1
cfg.configure_ipu_system()

real = tf.data.Dataset.from_tensors(np.float32(3.0)).repeat()
real = real.map(lambda mean: mean + tf.random.stateless_normal([64, 1], [1, 2])).cache().repeat()
noise = tf.data.Dataset.random(seed=3).map(
    lambda seed: tf.random.stateless_normal([64, 4], [seed, seed])
)
infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(
    tf.data.Dataset.zip({"samples": real.take(64).repeat(), "noise": noise})
)
discriminator_losses = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
last = ipu.ipu_outfeed_queue.IPUOutfeedQueue(outfeed_mode=ipu.ipu_outfeed_queue.IPUOutfeedMode.LAST)
strategy = ipu.ipu_strategy.IPUStrategy()

with strategy.scope():
    generator = [tf.Variable(tf.fill([4, 1], 0.1)), tf.Variable(tf.zeros([1]))]
    discriminator = [tf.Variable(tf.fill([1, 1], 0.1)), tf.Variable(tf.zeros([1]))]

    def judged(values):
        return tf.matmul(values, discriminator[0]) + discriminator[1]

    def cross_entropy(logits, target):
        return tf.reduce_mean(
            tf.nn.sigmoid_cross_entropy_with_logits(tf.fill(logits.shape, target), logits)
        )

    def step(count, noise, samples):
        with tf.GradientTape(persistent=True) as tape:
            made = tf.matmul(noise, generator[0]) + generator[1]
            fooled = cross_entropy(judged(made), 1.0)
            caught = cross_entropy(judged(made), 0.0) + cross_entropy(judged(samples), 1.0)
        for variables, loss in ((discriminator, caught), (generator, fooled)):
            for variable, gradient in zip(variables, tape.gradient(loss, variables), strict=True):
                variable.assign_sub(0.05 * gradient)
        discriminator_losses.enqueue(caught)
        last.enqueue({"made": tf.reduce_mean(made)})
        return count + 1

    @tf.function
    def train():
        return ipu.loops.repeat(200, step, [tf.constant(0)], infeed)

    print("steps", int(strategy.run(train)), discriminator_losses.dequeue().shape[0])
    print("moved", bool(last.dequeue()["made"] > 0.5))
