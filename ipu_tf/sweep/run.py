"""Runs sweeps: many estimates on all cores, kept in a file as they come."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from typing import Any

from ipu_tf import __version__
from ipu_tf.base.model_names import check_name
from ipu_tf.base.user_objects import UsageError, found_in_text, is_path
from ipu_tf.sweep.executors import outcomes_by
from ipu_tf.sweep.point import Machine, Outcome, Point, Streaming
from ipu_tf.sweep.processes import cores, importable, is_worker, outcomes_of
from ipu_tf.sweep.progress import Progress
from ipu_tf.sweep.result import Estimate, SweepResult
from ipu_tf.sweep.space import Space
from ipu_tf.sweep.store import Store


def sweep(
    model: str | Callable[[], object],
    *,
    chip: Sequence[Machine] = ("bow",),
    tile_kib: Sequence[float | None] = (None,),
    streaming: Sequence[Streaming | None] = (None,),
    batch_size: Sequence[int] = (1,),
    replicas: Sequence[int] = (1,),
    stages: Sequence[int] = (1,),
    accumulation: Sequence[int] = (1,),
    precision: Sequence[str] = ("float32",),
    offload: Sequence[bool] = (False,),
    training: bool = True,
    results: str | os.PathLike[str] | None = None,
    processes: int | None = None,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Returns the estimates of a model for every combination of some values.

    Every estimate is that of `ipu_tf.estimate`; models with stages are cut by `auto_pipeline`. An
    estimate that fails has the reason in its outcome, and the sweep goes on.

    Args:
        model: A function that makes a model, or its name "module:function", "file.py:function" or
            "zoo:network".
        chip: Chips and systems: names, "module:name", or values.
        tile_kib: Sizes of tile memory in KiB; None for that of the chip.
        streaming: Streaming memories; None for that of the system.
        batch_size: Samples of a micro-batch.
        replicas: Copies of the model, powers of two.
        stages: Stages of a pipeline, powers of two.
        accumulation: Micro-batches of a weight update.
        precision: Dtype policies: "float32", "mixed_float16" or "float16".
        offload: Whether the state of the optimizer is in streaming memory.
        training: Whether to estimate training steps; otherwise predictions.
        results: A file that keeps the outcomes as they come. If it has some of the same sweep, the
            sweep goes on from there; failed estimates are tried again.
        processes: Estimates side by side, by default one on each core. 1 estimates in this process.
        executor: Who estimates instead, such as `dask.distributed.Client().get_executor()`. Its
            workers import `model` by its name. It stays open.
        progress: Is told of every estimate; by default nothing is.

    Raises:
        RuntimeError: A script that a sweep's process imports starts a sweep itself, or the executor
            takes no more work.
        SweepFileError: `results` holds something else, or another process writes to it.
        TypeError: Other processes cannot import `model`, or `executor` is no executor.
        ValueError: A list is empty, a value is invalid, there is no model or chip of a name, or
            both `processes` and `executor` are given.

    Example:
        >>> found = ipu_tf.sweep(models.resnet50, chip=["gc200", "bow"], batch_size=[1, 2, 4])
        >>> print(found)
        >>> found.to_html("sweep.html")
    """
    space = Space(
        chip=chip,
        tile_kib=tile_kib,
        streaming=streaming,
        batch_size=batch_size,
        replicas=replicas,
        stages=stages,
        accumulation=accumulation,
        precision=precision,
        offload=offload,
    )
    _check_executor(executor, processes)
    processes = _processes(processes)
    name = _name(model, is_elsewhere=executor is not None or processes > 1)
    points = tuple(space.points())
    _check_names(model, space.chip)
    head = {"model": _kept_name(name, results), "training": training, "release": __version__}
    with _store(results, head) as store:
        outcomes = dict(store.outcomes) if store is not None else {}
        new_points = [
            point for point in points if point.key not in outcomes or outcomes[point.key].error
        ]
        progress = progress or Progress()
        progress.begin(len(points), len(points) - len(new_points))
        try:
            for point, outcome in _estimated(
                model, new_points, name, training, executor or processes
            ):
                outcomes[point.key] = outcome
                if store is not None:
                    store.add(point, outcome)
                progress.advance(point, outcome)
        finally:
            progress.end()
    estimates = tuple(Estimate(point=point, outcome=outcomes[point.key]) for point in points)
    return SweepResult(model=name, training=training, estimates=estimates)


def _estimated(
    model: str | Callable[[], Any],
    points: Sequence[Point],
    name: str,
    training: bool,
    workers: Executor | int,
) -> Iterator[tuple[Point, Outcome]]:
    if workers != 1:
        outcomes = (
            outcomes_of(points, model=name, training=training, processes=workers)
            if isinstance(workers, int)
            else outcomes_by(workers, points, model=name, training=training)
        )
        with contextlib.closing(outcomes):
            yield from outcomes
        return
    from ipu_tf.sweep.evaluate import evaluate, model_of  # TensorFlow takes seconds to load.

    network = model_of(model) if isinstance(model, str) else model
    for point in points:
        yield point, evaluate(network, point, training=training)


def _check_names(model: Any, chips: Sequence[Machine]) -> None:
    """Checks the names of the model and of chips by their texts, before processes look for them.

    Raises:
        ValueError: One names nothing.
    """
    try:
        for chip in chips:
            if isinstance(chip, str) and is_path(chip):
                found_in_text(chip, "target or system")
        if isinstance(model, str):
            check_name(model)
    except UsageError as error:
        raise ValueError(error) from error


def _kept_name(name: str, results: Any) -> str:
    """Returns a model's name for the file of results: its own file by the path from there."""
    source, _, attribute = name.rpartition(":")
    if results is None or not source.endswith(".py") or os.path.isabs(source):
        return name
    return f"{os.path.relpath(source, os.path.dirname(os.path.abspath(results)))}:{attribute}"


@contextlib.contextmanager
def _store(path: Any, head: dict[str, Any]) -> Iterator[Store | None]:
    if path is None:
        yield None
        return
    with Store(path, head) as store:
        yield store


def _processes(processes: Any) -> int:
    if is_worker():
        raise RuntimeError(
            "A process of a sweep imports a script that starts a sweep. Put the call of `sweep` "
            'under `if __name__ == "__main__":`.'
        )
    if processes is None:
        return cores()
    if isinstance(processes, bool) or not isinstance(processes, int) or processes < 1:
        raise ValueError(f"`processes` must be a positive int. Received: {processes!r}.")
    return processes


def _check_executor(executor: Any, processes: int | None) -> None:
    if executor is not None and processes is not None:
        raise ValueError(
            "`executor` has its own workers: leave out `processes`. "
            f"Received: processes={processes!r}."
        )
    if executor is not None and not isinstance(executor, Executor):
        raise TypeError(
            "`executor` must be a concurrent.futures.Executor, as Dask's `client.get_executor()`. "
            f"Received: {executor!r}."
        )


def _name(model: Any, *, is_elsewhere: bool) -> str:
    """Returns the name of a model's function, for other processes and tables."""
    if isinstance(model, str):
        if ":" not in model:
            raise ValueError(
                "Name the model as 'module:function', 'file.py:function' or 'zoo:network'. "
                f"Received: {model!r}."
            )
        return model
    if not callable(model) or hasattr(model, "layers"):
        raise TypeError(
            "`sweep` takes a function that makes a model: each estimate makes its own. "
            f"Received: {type(model).__name__}."
        )
    name = importable(model)
    if name is None and is_elsewhere:
        raise TypeError(
            "Other processes import the function that makes the model: define it at the top of a "
            "module, or estimate in this process with `processes=1`. "
            f"Received: {model!r}."
        )
    return name or str(getattr(model, "__qualname__", type(model).__name__))
