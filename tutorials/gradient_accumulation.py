"""Trains with batches larger than the device holds at once.

The gradients of several micro-batches are accumulated and the weights are updated once for all
of them. Accumulation sums by default, which multiplies the size of a step by the number of
micro-batches: the mean leaves the learning rate what it was.

python -m tutorials.gradient_accumulation [--epochs N]
"""

from __future__ import annotations

import keras

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

MICRO_BATCH = 8
MICRO_BATCHES = 8
UPDATES = 20  # Weight updates in an epoch.


def train(method: str, learning_rate: float, epochs: int) -> float:
    """Trains a new model; returns its accuracy in the last epoch."""
    keras.utils.set_random_seed(1)
    with IPUStrategy().scope():
        model = digits.make_model()
        model.compile(
            optimizer=keras.optimizers.SGD(learning_rate, momentum=0.9),
            loss=digits.loss(),
            metrics=["accuracy"],
            # An execution is a whole number of weight updates.
            steps_per_execution=MICRO_BATCHES * UPDATES,
        )
        model.set_gradient_accumulation_options(
            gradient_accumulation_steps_per_replica=MICRO_BATCHES,
            gradient_accumulation_reduction_method=method,
        )
        history = model.fit(
            digits.make_dataset(MICRO_BATCH),
            epochs=epochs,
            steps_per_epoch=MICRO_BATCHES * UPDATES,
            shuffle=False,
            verbose=0,
        ).history
    accuracy = float(history["accuracy"][-1])
    print(
        f"{method:12} learning rate {learning_rate:g}: accuracy {accuracy:.2%} after "
        f"{int(model.optimizer.iterations)} updates of {MICRO_BATCH * MICRO_BATCHES} digits"
    )
    return accuracy


def main(arguments: list[str] | None = None) -> None:
    """Trains with each method of accumulation."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    train("sum", 0.08 / MICRO_BATCHES, epochs)
    train("mean", 0.08, epochs)
    train("running_mean", 0.08, epochs)


if __name__ == "__main__":
    main()
