"""Trains replicas of a model on several IPUs.

A device of four IPUs holds four replicas of a model that fits on one. Each step takes a batch for
each replica and sums the gradients of all. The learning rate is therefore divided by the number of
replicas, to train as one replica does with the mean over the large batch. The last line compares
the weights.

python -m tutorials.replication [--epochs N]
"""

from __future__ import annotations

import keras
import numpy as np

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

BATCH_SIZE = 16  # Of each replica.
REPLICAS = 4
STEPS = 25  # Of each replica, in an epoch.


def train(num_ipus: int, batch_size: int, epochs: int) -> list[np.ndarray]:
    """Trains a new model and returns its weights."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = num_ipus
    cfg.configure_ipu_system()
    keras.utils.set_random_seed(1)
    with IPUStrategy().scope():
        model = digits.make_model()
        model.compile(
            optimizer=keras.optimizers.SGD(0.2 / num_ipus),
            loss=digits.loss(),
            metrics=["accuracy"],
            steps_per_execution=STEPS,
        )
        model.set_replication_options("LIST")  # The logs hold the metrics of each replica.
        history = model.fit(
            digits.make_dataset(batch_size),
            epochs=epochs,
            steps_per_epoch=STEPS * num_ipus,
            shuffle=False,
            verbose=0,
        ).history
    last = history["accuracy"][-1]
    seen = ", ".join(f"{accuracy:.2%}" for accuracy in (last if num_ipus > 1 else [last]))
    print(f"{num_ipus} x {batch_size} digits an update: accuracy of each replica {seen}")
    weights: list[np.ndarray] = model.get_weights()
    return weights


def main(arguments: list[str] | None = None) -> None:
    """Trains one replica with batches four times as large, then four replicas."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    alone = train(1, REPLICAS * BATCH_SIZE, epochs)
    together = train(REPLICAS, BATCH_SIZE, epochs)
    difference = digits.largest_difference(alone, together)
    print(f"largest difference between the weights of 1 and {REPLICAS} replicas: {difference:.1g}")


if __name__ == "__main__":
    main()
