"""Ends readers of outfeeds that wait for elements of steps that `--max-steps` leaves out."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator

from ipu_tf.base import trial
from ipu_tf.internals.working_threads import any_works

_PATIENCE_SECONDS = 10.0
_IDLE_SHARE = 0.05
"""Other threads that use less of a processor run no program, and trace none."""

_reading_seconds: dict[int, float] = {}
"""The processor time of each thread that reads, up to its last read."""

_serving: set[int] = set()
"""The threads that run programs for calls alone."""


@contextlib.contextmanager
def unread() -> Iterator[None]:
    """Says that this thread's programs write what calls take alone: no reader waits for them."""
    thread = threading.get_ident()
    _serving.add(thread)
    try:
        yield
    finally:
        _serving.discard(thread)


class TrialReader:
    """The reader of a queue: waits while another thread works, and a while longer."""

    def __init__(self) -> None:
        self._began: tuple[float, float] | None = None

    def check(self, *, is_empty: bool) -> None:
        """Ends a reader that has waited in vain.

        Args:
            is_empty: Whether the queue has no element now.

        Raises:
            RuntimeError: A loop was cut short, and no thread computes, runs a program, or waits for
                a file, a network or a process while the reader waits.
        """
        if not is_empty or not trial.cuts():
            self._began = None
            return
        _reading_seconds[threading.get_ident()] = time.thread_time()
        now = time.monotonic(), time.process_time() - sum(_reading_seconds.values())
        if self._began is None:
            self._began = now
        waited, cpu_seconds = (
            after - before for after, before in zip(now, self._began, strict=True)
        )
        if waited < _PATIENCE_SECONDS:
            return
        others_work = cpu_seconds > _IDLE_SHARE * waited
        if others_work or any_works(apart_from={*_reading_seconds, *_serving}):
            self._began = now
            return
        raise RuntimeError(
            f"An outfeed has had no element for {waited:.0f} s, and no program runs that would "
            f"enqueue one: --max-steps {trial.step_limit()} cut loops short "
            f"({'; '.join(trial.cuts())}), so fewer elements come than this reader waits for. "
            "Read until the programs have ended, or run without --max-steps."
        )
