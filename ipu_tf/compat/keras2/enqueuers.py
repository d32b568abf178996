"""The queues of Keras 2 that compute batches ahead of the script that reads them."""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from types import MappingProxyType
from typing import Any

from ipu_tf.compat.spellings.spelling import Spelling


class SequenceEnqueuer:
    """Computes the batches of a source by threads, some ahead of those that are read.

    Args:
        sequence: What has the batches.
        use_multiprocessing: Whether Keras 2 computed them by processes.
    """

    def __init__(self, sequence: Any, use_multiprocessing: bool = False) -> None:
        self.sequence = sequence
        self.use_multiprocessing = use_multiprocessing
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._pending: deque[Future[Any]] = deque()
        self._submitted: Iterator[Future[Any]] = iter(())
        self._ahead = 0

    def start(self, workers: int = 1, max_queue_size: int = 10) -> None:
        """Starts computing batches.

        Args:
            workers: Number of threads; 0 stands for one.
            max_queue_size: Number of batches that are computed ahead of the reader.
        """
        self._executor = ThreadPoolExecutor(max(workers, 1), thread_name_prefix="enqueuer")
        self._ahead = max(max_queue_size, 1)
        self._submitted = self._futures(self._executor)
        with self._lock:
            self._fill()

    def is_running(self) -> bool:
        """Returns whether it was started and not stopped since."""
        return self._executor is not None

    def stop(self, timeout: float | None = None) -> None:
        """Forgets the batches that nobody has read.

        Args:
            timeout: Accepted as in Keras 2, and not needed: nothing is waited for.
        """
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
            self._pending.clear()

    def get(self) -> Iterator[Any]:
        """Yields the batches in their order, without those that are None, until it is stopped."""
        while self.is_running():
            with self._lock:
                self._fill()
                if not self._pending:
                    return
                future = self._pending.popleft()
            batch = future.result()
            if batch is not None:
                yield batch

    def _fill(self) -> None:
        """Submits batches until enough of them wait for the reader."""
        while len(self._pending) < self._ahead:
            future = next(self._submitted, None)
            if future is None:
                return
            self._pending.append(future)

    def _futures(self, executor: ThreadPoolExecutor) -> Iterator[Future[Any]]:
        """Yields the batches that it submits, one by one."""
        raise NotImplementedError(
            f"{type(self).__name__} computes no batches. Use OrderedEnqueuer or GeneratorEnqueuer."
        )


class OrderedEnqueuer(SequenceEnqueuer):
    """Computes the batches of a `Sequence`, epoch after epoch without end.

    Args:
        sequence: A `keras.utils.Sequence`.
        use_multiprocessing: Whether Keras 2 computed them by processes.
        shuffle: Whether each epoch has an order of its own.
    """

    def __init__(
        self, sequence: Any, use_multiprocessing: bool = False, shuffle: bool = False
    ) -> None:
        super().__init__(sequence, use_multiprocessing)
        self.shuffle = shuffle

    def _futures(self, executor: ThreadPoolExecutor) -> Iterator[Future[Any]]:
        while size := len(self.sequence):
            order = random.sample(range(size), size) if self.shuffle else range(size)
            for index in order:
                yield executor.submit(self.sequence.__getitem__, index)
            # The batches of an epoch are whole before the sequence prepares the next one.
            wait(self._pending)
            self.sequence.on_epoch_end()


class GeneratorEnqueuer(SequenceEnqueuer):
    """Computes the batches of a generator.

    Args:
        generator: What yields the batches.
        use_multiprocessing: Whether Keras 2 computed them by processes.
        random_seed: Seed of these processes; threads share the random numbers of the script.
    """

    def __init__(
        self,
        generator: Iterable[Any],
        use_multiprocessing: bool = False,
        random_seed: int | None = None,
    ) -> None:
        super().__init__(iter(generator), use_multiprocessing)
        self._taking = threading.Lock()
        self._is_exhausted = False

    def _futures(self, executor: ThreadPoolExecutor) -> Iterator[Future[Any]]:
        while not self._is_exhausted:
            yield executor.submit(self._next)

    def _next(self) -> Any:
        """Returns the next batch, None at the end; a generator runs in one thread at a time."""
        with self._taking:
            try:
                return next(self.sequence)
            except StopIteration:
                self._is_exhausted = True
                return None


_ENQUEUERS = {
    "SequenceEnqueuer": lambda: SequenceEnqueuer,
    "OrderedEnqueuer": lambda: OrderedEnqueuer,
    "GeneratorEnqueuer": lambda: GeneratorEnqueuer,
}

SPELLINGS = (
    Spelling(
        name="`keras.utils.OrderedEnqueuer`, `keras.utils.GeneratorEnqueuer`",
        keras_2="Threads or processes computed batches ahead of the script that read them.",
        here="Threads compute the same batches in the same order.",
        names=MappingProxyType(dict.fromkeys(("utils", "utils.data_utils"), _ENQUEUERS)),
    ),
)
