"""Trains a pipelined, accumulating model that goes on from where it was killed.

python resumable.py FOLDER EPOCHS [KILL_AFTER]

Prints a JSON list of [epoch, loss] on its last line. With KILL_AFTER the process kills itself in
the middle of the epoch after that many.
"""

import json
import os
import signal
import sys
from pathlib import Path

import keras

sys.path.insert(0, str(Path(__file__).parents[3]))

from ipu_tf.keras import PipelineStage
from tests.keras.equivalence import BATCH, batches, samples, strategy_of
from tests.keras.small_models import CLASSES, FEATURES

G = 4
UPDATES = 4  # In an epoch; an execution is half of them.


class Killed(keras.callbacks.Callback):
    """Ends the process in the middle of an epoch, with nothing cleaned up."""

    def __init__(self, epoch):
        super().__init__()
        self.epoch, self.now = epoch, None

    def on_epoch_begin(self, epoch, logs=None):
        self.now = epoch

    def on_train_batch_end(self, batch, logs=None):
        if self.now == self.epoch:
            os.kill(os.getpid(), signal.SIGKILL)


def make_model(strategy):
    """Returns a compiled model in two stages, with dropout in the first."""
    keras.utils.set_random_seed(7)
    with strategy.scope():
        x = inputs = keras.Input((FEATURES,))
        with PipelineStage(0):
            x = keras.layers.Dropout(0.2)(keras.layers.Dense(8, activation="tanh")(x))
        with PipelineStage(1):
            x = keras.layers.Dense(CLASSES)(x)
        model = keras.Model(inputs, x)
        model.compile(
            keras.optimizers.Adam(0.01),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            steps_per_execution=G * UPDATES // 2,
        )
        model.set_pipelining_options(G, gradient_accumulation_reduction_method="mean")
    return model


def data():
    """Returns the batches of an epoch, always the same."""
    return batches(samples(BATCH * G * UPDATES), BATCH)


def train(model, epochs, callbacks):
    """Returns the epochs that ran, with their losses."""
    history = model.fit(data(), epochs=epochs, shuffle=False, verbose=0, callbacks=callbacks)
    return [
        [epoch, loss] for epoch, loss in zip(history.epoch, history.history["loss"], strict=True)
    ]


def main(folder, epochs, kill_after=None):
    """Trains until it is killed, or to the end."""
    callbacks = [keras.callbacks.BackupAndRestore(folder)]
    if kill_after is not None:
        callbacks.append(Killed(int(kill_after)))
    print(json.dumps(train(make_model(strategy_of(2)), int(epochs), callbacks)))


if __name__ == "__main__":
    main(*sys.argv[1:])
