"""Trains a pipeline in the style of TensorFlow 1: a graph, a session, feeds and a learning rate."""

import argparse

import numpy as np
import tensorflow.compat.v1 as tf
from tensorflow.python import ipu
from tensorflow.python.ipu import ipu_compiler, scopes
from tensorflow.python.ipu.ops import pipelining_ops

tf.disable_v2_behavior()

WIDTH = 8
BATCH_SIZE = 4


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--configure-last", action="store_true")
    return parser.parse_args()


def configure():
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2
    config.selection_order = ipu.config.SelectionOrder.SNAKE
    config.configure_ipu_system()


def dataset():
    x = np.random.default_rng(1).normal(size=(512, WIDTH)).astype(np.float32)
    y = np.sum(x, axis=1, keepdims=True) / WIDTH
    data = tf.data.Dataset.from_tensor_slices((x, y.astype(np.float32)))
    return data.map(lambda x, y: (x, 2 * y)).batch(BATCH_SIZE, drop_remainder=True).repeat()


def hidden_stage(rate, x, y):
    with tf.variable_scope("hidden", use_resource=True):
        weight = tf.get_variable(
            "weight", [WIDTH, WIDTH], initializer=tf.glorot_uniform_initializer(seed=1)
        )
        bias = tf.get_variable("bias", [WIDTH], initializer=tf.zeros_initializer())
        return rate, tf.tanh(tf.matmul(x, weight) + bias), y


def loss_stage(rate, x, y):
    with tf.variable_scope("loss", use_resource=True):
        weight = tf.get_variable(
            "weight", [WIDTH, 1], initializer=tf.glorot_uniform_initializer(seed=2)
        )
        return rate, tf.reduce_mean(tf.square(tf.matmul(x, weight) - y))


def optimizer_function(rate, loss):
    optimizer = tf.train.AdamOptimizer(rate)
    return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)


def main():
    args = parse_arguments()
    if not args.configure_last:
        configure()
    infeed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset())
    outfeed = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    def network(rate):
        with tf.variable_scope("network", use_resource=True):
            return pipelining_ops.pipeline(
                computational_stages=[hidden_stage, loss_stage],
                device_mapping=[0, 1],
                gradient_accumulation_count=4,
                repeat_count=10,
                inputs=[rate],
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=optimizer_function,
                outfeed_loss=True,
                reduction_method=ipu.gradient_accumulation.GradientAccumulationReductionMethod.MEAN,
                name="Pipeline",
            )

    with tf.device("cpu"):
        rate = tf.placeholder(np.float32, [])
    with scopes.ipu_scope("/device:IPU:0"):
        train = ipu_compiler.compile(network, inputs=[rate])
    dequeue = outfeed.dequeue()
    ipu.utils.move_variable_initialization_to_cpu()
    initialize = tf.global_variables_initializer()
    if args.configure_last:
        configure()

    with tf.Session() as session:
        session.run(initialize)
        session.run(infeed.initializer)
        for step in range(args.steps):
            session.run(train, {rate: 0.02})
            losses = session.run(dequeue)
            print("step", step, losses.shape, np.mean(losses))
    print("loss", np.mean(losses))


if __name__ == "__main__":
    main()
