"""Trains replicas of a model on several IPUs.

A device of four IPUs holds four replicas of a model that fits on one. Each step takes a batch for
each of them; their gradients are summed, so the learning rate is divided by their number to train
as one replica does with the mean over the large batch.

python -m tutorials.replication [--epochs N]
"""

from __future__ import annotations

import keras

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

BATCH_SIZE = 16
STEPS = 25  # Of each replica, in an epoch.


def train(num_ipus: int, epochs: int) -> list[float]:
    """Trains a new model; returns the accuracy of every replica in the last epoch."""
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
            digits.make_dataset(BATCH_SIZE),
            epochs=epochs,
            steps_per_epoch=STEPS * num_ipus,
            shuffle=False,
            verbose=0,
        ).history
    last = history["accuracy"][-1]
    accuracies = [float(value) for value in (last if num_ipus > 1 else [last])]
    seen = ", ".join(f"{accuracy:.2%}" for accuracy in accuracies)
    print(f"{num_ipus} replicas, {num_ipus * BATCH_SIZE} digits an update: accuracy {seen}")
    return accuracies


def main(arguments: list[str] | None = None) -> None:
    """Trains one replica, then four."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    for num_ipus in (1, 4):
        train(num_ipus, epochs)


if __name__ == "__main__":
    main()
