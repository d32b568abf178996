"""A process of the benchmark `distributed` that trains CIFAR-10's network with others.

Usage: python -m benchmarks.distributed_fit ipu_tf|tensorflow ROUNDS; the first process prints the
images per second of each round as JSON. A round after the first, which traces and compiles, is one
call of `fit`. Both sides train in batches of `BATCH` over all processes and replicas. TensorFlow's
side is a model of tf_keras: `fit` of Keras 3 does not take the batches of its strategy.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from unittest import mock

import keras
import numpy as np
import tensorflow as tf

from benchmarks.datasets import untuned
from tutorials import cifar10

BATCH = 64
STEPS = 20
STEPS_PER_EXECUTION = 10


def strategy_of_job() -> tuple[tf.distribute.Strategy, int, int, int]:
    """Returns the strategy of the job, this process's number, all replicas and those here."""
    from ipu_tf import IPUConfig
    from ipu_tf.compat.popdist.tensorflow import set_ipu_config
    from ipu_tf.distributed.popdist_strategy import PopDistStrategy
    from ipu_tf.processes.instances import instances

    config, job = IPUConfig(), instances()
    set_ipu_config(config)
    config.configure_ipu_system()
    return PopDistStrategy(), job.index, job.total_replicas, job.local_replicas


def strategy_of_tensorflow() -> tuple[tf.distribute.Strategy, int, int, int]:
    """Returns TensorFlow's strategy, which shares out batches itself, and this process's number."""
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    return strategy, json.loads(os.environ["TF_CONFIG"])["task"]["index"], 1, 1


def dataset(batch: int, batches: int) -> tf.data.Dataset:
    """Returns random images and labels."""
    random = np.random.default_rng(0)
    images = random.integers(0, 256, (batch * batches, 32, 32, 3), dtype=np.uint8)
    labels = random.integers(0, cifar10.CLASSES, len(images))
    images_and_labels = untuned(cifar10.make_dataset((images, labels), batch, training=False))
    options = tf.data.Options()
    # Every process makes its images itself.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return images_and_labels.with_options(options)


def main() -> None:
    """Trains, and prints the speed of each round."""
    side, rounds = sys.argv[1], int(sys.argv[2])
    make = strategy_of_job if side == "ipu_tf" else strategy_of_tensorflow
    strategy, index, replicas, here = make()
    library = keras if side == "ipu_tf" else importlib.import_module("tf_keras")
    training_data = dataset(BATCH // replicas, STEPS * here)
    library.utils.set_random_seed(1)
    with strategy.scope(), mock.patch.object(cifar10, "keras", library):
        model = cifar10.make_model()
        model.compile(
            loss="categorical_crossentropy",
            optimizer=library.optimizers.SGD(0.016),
            steps_per_execution=STEPS_PER_EXECUTION,
        )
        speeds = []
        for _ in range(rounds + 1):
            begin = time.perf_counter()
            model.fit(training_data, epochs=1, shuffle=False, verbose=0)
            speeds.append(BATCH * STEPS / (time.perf_counter() - begin))
    if index == 0:
        print(json.dumps(speeds[1:]), flush=True)


if __name__ == "__main__":
    main()
