"""Trains on digits by a pipeline of stage functions, then tests it by another one."""

import argparse

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python import ipu
from tensorflow.python.ipu.ops import pipelining_ops

BATCH_SIZE = 16
PIXELS = 28 * 28


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--replicas", type=int, default=1)
    parser.add_argument(
        "--schedule", choices=[s.name for s in pipelining_ops.PipelineSchedule], default="Grouped"
    )
    parser.add_argument("--recompute", action="store_true")
    return parser.parse_args()


def dataset_of(images, labels):
    images = images.reshape(-1, PIXELS).astype(np.float32) / 255
    data = tf.data.Dataset.from_tensor_slices((images, labels.astype(np.int32)))
    return data.shuffle(2000, seed=1).batch(BATCH_SIZE, drop_remainder=True).repeat()


class Network:
    """Two dense layers as stages."""

    def __init__(self):
        self.hidden = keras.layers.Dense(64, activation="relu", name="hidden")
        self.logits = keras.layers.Dense(10, name="logits")
        self.hidden.build((BATCH_SIZE, PIXELS))
        self.logits.build((BATCH_SIZE, 64))

    def features(self, images, labels):
        return pipelining_ops.recomputation_checkpoint(self.hidden(images)), labels

    def loss(self, features, labels):
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=labels, logits=self.logits(features)
        )
        return tf.reduce_mean(losses)

    def hits(self, features, labels):
        guesses = tf.argmax(self.logits(features), axis=-1, output_type=tf.int32)
        return tf.reduce_sum(tf.cast(tf.equal(guesses, labels), tf.float32))


def main():
    args = parse_arguments()
    config = ipu.config.IPUConfig()
    config.auto_select_ipus = 2 * args.replicas
    config.configure_ipu_system()
    options = {
        "gradient_accumulation_count": 8,
        "device_mapping": [0, 1],
        "pipeline_schedule": pipelining_ops.PipelineSchedule[args.schedule],
    }
    if args.recompute:
        mode = pipelining_ops.RecomputationMode.RecomputeAndBackpropagateInterleaved
        options["recomputation_mode"] = mode

    (x_train, y_train), (x_test, y_test) = keras.datasets.mnist.load_data()
    train_feed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset_of(x_train, y_train))
    test_feed = ipu.ipu_infeed_queue.IPUInfeedQueue(dataset_of(x_test, y_test))
    losses_out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()
    hits_out = ipu.ipu_outfeed_queue.IPUOutfeedQueue()

    strategy = ipu.ipu_strategy.IPUStrategy()
    with strategy.scope():
        network = Network()
        optimizer = tf.compat.v1.train.MomentumOptimizer(0.01 / args.replicas, 0.9)

        def optimizer_function(loss):
            return pipelining_ops.OptimizerFunctionOutput(optimizer, loss)

        @tf.function(jit_compile=True)
        def train():
            pipelining_ops.pipeline(
                computational_stages=[network.features, network.loss],
                repeat_count=args.updates,
                infeed_queue=train_feed,
                outfeed_queue=losses_out,
                optimizer_function=optimizer_function,
                outfeed_loss=True,
                reduction_method="mean",
                name="train",
                **options,
            )

        @tf.function
        def test():
            pipelining_ops.pipeline(
                computational_stages=[network.features, network.hits],
                repeat_count=4,
                infeed_queue=test_feed,
                outfeed_queue=hits_out,
                accumulate_outfeed=True,
                name="test",
                **options,
            )

        strategy.run(train)
        losses = np.mean(losses_out.dequeue().numpy().reshape(args.updates, -1), axis=1)
        print("loss", losses[0], "to", losses[-1])
        strategy.run(test)
        (hits,) = hits_out.dequeue()
        tested = 4 * options["gradient_accumulation_count"] * BATCH_SIZE * args.replicas
        print("accuracy", float(tf.reduce_sum(hits)) / tested)


if __name__ == "__main__":
    main()
