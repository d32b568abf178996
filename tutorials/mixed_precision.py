"""Trains in float16 with a float32 copy of the weights.

Layers compute in float16, weights and the optimizer stay float32. The loss is scaled up, so that
small gradients survive in float16; an update whose gradients overflow is left out. Accumulators
are float32 here: a sum of many float16 gradients would lose the small ones.

python -m tutorials.mixed_precision [--epochs N]
"""

from __future__ import annotations

import keras
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

BATCH_SIZE = 16
MICRO_BATCHES = 2
STEPS = 100


def train(epochs: int) -> float:
    """Trains a model in mixed precision; returns its accuracy in the last epoch."""
    previous = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy("mixed_float16")
    keras.utils.set_random_seed(1)
    try:
        with IPUStrategy().scope():
            model = digits.make_model()
            # Keras wraps the optimizer in a LossScaleOptimizer: that is what the policy asks for.
            model.compile(
                optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
                loss=digits.loss(),
                metrics=["accuracy"],
                steps_per_execution=STEPS,
            )
            model.set_gradient_accumulation_options(MICRO_BATCHES, "mean", dtype=tf.float32)
            history = model.fit(
                digits.make_dataset(BATCH_SIZE),
                epochs=epochs,
                steps_per_epoch=STEPS,
                shuffle=False,
                verbose=0,
            ).history
    finally:
        keras.mixed_precision.set_global_policy(previous)
    accuracy = float(history["accuracy"][-1])
    print(
        f"Accuracy {accuracy:.2%} after {int(model.optimizer.iterations)} updates; the loss is "
        f"scaled by {float(model.optimizer.dynamic_scale):g}"
    )
    return accuracy


def main(arguments: list[str] | None = None) -> None:
    """Trains with float16 matmuls whose results are rounded stochastically."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.floating_point_behaviour.esr = cfg.floating_point_behaviour.esr.from_bool(True)
    cfg.configure_ipu_system()
    train(epochs)


if __name__ == "__main__":
    main()
