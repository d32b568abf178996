"""The callbacks of a method in a job of several instances: instance 0 alone writes files."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ipu_tf.keras.adapters.loops import Callback, Logs, LoopAdapter, in_keras
from ipu_tf.keras.callbacks import IPUReport
from ipu_tf.keras.replication.instance_values import first_difference
from ipu_tf.processes.instances import instances


def callbacks_of_instance(
    callbacks: Iterable[Callback], loop: LoopAdapter, *, trains: bool
) -> list[Callback]:
    """Returns the callbacks that this instance calls.

    Instance 0 calls all. The others leave out those that write files, and of those that resume a
    run they only read.

    Args:
        callbacks: Those of the script.
        loop: The loop that calls them.
        trains: Whether the method is `fit`.
    """
    own_callbacks = list(callbacks)
    if instances().count == 1:
        return own_callbacks
    if instances().index:
        own_callbacks = [
            in_keras(_ReadsOnly, loop.callback_class)(one)
            if isinstance(one, loop.resuming_callbacks)
            else one
            for one in own_callbacks
            if not isinstance(one, (*loop.writing_callbacks, IPUReport))
        ]
    if trains:
        own_callbacks.append(in_keras(_BeginsEverywhere, loop.callback_class)())
    return own_callbacks


class _ReadsOnly:
    """Resumes a run as a callback does, and does nothing else that it does.

    Its base is the class of callbacks of a Keras; see `in_keras`.

    Args:
        callback: The callback, such as a `BackupAndRestore`.
    """

    model: object

    def __init__(self, callback: Callback) -> None:
        super().__init__()
        self._callback = callback

    def on_train_begin(self, logs: Logs = None) -> None:
        """Reads the files."""
        self._callback.set_model(self.model)
        self._callback.on_train_begin(logs)


class _BeginsEverywhere:
    """Checks that all instances begin to train at the same weight update.

    Its base is the class of callbacks of a Keras; see `in_keras`.
    """

    model: Any

    def on_train_begin(self, logs: Logs = None) -> None:
        """Compares the instances.

        Raises:
            ValueError: They have read different files, or some have read none.
        """
        del logs
        model = self.model
        updates = int(getattr(model.optimizer, "iterations", 0))
        difference = first_difference(updates, name=f"weight updates of {model.name}")
        if difference is not None:
            first, other, other_updates = difference
            raise ValueError(
                f"`fit` of model '{model.name}' begins after {first} weight updates in "
                f"instance 0, and after {other_updates} in instance {other}: they continue "
                "different runs. Give BackupAndRestore, and what loads weights, to all instances, "
                "with a folder that all hosts share."
            )
