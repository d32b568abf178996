"""Trains a functional model in four pipeline stages on two IPUs.

Calls of layers in a `PipelineStage` scope belong to that stage. The model has two branches that
meet again, in stages between the one where they start and the one where they end. The device
mapping puts two neighbouring stages on each IPU. The timeline at the end shows when each stage
works, and how long the IPUs wait for one another.

python -m tutorials.pipelining_functional [--epochs N]
"""

from __future__ import annotations

import keras

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.keras import PipelineStage
from ipu_tf.ops.pipelining_ops import PipelineSchedule, RecomputationMode
from tutorials import digits

BATCH_SIZE = 8
MICRO_BATCHES = 8
UPDATES = 20  # Weight updates in an epoch.


def make_model() -> keras.Model:
    """Two dense branches on a common layer, in four stages."""
    inputs = keras.Input((digits.PIXELS,))
    with PipelineStage(0):
        x = keras.layers.Dense(64, activation="relu", name="common")(inputs)
    with PipelineStage(1):
        left = keras.layers.Dense(32, activation="relu", name="left")(x)
    with PipelineStage(2):
        right = keras.layers.Dense(32, activation="tanh", name="right")(x)
    with PipelineStage(3):
        x = keras.layers.Concatenate(name="both")([left, right])
        outputs = keras.layers.Dense(digits.CLASSES, name="head")(x)
    return keras.Model(inputs, outputs, name="branches")


def train(epochs: int) -> float:
    """Trains a new model; returns its accuracy in the last epoch."""
    keras.utils.set_random_seed(1)
    strategy = IPUStrategy()
    with strategy.scope():
        model = make_model()
        model.compile(
            optimizer=keras.optimizers.Adam(0.01),
            loss=digits.loss(),
            metrics=["accuracy"],
            steps_per_execution=MICRO_BATCHES * UPDATES,
        )
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=MICRO_BATCHES,
            gradient_accumulation_reduction_method="mean",
            device_mapping=[0, 0, 1, 1],
            pipeline_schedule=PipelineSchedule.Grouped,
            recomputation_mode=RecomputationMode.RecomputeThenBackpropagate,
        )
        model.print_pipeline_stage_assignment_summary()
        history = model.fit(
            digits.make_dataset(BATCH_SIZE),
            epochs=epochs,
            steps_per_epoch=MICRO_BATCHES * UPDATES,
            shuffle=False,
            verbose=0,
        ).history
    accuracy = float(history["accuracy"][-1])
    print(f"four stages on two IPUs: accuracy {accuracy:.2%}")
    print(strategy.report().timeline())
    return accuracy


def main(arguments: list[str] | None = None) -> None:
    """Trains the model."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.configure_ipu_system()
    train(epochs)


if __name__ == "__main__":
    main()
