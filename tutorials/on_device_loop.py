"""Runs many training steps in one call of the device.

`steps_per_execution` is the number of steps that the device runs for one call from the host. The
weights do not depend on it. The time does: the smaller the model, the more a large number saves.

python -m tutorials.on_device_loop [--epochs N]
"""

from __future__ import annotations

import time

import keras
import numpy as np

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

BATCH_SIZE = 16
STEPS = 100


def train(steps_per_execution: int, epochs: int) -> tuple[float, list[np.ndarray]]:
    """Trains a new model.

    Returns:
        The milliseconds of a step, without those of the first epoch, and the weights.
    """
    keras.utils.set_random_seed(1)
    with IPUStrategy().scope():
        model = digits.make_model()
        model.compile(
            optimizer=keras.optimizers.SGD(0.1),
            loss=digits.loss(),
            metrics=["accuracy"],
            steps_per_execution=steps_per_execution,
        )
        # Batches that are prepared while the device computes.
        model.set_infeed_queue_options(prefetch_depth=4)
        # Callbacks see every step, although the host only calls the device once in a while.
        model.set_asynchronous_callbacks(True)
        arguments = {"steps_per_epoch": STEPS, "shuffle": False, "verbose": 0}
        # Traces and compiles. A dataset of its own leaves the next one's order as it is.
        model.fit(digits.make_dataset(BATCH_SIZE), epochs=1, **arguments)
        data = digits.make_dataset(BATCH_SIZE)
        start = time.perf_counter()
        history = model.fit(data, epochs=epochs, **arguments).history
        milliseconds = (time.perf_counter() - start) / (epochs * STEPS) * 1e3
    print(
        f"{steps_per_execution:4} steps an execution: {milliseconds:6.3f} ms a step, "
        f"accuracy {history['accuracy'][-1]:.2%}"
    )
    return milliseconds, model.get_weights()


def main(arguments: list[str] | None = None) -> None:
    """Trains with single steps and with whole epochs in one call."""
    epochs = digits.epochs(__doc__, arguments, default=10)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    single, weights = train(1, epochs)
    train(10, epochs)
    many, same_weights = train(STEPS, epochs)
    difference = digits.largest_difference(weights, same_weights)
    print(
        f"{STEPS} steps an execution take {many / single:.0%} of the time of single steps; "
        f"largest difference of the weights: {difference:.1g}"
    )


if __name__ == "__main__":
    main()
