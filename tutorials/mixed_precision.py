"""Trains in float16 with a float32 copy of the weights.

Layers compute in float16; weights and the optimizer stay float32. The loss is scaled up, so that
small gradients survive in float16; an update whose gradients overflow is skipped. Accumulators are
float32 here: a float16 sum of many gradients would lose the small ones. The last lines show the
types of each layer and the final loss scale.

python -m tutorials.mixed_precision [--epochs N]
"""

from __future__ import annotations

import keras
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.profile.report import Report
from tutorials import digits

BATCH_SIZE = 16
MICRO_BATCHES = 2
STEPS = 100


def train(policy: str, epochs: int) -> tuple[keras.Model, Report]:
    """Trains a new model under a dtype policy; returns it and the report of its programs."""
    previous = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(policy)
    keras.utils.set_random_seed(1)
    strategy = IPUStrategy()
    try:
        with strategy.scope():
            model = digits.make_model()
            # Under "mixed_float16" Keras wraps the optimizer in a LossScaleOptimizer.
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
    print(f"{policy:13} accuracy {history['accuracy'][-1]:.2%}")
    return model, strategy.report()


def main(arguments: list[str] | None = None) -> None:
    """Trains in float32, then with float16 matmuls whose results are rounded stochastically."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.floating_point_behaviour.esr = cfg.floating_point_behaviour.esr.from_bool(True)
    cfg.configure_ipu_system()
    train("float32", epochs)
    model, report = train("mixed_float16", epochs)
    for layer in model.layers:
        (products,) = {op.shape.dtype for op in report.tile_ops if op.layer == layer.path}
        print(f"{layer.path}: weights {layer.kernel.dtype}, products {products}")
    updates = epochs * STEPS // MICRO_BATCHES
    print(
        f"the loss is scaled by {float(model.optimizer.dynamic_scale):g}; "
        f"{updates - int(model.optimizer.iterations)} of {updates} updates overflowed and were "
        "left out"
    )


if __name__ == "__main__":
    main()
