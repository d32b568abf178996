"""The callbacks of the instances of a job: instance 0 alone writes files."""

import keras
import pytest

from ipu_tf.keras.callbacks import IPUReport
from ipu_tf.keras.keras3.loop_adapter import LOOP
from ipu_tf.keras.loop.job_callbacks import callbacks_of_instance
from ipu_tf.processes.instances import Instances


@pytest.fixture
def callbacks(tmp_path):
    class Counter(keras.callbacks.Callback):
        read = written = 0

    class Backup(keras.callbacks.BackupAndRestore):
        def on_train_begin(self, logs=None):
            self.model.read += 1

        def on_epoch_end(self, epoch, logs=None):
            self.model.written += 1

    return [
        Counter(),
        keras.callbacks.ModelCheckpoint(str(tmp_path / "model.keras")),
        keras.callbacks.CSVLogger(str(tmp_path / "log.csv")),
        keras.callbacks.TensorBoard(tmp_path),
        IPUReport(tmp_path, formats=("json",)),
        Backup(tmp_path),
        keras.callbacks.EarlyStopping("loss"),
    ]


def of_instance(index, callbacks, monkeypatch, *, count=2, trains=True):
    job = Instances(
        index=index, count=count, total_replicas=count, replica_offset=index, launcher="poprun"
    )
    variables = job.variables() | {"PMI_RANK": str(index), "PMI_SIZE": str(count)}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    return callbacks_of_instance(callbacks, LOOP, trains=trains)


def names(callbacks):
    return [type(callback).__name__ for callback in callbacks]


def test_instance_0_and_a_process_alone_call_all(callbacks, monkeypatch):
    assert callbacks_of_instance(callbacks, LOOP, trains=True) == callbacks
    assert of_instance(0, callbacks, monkeypatch, count=1) == callbacks
    assert of_instance(0, callbacks, monkeypatch)[:-1] == callbacks
    assert of_instance(0, callbacks, monkeypatch, trains=False) == callbacks


def test_others_leave_out_those_that_write(callbacks, monkeypatch):
    found = of_instance(1, callbacks, monkeypatch)
    assert names(found) == ["Counter", "_ReadsOnly", "EarlyStopping", "_BeginsEverywhere"]


def test_others_only_read_what_resumes_a_run(callbacks, monkeypatch):
    counter, reading = of_instance(1, callbacks, monkeypatch)[:2]
    reading.set_model(counter)
    reading.on_train_begin()
    reading.on_epoch_end(0)
    assert (counter.read, counter.written) == (1, 0)
