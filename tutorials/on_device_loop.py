"""Runs many training steps in one call of the device.

`steps_per_execution` is the number of steps that the device runs for one call from the host. The
weights do not depend on it. The time does: the smaller the model, the larger the part of a step
that the call takes. The models train in turns, and the fastest epoch of each counts: other work on
this machine slows down single epochs.

python -m tutorials.on_device_loop [--epochs N]
"""

from __future__ import annotations

import time

import keras

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

BATCH_SIZE = 16
STEPS = 100
"""Steps of an epoch."""


def make_model(steps_per_execution: int) -> keras.Model:
    """Returns a new model, compiled; all have the same first weights."""
    keras.utils.set_random_seed(1)
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
    return model


def main(arguments: list[str] | None = None) -> None:
    """Trains with single steps, ten and a whole epoch in one call."""
    epochs = digits.epochs(__doc__, arguments, default=10)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    seconds: dict[int, list[float]] = {1: [], 10: [], STEPS: []}
    accuracies: dict[int, float] = {}
    with IPUStrategy().scope():
        models = {steps: make_model(steps) for steps in seconds}
        data = {steps: digits.make_dataset(BATCH_SIZE) for steps in seconds}
        for _ in range(1 + epochs):  # The first traces and compiles.
            for steps, model in models.items():
                start = time.perf_counter()
                fitted = model.fit(data[steps], steps_per_epoch=STEPS, shuffle=False, verbose=0)
                seconds[steps].append(time.perf_counter() - start)
                accuracies[steps] = fitted.history["accuracy"][-1]
    fastest = {steps: min(times[1:]) / STEPS for steps, times in seconds.items()}
    for steps, best in fastest.items():
        print(
            f"{steps:4} steps an execution: {best * 1e3:6.3f} ms a step in the fastest epoch, "
            f"accuracy {accuracies[steps]:.2%}"
        )
    weights = {steps: model.get_weights() for steps, model in models.items()}
    difference = digits.largest_difference(weights[1], weights[STEPS])
    print(
        f"{STEPS} steps an execution take {fastest[STEPS] / fastest[1]:.0%} of the time of single "
        f"steps; largest difference of the weights: {difference:.1g}"
    )


if __name__ == "__main__":
    main()
