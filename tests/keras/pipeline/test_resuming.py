"""A pipelined, accumulating run that goes on has the losses of one that never stopped."""

import json
import signal
import subprocess
import sys

import keras
import pytest

from ipu_tf import config
from ipu_tf.keras.pipeline import stage_of_layers
from tests.grids import mostly_slow
from tests.keras.equivalence import strategy_of
from tests.keras.pipeline import resumable

EPOCHS = 4

# Keras reads its variables through an older NumPy protocol when it saves them.
pytestmark = pytest.mark.filterwarnings(
    "ignore:__array__ implementation doesn't accept a copy", "ignore:TensorFlow GPU support"
)


@pytest.fixture(scope="module")
def uninterrupted():
    """The epochs and losses of a run that nothing stops."""
    losses = resumable.train(resumable.make_model(strategy_of(2)), EPOCHS, [])
    config.reset_ipu_configuration()
    assert len({loss for _, loss in losses}) == EPOCHS  # It learns something.
    return losses


@pytest.fixture
def strategy():
    yield strategy_of(2)
    config.reset_ipu_configuration()


class Stopped(Exception):
    """Stops a run."""


class StopIn(resumable.Killed):
    """Stops in the middle of an epoch."""

    def on_train_batch_end(self, batch, logs=None):
        if self.now == self.epoch:
            raise Stopped


@pytest.mark.slow
def test_backup_and_restore(strategy, tmp_path, uninterrupted):
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    with pytest.raises(Stopped):
        resumable.train(resumable.make_model(strategy), EPOCHS, [backup, StopIn(2)])
    backup = keras.callbacks.BackupAndRestore(tmp_path)
    assert resumable.train(resumable.make_model(strategy), EPOCHS, [backup]) == uninterrupted[2:]


@pytest.mark.parametrize("weights_only", mostly_slow([False, True], fast=["False"]))
@pytest.mark.slow
def test_model_checkpoint(strategy, tmp_path, uninterrupted, weights_only):
    suffix = ".weights.h5" if weights_only else ".keras"
    path = tmp_path / f"checkpoint{suffix}"
    checkpoint = keras.callbacks.ModelCheckpoint(str(path), save_weights_only=weights_only)
    model = resumable.make_model(strategy)
    resumable.train(model, 2, [checkpoint])
    if weights_only:
        again = resumable.make_model(strategy)
        with strategy.scope():
            again.optimizer.build(again.trainable_variables)
        again.load_weights(path)
    else:
        with strategy.scope():
            again = keras.models.load_model(path)
    assert list(stage_of_layers(again).values()) == [0, 0, 1]
    history = again.fit(resumable.data(), initial_epoch=2, epochs=EPOCHS, shuffle=False, verbose=0)
    assert history.history["loss"] == [loss for _, loss in uninterrupted[2:]]


def run(*arguments):
    return subprocess.run(
        [sys.executable, resumable.__file__, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_a_killed_process(tmp_path, uninterrupted):
    killed = run(tmp_path, EPOCHS, 2)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    resumed = run(tmp_path, EPOCHS)
    assert resumed.returncode == 0, resumed.stderr
    assert json.loads(resumed.stdout.splitlines()[-1]) == uninterrupted[2:]
