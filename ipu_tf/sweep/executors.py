"""Estimates points by an executor of `concurrent.futures`, on other machines perhaps."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import queue
import sys
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from typing import Any, cast

from ipu_tf.base import codec
from ipu_tf.base.user_objects import UsageError
from ipu_tf.processes.instances import INDEPENDENT, LaunchError, instances
from ipu_tf.sweep.point import Outcome, Point, encoded
from ipu_tf.sweep.worker import IN_WORKER

_TRIES = 3
"""How often a point is handed out whose worker is lost."""

_ONE_AT_A_TIME = threading.Lock()
"""The dtype policy of Keras, which a point sets, is one for all threads."""


def outcomes_by(
    executor: Executor, points: Sequence[Point], *, model: str, training: bool
) -> Generator[tuple[Point, Outcome], None, None]:
    """Yields points with their outcomes as they come; takes back what waits when it is closed.

    A point whose worker is lost is handed out again; at the third time it fails.

    Args:
        executor: Who estimates; it stays open.
        points: The points.
        model: Name of the function that makes the model, as for `model_of`.
        training: Whether to estimate training steps.

    Raises:
        RuntimeError: The executor takes no more work.
    """
    head = json.dumps({"model": model, "training": training, "path": sys.path})
    futures: queue.SimpleQueue[Future[str]] = queue.SimpleQueue()
    handed_out: dict[Future[str], tuple[Point, int]] = {}

    def hand_out(point: Point, tries: int) -> None:
        try:
            future = executor.submit(estimated, head, json.dumps(encoded(point)))
        except RuntimeError as error:
            raise RuntimeError(
                f"The executor takes no more work: {type(error).__name__}: {error}. Start another "
                "one and the same sweep: with `results` it goes on from there."
            ) from error
        handed_out[future] = point, tries
        future.add_done_callback(futures.put)

    try:
        for point in points:
            hand_out(point, 1)
        while handed_out:
            future = futures.get()
            point, tries = handed_out.pop(future)
            try:
                outcome = codec.decode(Outcome, json.loads(future.result()))
            except Exception as error:  # Failures of an estimate are in its outcome.
                if tries < _TRIES:
                    hand_out(point, tries + 1)
                    continue
                message = f"its worker was lost {tries} times: {type(error).__name__}: {error}"
                outcome = Outcome(error=message)
            yield point, outcome
    finally:
        for future in handed_out:
            future.cancel()


def estimated(head: str, point: str) -> str:
    """Returns the outcome of a point as JSON; workers call it.

    Args:
        head: The name of the model, whether to train it, and where modules are, as JSON.
        point: The point, as JSON.
    """
    from ipu_tf.sweep.evaluate import evaluate

    with _ONE_AT_A_TIME:
        network = _model(head)
        outcome = (
            Outcome(error=network)
            if isinstance(network, str)
            else evaluate(
                network,
                codec.decode(Point, json.loads(point)),
                training=json.loads(head)["training"],
            )
        )
    return json.dumps(encoded(outcome))


@contextlib.contextmanager
def mpi_executor() -> Iterator[Executor | None]:
    """Gives instance 0 an executor of the job's other instances, which work until it closes.

    The others get None, after the last point.

    Raises:
        UsageError: poprun has not started at least two instances, or there is no mpi4py.
    """
    try:
        job = instances()
    except LaunchError as error:
        raise UsageError(error) from error
    if job.count < 2:
        raise UsageError(
            "--executor mpi needs a job of at least two instances, of which the first hands out "
            "the points. Start it by: poprun --num-instances=5 ipu-tf sweep SPEC --executor mpi"
        )
    try:
        from mpi4py import MPI
        from mpi4py.futures import MPICommExecutor
    except ImportError as error:
        raise UsageError(
            f"--executor mpi needs mpi4py: pip install 'ipu_tf[distributed]'. Received: {error}."
        ) from error
    if job.count != MPI.COMM_WORLD.size:
        raise UsageError(
            f"poprun started {job.count} instances, but the MPI of mpi4py knows "
            f"{MPI.COMM_WORLD.size}: it is another one than that of mpirun. IPU_TF_MPIRUN names "
            "the mpirun that belongs to it."
        )
    os.environ[INDEPENDENT] = "1"  # An estimate is that of one process.
    with MPICommExecutor(MPI.COMM_WORLD, root=0) as executor:
        yield cast("Executor | None", executor)  # Its stubs name the context.


@functools.cache
def _model(head: str) -> Callable[[], Any] | str:
    """Returns the function that makes the model, or why there is none."""
    from ipu_tf.sweep.evaluate import model_of

    settings = json.loads(head)
    sys.path += [folder for folder in settings["path"] if folder not in sys.path]
    before = os.environ.get(IN_WORKER)
    os.environ[IN_WORKER] = "1"  # A script that is imported must not start a sweep itself.
    try:
        return model_of(settings["model"])
    except (UsageError, Exception) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        if before is None:
            del os.environ[IN_WORKER]
