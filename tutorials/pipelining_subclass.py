"""Trains two replicas of a subclassed model, each in two pipeline stages, on four IPUs.

`call` assigns layers to stages. Metrics are reported once a weight update (`accumulate_outfeed`).
Once the model is built, a script can read and change the assignment; the timelines show how a
change moves work between the stages.

python -m tutorials.pipelining_subclass [--epochs N]
"""

from __future__ import annotations

from typing import Any

import keras

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.keras import PipelineStage
from ipu_tf.ops.pipelining_ops import PipelineSchedule
from tutorials import digits

BATCH_SIZE = 8
MICRO_BATCHES = 4
UPDATES = 20  # Weight updates in an epoch.
REPLICAS = 2


class Classifier(keras.Model):
    """Three dense layers in two stages."""

    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(96, activation="relu")
        self.second = keras.layers.Dense(48, activation="relu")
        self.head = keras.layers.Dense(digits.CLASSES)

    def call(self, inputs: Any) -> Any:
        """Returns the logits of a batch of digits."""
        with PipelineStage(0):
            x = self.first(inputs)
        with PipelineStage(1):
            return self.head(self.second(x))


def train(epochs: int, *, second_earlier: bool) -> float:
    """Trains a new model; returns its accuracy in the last epoch.

    Args:
        epochs: Epochs to train.
        second_earlier: Whether to move the second layer to the first stage.
    """
    keras.utils.set_random_seed(1)
    strategy = IPUStrategy()
    with strategy.scope():
        model = Classifier()
        model(keras.Input((digits.PIXELS,)))  # Builds it.
        if second_earlier:
            assignment = model.get_pipeline_stage_assignment()
            for of_layer in assignment:
                of_layer.pipeline_stage = 1 if of_layer.layer is model.head else 0
            model.set_pipeline_stage_assignment(assignment)
        model.compile(
            optimizer=keras.optimizers.SGD(0.1 / REPLICAS, momentum=0.9),
            loss=digits.loss(),
            metrics=["accuracy"],
            steps_per_execution=MICRO_BATCHES * UPDATES,
        )
        model.set_pipelining_options(
            gradient_accumulation_steps_per_replica=MICRO_BATCHES,
            gradient_accumulation_reduction_method="mean",
            accumulate_outfeed=True,
            pipeline_schedule=PipelineSchedule.Interleaved,
        )
        history = model.fit(
            digits.make_dataset(BATCH_SIZE),
            epochs=epochs,
            steps_per_epoch=MICRO_BATCHES * UPDATES * REPLICAS,
            shuffle=False,
            verbose=0,
        ).history
    accuracy = float(history["accuracy"][-1])
    stages = [of_layer.pipeline_stage for of_layer in model.get_pipeline_stage_assignment()]
    print(f"stages {stages}: accuracy {accuracy:.2%}")
    print(strategy.report().timeline(), end="\n\n")
    return accuracy


def main(arguments: list[str] | None = None) -> None:
    """Trains with both assignments."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2 * REPLICAS
    cfg.configure_ipu_system()
    for second_earlier in (False, True):
        train(epochs, second_earlier=second_earlier)


if __name__ == "__main__":
    main()
