"""Chooses how a network trains on two IPUs by modelled cycles and memory, then trains it.

`auto_pipeline` compiles the network as a whole for each IPU and as pipelines of several shapes,
keeps the fastest that fits, and sets the stages and options of the model. The IPUs here have few
tiles, so that one of them does not hold the whole network. Training then runs with the choice.

python -m tutorials.auto_pipeline [--epochs N]
"""

from __future__ import annotations

import keras

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.keras import auto_pipeline
from tutorials import digits

IPUS = 2
TILES = 12  # Of each IPU.
MICRO_BATCH = 8
UPDATES = 20  # Weight updates in an epoch.


def make_model() -> keras.Sequential:
    """Small layers, then large ones."""
    sizes = (64, 64, 512, 512, 512)
    hidden = [keras.layers.Dense(size, activation="relu") for size in sizes]
    outputs = keras.layers.Dense(digits.CLASSES)
    return keras.Sequential([keras.Input((digits.PIXELS,)), *hidden, outputs], name="wide")


def main(arguments: list[str] | None = None) -> None:
    """Chooses a pipeline, prints the reason, and trains with it."""
    epochs = digits.epochs(__doc__, arguments, default=8)
    cfg = IPUConfig()
    cfg.auto_select_ipus = IPUS
    cfg.ipu_model.tiles_per_ipu = TILES
    cfg.configure_ipu_system()
    keras.utils.set_random_seed(1)
    strategy = IPUStrategy()
    with strategy.scope():
        model = make_model()
        model.compile(
            optimizer=keras.optimizers.SGD(0.08, momentum=0.9),
            loss=digits.loss(),
            metrics=["accuracy"],
        )
        model.set_pipelining_options(gradient_accumulation_reduction_method="mean")
        decision = auto_pipeline(
            model, IPUS, batch_size=MICRO_BATCH, gradient_accumulation_steps=(2, 8)
        )
        print(decision)
        model.print_pipeline_stage_assignment_summary()
        micro_batches = decision.gradient_accumulation_steps
        model.steps_per_execution = micro_batches * UPDATES
        history = model.fit(
            digits.make_dataset(MICRO_BATCH),
            epochs=epochs,
            steps_per_epoch=micro_batches * UPDATES * decision.replicas,
            shuffle=False,
            verbose=0,
        ).history
    print(f"accuracy {history['accuracy'][-1]:.2%}")
    print(strategy.report().timeline())


if __name__ == "__main__":
    main()
