"""Calls callbacks once a step although the device runs many steps in one call."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from keras import tree

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.keras.adapters.loops import Logs
from ipu_tf.keras.loop.step_results import StepResults
from ipu_tf.keras.options import ReplicatedMetricReductionMethod as Reduction
from ipu_tf.keras.replication.replica_logs import reduced_logs

Call = Callable[[int, TensorStructure], None]
LogsOfStep = Callable[[list[TensorStructure]], Sequence[TensorStructure]]
"""The results of a step on each replica to the logs that callbacks are called with, in order."""


class StepwiseCallbackList:
    """A list of callbacks that calls them for every step, on a thread, while the device runs on.

    Its base is the class of lists of a Keras; see `in_keras`.

    Callbacks of training and evaluation are called for each replica of a step unless the metrics
    of replicas are reduced; those of prediction always are. An exception of a callback is raised
    at the end of the execution or of the epoch.

    Args:
        callbacks: The callbacks.
        results: Delivers the results of steps.
        steps_per_execution: Returns the steps of an execution of the running method.
        replicas: Number of replicas.
        reduction: How the metrics of replicas are reduced.
        **kwargs: Arguments of the class of lists.
    """

    def __init__(
        self,
        callbacks: Sequence[object],
        *,
        results: StepResults,
        steps_per_execution: Callable[[], int],
        replicas: int,
        reduction: Reduction,
        **kwargs: object,
    ) -> None:
        self._stock.__init__(callbacks, **kwargs)
        # The stock list may call callbacks on its own threads, in no fixed order.
        self._async_train = self._async_test = self._async_predict = False
        self._steps_per_execution = steps_per_execution
        self._replicas = replicas
        self._logs = lambda values: step_logs(values, reduction)
        self._results = results
        self._reader = results.open()
        self._worker = concurrent.futures.ThreadPoolExecutor(1, "ipu_tf callbacks")
        self._pending: list[concurrent.futures.Future[None]] = []

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Starts calling the callbacks of every training step from `batch` on."""
        begin, end = self._stock.on_train_batch_begin, self._stock.on_train_batch_end
        self._call_for_steps(begin, end, batch, self._logs)

    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Starts calling the callbacks of every evaluation step from `batch` on."""
        begin, end = self._stock.on_test_batch_begin, self._stock.on_test_batch_end
        self._call_for_steps(begin, end, batch, self._logs)

    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None:
        """Starts calling the callbacks of every prediction step from `batch` on."""
        begin, end = self._stock.on_predict_batch_begin, self._stock.on_predict_batch_end
        self._call_for_steps(begin, end, batch, step_outputs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Raises the exception of a callback, if there is one."""
        self._raise()

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Raises the exception of a callback, if there is one."""
        self._raise()

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        """Raises the exception of a callback, if there is one."""
        self._raise()

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        """Ends the epoch after its last step."""
        self._wait()
        self._stock.on_epoch_end(epoch, logs)

    def on_test_end(self, logs: Logs = None) -> None:
        """Ends an evaluation after its last step."""
        self._wait()
        self._stock.on_test_end(logs)

    def on_predict_end(self, logs: Logs = None) -> None:
        """Ends a prediction after its last step."""
        self._wait()
        self._stock.on_predict_end(logs)

    @property
    def _stock(self) -> Any:
        """This list as Keras' own class of lists."""
        return super()

    def close(self) -> None:
        """Drops the calls that wait, and ends the thread after the running call."""
        self._results.close(self._reader)
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _call_for_steps(self, begin: Call, end: Call, first: int, logs: LogsOfStep) -> None:
        """Calls callbacks for each step of an execution as soon as its results are there."""
        steps = range(first, first + self._steps_per_execution())

        def call() -> None:
            for step in steps:
                for entry in logs([self._reader.take() for _ in range(self._replicas)]):
                    begin(step, None)
                    end(step, entry)

        self._pending.append(self._worker.submit(call))

    def _raise(self) -> None:
        for future in [future for future in self._pending if future.done()]:
            self._pending.remove(future)
            future.result()

    def _wait(self) -> None:
        calls, self._pending = self._pending, []
        for future in calls:
            future.result()


def step_logs(values: list[TensorStructure], reduction: Reduction) -> list[TensorStructure]:
    """Returns the logs of a step: those of each replica, or only the reduced ones.

    Args:
        values: The logs of each replica.
        reduction: How the metrics of replicas are reduced.
    """
    if reduction is Reduction.NONE:
        return values
    return [reduced_logs(tree.map_structure(lambda *leaves: np.stack(leaves), *values), reduction)]


def step_outputs(values: list[TensorStructure]) -> list[dict[str, TensorStructure]]:
    """Returns the logs for callbacks from the predictions of a step, one for each replica.

    Args:
        values: The predictions of each replica.
    """
    return [{"outputs": value} for value in values]
