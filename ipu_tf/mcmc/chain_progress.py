"""The progress of a long run, on a terminal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ipu_tf.mcmc.kernel_results import find, parts


class Advance(Protocol):
    """Tells the progress of a run that results are there."""

    def __call__(self, results: int, kernel_results: object) -> None:
        """Adds a number of results; the kernel results are those of the last."""


@contextlib.contextmanager
def progress_bar(total: int, results_before: int, *, is_shown: bool) -> Iterator[Advance]:
    """Yields a function that advances a bar with acceptance rate, step size and time left.

    Args:
        total: Results of the run.
        results_before: Results that are there already.
        is_shown: Whether there is a bar; without, the function does nothing.
    """
    if not is_shown:
        yield lambda results, kernel_results: None
        return
    columns = (
        TextColumn("sampling"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("sampling", total=total, completed=results_before, figures="")

        def advance(results: int, kernel_results: Any) -> None:
            bar.update(task, advance=results, figures=figures(kernel_results))

        yield advance


def figures(kernel_results: object) -> str:
    """Returns the acceptance rate and the step size in the results of a kernel, as text."""
    words = []
    acceptances = find(kernel_results, "is_accepted")
    if acceptances is not None:
        words.append(f"accepted {np.mean(acceptances):.0%}")
    for name in ("new_step_size", "step_size"):
        step_sizes = [part for part in parts(find(kernel_results, name)) if np.size(part)]
        if step_sizes:
            words.append(f"step size {np.mean([np.mean(part) for part in step_sizes]):.3g}")
            break
    return ", ".join(words)
