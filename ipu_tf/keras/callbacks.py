"""Callbacks that are called once a step although the device runs many steps in one call."""

from __future__ import annotations

import concurrent.futures
import operator
from collections.abc import Callable
from typing import Any

import keras

from ipu_tf.keras.functions import StepLogs
from ipu_tf.keras.options import ReplicatedMetricReductionMethod as Reduction

Call = Callable[[int, Any], None]


class StepwiseCallbackList(keras.callbacks.CallbackList):
    """Calls callbacks for every step of an execution, on a thread, while the device goes on.

    Where the metrics of replicas are not reduced, callbacks are called for each replica of a step.
    What a callback raises comes up at the next execution or at the end of the epoch.

    Args:
        callbacks: The callbacks.
        steps_per_execution: Returns the steps of an execution of the method that is running.
        reduction: How the metrics of replicas are reduced.
        **kwargs: Arguments of `keras.callbacks.CallbackList`.
    """

    def __init__(
        self,
        callbacks: Any,
        *,
        steps_per_execution: Callable[[], int],
        reduction: Reduction,
        **kwargs: Any,
    ) -> None:
        super().__init__(callbacks, **kwargs)
        # The stock list may call callbacks on threads of its own, in no fixed order.
        self._async_train = self._async_test = self._async_predict = False
        self._steps_per_execution = steps_per_execution
        self._reduction = reduction
        self._worker = concurrent.futures.ThreadPoolExecutor(1, "ipu_tf callbacks")
        self._pending: list[concurrent.futures.Future[None]] = []

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Does nothing yet: `on_train_batch_end` calls it for every step."""

    def on_test_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Does nothing yet: `on_test_batch_end` calls it for every step."""

    def on_predict_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Does nothing yet: `on_predict_batch_end` calls it for every step."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Calls the callbacks of every training step up to `batch`."""
        begin, end = super().on_train_batch_begin, super().on_train_batch_end
        self._dispatch(begin, end, batch, lambda: step_logs(logs, self._reduction))

    def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
        """Calls the callbacks of every evaluation step up to `batch`."""
        begin, end = super().on_test_batch_begin, super().on_test_batch_end
        self._dispatch(begin, end, batch, lambda: step_logs(logs, self._reduction))

    def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
        """Calls the callbacks of every prediction step up to `batch`."""
        begin, end = super().on_predict_batch_begin, super().on_predict_batch_end
        steps = self._steps_per_execution()
        self._dispatch(begin, end, batch, lambda: _step_outputs(logs, steps))

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Ends the epoch after its last step."""
        self._flush()
        super().on_epoch_end(epoch, logs)

    def on_test_end(self, logs: Any = None) -> None:
        """Ends an evaluation after its last step."""
        self._flush()
        super().on_test_end(logs)

    def on_predict_end(self, logs: Any = None) -> None:
        """Ends a prediction after its last step."""
        self._flush()
        super().on_predict_end(logs)

    def close(self) -> None:
        """Drops the calls that wait, and ends the thread after the one that is running."""
        self._worker.shutdown(wait=True, cancel_futures=True)

    def _dispatch(
        self, begin: Call, end: Call, last: int, logs: Callable[[], list[list[Any]]]
    ) -> None:
        for future in [future for future in self._pending if future.done()]:
            self._pending.remove(future)
            future.result()
        first = last + 1 - self._steps_per_execution()

        def call() -> None:
            for step, of_step in enumerate(logs()):
                for entry in of_step:
                    begin(first + step, None)
                    end(first + step, entry)

        self._pending.append(self._worker.submit(call))

    def _flush(self) -> None:
        pending, self._pending = self._pending, []
        for future in pending:
            future.result()


def step_logs(logs: StepLogs, reduction: Reduction) -> list[list[dict[str, Any]]]:
    """Returns the logs of every step: those of each replica, or the reduced ones alone.

    Args:
        logs: The logs of an execution.
        reduction: How the metrics of replicas are reduced.
    """
    values = keras.tree.map_structure(keras.ops.convert_to_numpy, logs.steps)
    steps, replicas = keras.tree.flatten(values)[0].shape[:2]
    reducers: dict[Reduction, list[Callable[[Any], Any]]] = {
        Reduction.NONE: [operator.itemgetter(replica) for replica in range(replicas)],
        Reduction.LIST: [operator.itemgetter(slice(None) if replicas > 1 else 0)],
        Reduction.SUM: [operator.methodcaller("sum", axis=0)],
        Reduction.MEAN: [operator.methodcaller("mean", axis=0)],
    }
    return [
        [
            keras.tree.map_structure(lambda leaf, step=step, of=of: of(leaf[step]), values)
            for of in reducers[reduction]
        ]
        for step in range(steps)
    ]


def _step_outputs(logs: dict[str, Any], steps: int) -> list[list[dict[str, Any]]]:
    """Returns the predictions of every step out of those of an execution."""

    def part(leaf: Any, step: int) -> Any:
        rows = leaf.shape[0] // steps if leaf.shape.rank else 0
        return leaf[step * rows : (step + 1) * rows] if rows else leaf

    outputs = logs["outputs"]
    return [
        [{"outputs": keras.tree.map_structure(lambda leaf, step=step: part(leaf, step), outputs)}]
        for step in range(steps)
    ]
