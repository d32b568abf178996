"""Trains with batches larger than the device holds at once.

The gradients of several micro-batches are accumulated and the weights are updated once for all
of them. By default gradients are summed, which multiplies the size of an update by the number of
micro-batches; with the mean the learning rate can stay the same. Each method trains the same
weights as training with whole batches.

python -m tutorials.gradient_accumulation [--epochs N]
"""

from __future__ import annotations

import keras
import numpy as np

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

MICRO_BATCH = 8
MICRO_BATCHES = 8
UPDATES = 20  # Weight updates in an epoch.


def train(method: str | None, learning_rate: float, epochs: int) -> list[np.ndarray]:
    """Trains a new model and returns its weights.

    Args:
        method: How gradients are accumulated, None for whole batches.
        learning_rate: Of the optimizer.
        epochs: Epochs to train.
    """
    micro_batches = 1 if method is None else MICRO_BATCHES
    keras.utils.set_random_seed(1)
    with IPUStrategy().scope():
        model = digits.make_model()
        model.compile(
            optimizer=keras.optimizers.SGD(learning_rate, momentum=0.9),
            loss=digits.loss(),
            metrics=["accuracy"],
            # An execution is a whole number of weight updates.
            steps_per_execution=micro_batches * UPDATES,
        )
        if method is not None:
            model.set_gradient_accumulation_options(
                gradient_accumulation_steps_per_replica=micro_batches,
                gradient_accumulation_reduction_method=method,
            )
        history = model.fit(
            digits.make_dataset(MICRO_BATCH * MICRO_BATCHES // micro_batches),
            epochs=epochs,
            steps_per_epoch=micro_batches * UPDATES,
            shuffle=False,
            verbose=0,
        ).history
    print(
        f"{method or 'whole batch':12} learning rate {learning_rate:g}: accuracy "
        f"{history['accuracy'][-1]:.2%} after {int(model.optimizer.iterations)} updates of "
        f"{MICRO_BATCH * MICRO_BATCHES} digits"
    )
    weights: list[np.ndarray] = model.get_weights()
    return weights


def main(arguments: list[str] | None = None) -> None:
    """Trains with whole batches and with each method of accumulation, and compares the weights."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    whole = train(None, 0.08, epochs)
    rates = {"sum": 0.08 / MICRO_BATCHES, "mean": 0.08, "running_mean": 0.08}
    weights = {method: train(method, rate, epochs) for method, rate in rates.items()}
    for method, trained in weights.items():
        difference = digits.largest_difference(whole, trained)
        print(f"{method:12} largest difference from the weights of whole batches: {difference:.1g}")


if __name__ == "__main__":
    main()
