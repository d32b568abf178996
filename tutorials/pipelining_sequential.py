"""Trains a Sequential model whose layers are split over two IPUs.

Each IPU holds a stage of the pipeline: some of the layers. Micro-batches follow one another through
the stages, and the weights are updated once for several of them. The weights are the same as with
gradient accumulation on one IPU. The timeline at the end shows when each stage works on which
micro-batch, and when it waits.

python -m tutorials.pipelining_sequential [--epochs N]
"""

from __future__ import annotations

import keras

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

BATCH_SIZE = 8
MICRO_BATCHES = 8  # A multiple of twice the stages: as many passes are in flight at once.
UPDATES = 20  # Weight updates in an epoch.


def train(stages: list[int] | None, epochs: int) -> float:
    """Trains a new model, in a pipeline if its layers have stages; returns its last accuracy."""
    keras.utils.set_random_seed(1)
    strategy = IPUStrategy()
    with strategy.scope():
        model = digits.make_model()
        model.compile(
            optimizer=keras.optimizers.SGD(0.08, momentum=0.9),
            loss=digits.loss(),
            metrics=["accuracy"],
            steps_per_execution=MICRO_BATCHES * UPDATES,
        )
        if stages is None:
            model.set_gradient_accumulation_options(MICRO_BATCHES, "mean")
        else:
            model.set_pipeline_stage_assignment(stages)
            model.print_pipeline_stage_assignment_summary()
            model.set_pipelining_options(
                gradient_accumulation_steps_per_replica=MICRO_BATCHES,
                gradient_accumulation_reduction_method="mean",
            )
        history = model.fit(
            digits.make_dataset(BATCH_SIZE),
            epochs=epochs,
            steps_per_epoch=MICRO_BATCHES * UPDATES,
            shuffle=False,
            verbose=0,
        ).history
    accuracy = float(history["accuracy"][-1])
    where = "two IPUs" if stages else "one IPU"
    print(f"{where}: accuracy {accuracy:.2%} after {int(model.optimizer.iterations)} updates")
    if stages is not None:
        print(strategy.report().timeline())
    return accuracy


def main(arguments: list[str] | None = None) -> None:
    """Trains on one IPU, then in two stages."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    for stages in (None, [0, 1]):
        cfg = IPUConfig()
        cfg.auto_select_ipus = 1 if stages is None else 2
        cfg.configure_ipu_system()
        train(stages, epochs)


if __name__ == "__main__":
    main()
