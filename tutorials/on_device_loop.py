"""Runs many training steps in one call of the device.

`steps_per_execution` is the number of steps that the device runs before the host has a say. The
weights do not depend on it; the time does, the more the smaller the model.

python -m tutorials.on_device_loop [--epochs N]
"""

from __future__ import annotations

import time

import keras

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

BATCH_SIZE = 16
STEPS = 100


def train(steps_per_execution: int, epochs: int) -> float:
    """Trains a new model; returns the milliseconds of a step, without those of the first epoch."""
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
        data = digits.make_dataset(BATCH_SIZE)
        arguments = {"steps_per_epoch": STEPS, "shuffle": False, "verbose": 0}
        model.fit(data, epochs=1, **arguments)  # Traces and compiles.
        start = time.perf_counter()
        history = model.fit(data, epochs=epochs, **arguments).history
        milliseconds = (time.perf_counter() - start) / (epochs * STEPS) * 1e3
    print(
        f"{steps_per_execution:4} steps an execution: {milliseconds:6.3f} ms a step, "
        f"accuracy {history['accuracy'][-1]:.2%}"
    )
    return milliseconds


def main(arguments: list[str] | None = None) -> None:
    """Trains with single steps and with whole epochs in one call."""
    epochs = digits.epochs(__doc__, arguments, default=10)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    for steps_per_execution in (1, 10, STEPS):
        train(steps_per_execution, epochs)


if __name__ == "__main__":
    main()
