"""`IPULoggingTensorHook`: logs tensors of the programs of TensorFlow 1 graphs in a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import tensorflow as tf

from ipu_tf.feeds.outfeed_queue import IPUOutfeedMode, IPUOutfeedQueue

v1 = tf.compat.v1


class IPULoggingTensorHook(tf.compat.v1.train.SessionRunHook):
    """Logs tensors that a program hands to `log`, as the hook of a `MonitoredSession`.

    Args:
        every_n_iter: Runs of the session from one log to the next.
        every_n_secs: Seconds from one log to the next; exclusive with `every_n_iter`.
        at_end: Whether to log at the end of the session, too.
        formatter: Returns the text for a dict of names and values; None for "name = value, ...".
        logging_mode: Whether to log all values since the last log, or the last one.
        feed_name: Has no effect.
        replication_factor: Has no effect: values have an axis of replicas if there are several.

    Raises:
        ValueError: Both intervals are given, or neither and not `at_end`.
    """

    LoggingMode = IPUOutfeedMode

    def __init__(
        self,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, object]], str] | None = None,
        logging_mode: IPUOutfeedMode = IPUOutfeedMode.LAST,
        feed_name: str = "logging_hook",
        replication_factor: int = 1,
    ) -> None:
        del feed_name, replication_factor
        arguments = f"Received: every_n_iter={every_n_iter!r}, every_n_secs={every_n_secs!r}."
        if every_n_iter is not None and every_n_secs is not None:
            raise ValueError(f"Cannot provide both every_n_iter and every_n_secs. {arguments}")
        has_interval = every_n_iter is not None or every_n_secs is not None
        if not (has_interval or at_end):
            raise ValueError(
                f"Either every_n_iter, every_n_secs or at_end should be provided. {arguments}"
            )
        self._timer = (
            v1.train.SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_iter)
            if has_interval
            else None
        )
        self._logs_at_end = at_end
        self._formatter = formatter or _text
        self._mode = logging_mode
        self._outfeed = IPUOutfeedQueue()
        self._values: Any = None
        self._runs = 0

    def log(
        self, tensors: tf.Tensor | Sequence[tf.Tensor] | Mapping[str, tf.Tensor]
    ) -> tf.Operation:
        """Returns the operation that logs tensors; the program returns it or depends on it.

        Args:
            tensors: A tensor, a list of tensors, which are logged by their names, or a dict.

        Raises:
            RuntimeError: The hook logs other tensors already.
            TypeError: Something is no tensor.
        """
        if self._outfeed.enqueued:
            raise RuntimeError(
                "Cannot use this hook object's log function more than once. Pass all tensors to "
                "one call, as a list or a dict, or make another hook."
            )
        if isinstance(tensors, Mapping):
            return self._outfeed.enqueue(dict(tensors))
        all_tensors = (
            list(tensors) if isinstance(tensors, list | tuple) else [cast(tf.Tensor, tensors)]
        )
        for tensor in all_tensors:
            if not tf.is_tensor(tensor):
                raise TypeError(f"Expected `tf.Tensor`. Received: {tensor!r}.")
        return self._outfeed.enqueue({tensor.name: tensor for tensor in all_tensors})

    def begin(self) -> None:
        """Adds the operation that takes the values to the graph.

        Raises:
            RuntimeError: No program logs.
        """
        if not self._outfeed.enqueued:
            raise RuntimeError(
                "IPULoggingTensorHook has nothing to log. Did you forget to call the log function "
                "in the program?"
            )
        with tf.device(None):
            self._values = self._outfeed.dequeue()
        self._runs = 0
        if self._timer is not None:
            self._timer.reset()

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        """Logs if the interval is over."""
        del run_values
        if self._timer is not None and self._timer.should_trigger_for_step(self._runs):
            self._timer.update_last_triggered_step(self._runs)
            self._log(run_context.session)
        self._runs += 1

    def end(self, session: tf.compat.v1.Session) -> None:
        """Logs the values since the last log, or drops them."""
        if self._logs_at_end:
            self._log(session)
        else:
            session.run(self._values)

    def _log(self, session: Any) -> None:
        values = session.run(self._values)
        if not all(len(value) for value in values.values()):
            return  # No program has run since the last log.
        if self._mode is IPUOutfeedMode.LAST:
            values = {name: value[-1] for name, value in values.items()}
        v1.logging.info(self._formatter(values))


def _text(values: dict[str, object]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())
