"""Facts of the machine and statistics of rounds, as they stand in every result file."""

from __future__ import annotations

import importlib.metadata
import math
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum, rounded to four significant digits.

    Raises:
        ValueError: There are no values.
    """
    if not values:
        raise ValueError("A spread needs at least one value. Received: none.")
    figures = {"median": statistics.median(values), "min": min(values), "max": max(values)}
    return {name: significant(value) for name, value in figures.items()}


def containing(part: str, names: Iterable[str]) -> list[str]:
    """The names of measurements with `part` in them, as `--only` asks for.

    Raises:
        BenchmarkError: There are none.
    """
    every = list(dict.fromkeys(names))
    chosen = [name for name in every if part in name]
    if not chosen:
        raise BenchmarkError(f"--only: no name contains {part!r}. The names: {', '.join(every)}.")
    return chosen


def geometric_mean(values: Sequence[float]) -> float:
    """The geometric mean, rounded to four significant digits.

    Raises:
        ValueError: There are no values, or one is not positive.
    """
    if not values or min(values) <= 0:
        raise ValueError(f"A geometric mean needs positive values. Received: {list(values)}")
    return significant(math.exp(statistics.fmean(map(math.log, values))))


def times_in_turns(sides: Mapping[Any, Callable[[], Any]], rounds: int) -> dict[Any, list[float]]:
    """Seconds of each side in each round; the sides take turns, in an order that alternates."""
    times: dict[Any, list[float]] = {key: [] for key in sides}
    for turn in range(rounds):
        for key in sides if turn % 2 == 0 else reversed(tuple(sides)):
            begin = time.perf_counter()
            sides[key]()
            times[key].append(time.perf_counter() - begin)
    return times


def peak_bytes() -> int:
    """The largest resident memory of this process since its program began.

    `getrusage` counts that of the parent before the program began, too.
    """
    (line,) = (
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith("VmHWM:")
    )
    return int(line.split()[1]) * 1024  # Linux counts KiB.


class OtherLoad:
    """How many cores other processes kept busy while a benchmark ran.

    A result is worth little if this is far from zero. Time of this process's children counts
    as its own once they have ended.
    """

    def __init__(self) -> None:
        self._begin = self._clock()

    @staticmethod
    def _clock() -> tuple[float, float, float]:
        """Seconds: of the clock, of all busy cores, of this process and its ended children."""
        # The first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq, steal.
        ticks = [int(word) for word in Path("/proc/stat").read_text().split()[1:9]]
        busy = (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK")
        return time.monotonic(), busy, sum(os.times()[:4])

    def cores(self) -> float:
        """The mean number of cores that others used since this object was made."""
        begin, end = self._begin, self._clock()
        elapsed, busy, own_busy = (after - before for before, after in zip(begin, end, strict=True))
        return significant(max(0.0, busy - own_busy) / elapsed)


def significant(value: float) -> float:
    """`value` rounded to four significant digits."""
    return float(f"{value:.4g}")


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def facts() -> dict[str, Any]:
    """Versions and machine that a result was measured with."""
    from ipu_tf.ops.kernels import library

    packages = ("ipu_tf", "tensorflow", "keras", "numpy")
    return {
        "versions": {"python": platform.python_version()}
        | {name: _version(name) for name in packages},
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "tile_op_instructions": library.isa(),
        "onednn": os.environ["TF_ENABLE_ONEDNN_OPTS"] != "0",
    }


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"
