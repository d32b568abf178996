"""Trains in a graph of TensorFlow 1, with a network and an optimizer of the script's own."""

import numpy as np
import tensorflow as tf
from tensorflow.compiler.plugin.poplar.ops import gen_poputil_ops
from tensorflow.contrib.compiler import xla
from tensorflow.python import ipu
from tensorflow.python.training import optimizer

BATCH, CHANNELS, GROUPS, ACCUMULATED, STEPS = 8, 8, 2, 2, 40


class Accumulating(optimizer.Optimizer):
    """Sums the gradients of micro-batches for another optimizer."""

    def __init__(self, inner):
        super().__init__(False, name="Accumulating")
        self._inner = inner

    def compute_gradients(self, loss, var_list=None, **kwargs):
        return self._inner.compute_gradients(loss, var_list, **kwargs)

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        sums = []
        for grad, var in grads_and_vars:
            total = gen_poputil_ops.ipu_stateful_gradient_accumulate(
                grad / ACCUMULATED, num_mini_batches=ACCUMULATED
            )
            sums.append((total, var))
        return self._inner.apply_gradients(sums, global_step, name)


def network(images, training):
    with tf.variable_scope("network", use_resource=True, reuse=tf.AUTO_REUSE):
        first = tf.get_variable("first", [3, 3, 1, CHANNELS])
        x = tf.nn.conv2d(images, filters=first, strides=[1, 1, 1, 1], padding="SAME")
        x = tf.nn.relu(tf.layers.batch_normalization(x, training=training, momentum=0.9))
        second = tf.get_variable(
            "second",
            [3, 3, CHANNELS / GROUPS, CHANNELS],
            initializer=tf.contrib.layers.xavier_initializer(),
        )
        x = tf.nn.relu(tf.nn.conv2d(x, filters=second, strides=[1, 2, 2, 1], padding="SAME"))
        return tf.layers.dense(tf.reduce_mean(x, [1, 2]), 2, name="classes")


def step(total, image, label):
    logits = network(image, training=True)
    loss = tf.losses.sparse_softmax_cross_entropy(labels=label, logits=logits)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        update = Accumulating(tf.train.MomentumOptimizer(0.1, 0.9)).minimize(loss)
    with tf.control_dependencies([update]):
        return total + loss


def main():
    tf.set_random_seed(1)
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 2, 64).astype(np.int32)
    images = rng.normal(size=(64, 8, 8, 1)) + 2 * labels[:, None, None, None] * np.eye(8)[..., None]
    data = tf.data.Dataset.from_tensor_slices((images.astype(np.float32), labels))
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(data.repeat().batch(BATCH, drop_remainder=True))
    with ipu.scopes.ipu_scope("/device:IPU:0"):
        (loss,) = xla.compile(lambda: ipu.loops.repeat(STEPS, step, [0.0], infeed), [])
    saver = tf.train.Saver()
    ipu.utils.move_variable_initialization_to_cpu()
    initializer = tf.global_variables_initializer()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 1
    config.configure_ipu_system()
    tf.get_default_graph().finalize()
    with tf.Session() as session:
        session.run([initializer, infeed.initializer])
        for _ in range(2):
            print("loss", session.run(loss) / STEPS)
        path = saver.save(session, "checkpoints/model", write_meta_graph=False)
    names = tf.train.NewCheckpointReader(path).get_variable_to_shape_map()
    print("moving", "network/batch_normalization/moving_mean" in names)
    print("modes", tf.estimator.ModeKeys.TRAIN)


if __name__ == "__main__":
    main()
