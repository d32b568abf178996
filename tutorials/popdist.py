"""Trains replicas of a model in several processes.

poprun shares out the replicas of a job to its instances, which are processes. Each instance feeds
its own replicas; each step sums the gradients of all. Replica r of R takes every R-th batch, so the
weights are the same, bit for bit, over any number of instances: compare the last line of

poprun --num-instances=1 --num-replicas=4 python3 -m tutorials.popdist [--epochs N]
poprun --num-instances=2 --num-replicas=4 python3 -m tutorials.popdist [--epochs N]
"""

from __future__ import annotations

import hashlib

import keras
import numpy as np
import tensorflow as tf

from ipu_tf import IPUConfig
from ipu_tf.distributed.popdist_strategy import PopDistStrategy
from ipu_tf.processes.instances import instances
from tutorials import digits

BATCH_SIZE = 16  # Of each replica.


def batches(replicas: int) -> tuple[tf.data.Dataset, int]:
    """The batches of all replicas, and the number of steps that each of them runs."""
    dataset = tf.data.Dataset.from_tensor_slices(digits.load_digits())
    dataset = dataset.batch(BATCH_SIZE, drop_remainder=True)
    steps = int(dataset.cardinality()) // replicas
    return dataset.take(steps * replicas), steps


def accuracy(weights: list[np.ndarray]) -> float:
    """The share of all digits that a model with these weights tells right."""
    x, y = digits.load_digits()
    model = digits.make_model()
    model.set_weights(weights)
    return float(np.mean(np.argmax(model(x), -1) == y))


def main(arguments: list[str] | None = None) -> None:
    """Trains the replicas of this instance, together with those of the others."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    job = instances()
    cfg = IPUConfig()
    cfg.auto_select_ipus = job.local_replicas
    cfg.configure_ipu_system()
    keras.utils.set_random_seed(1)
    strategy = PopDistStrategy()
    with strategy.scope():
        model = digits.make_model()
        dataset, steps = batches(job.total_replicas)
        model.compile(
            optimizer=keras.optimizers.SGD(0.2 / job.total_replicas),
            loss=digits.loss(),
            steps_per_execution=steps,
        )
        own = strategy.experimental_distribute_dataset(dataset)
        model.fit(own, epochs=epochs, shuffle=False, verbose=0)
    if job.index == 0:
        weights = model.get_weights()
        digest = hashlib.sha256(b"".join(weight.tobytes() for weight in weights)).hexdigest()
        print(f"{job.count} x {job.local_replicas} replicas: accuracy {accuracy(weights):.2%}")
        print(f"weights {digest[:16]}")


if __name__ == "__main__":
    main()
