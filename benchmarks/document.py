"""`python -m benchmarks document`: the tables of docs/performance.md, from the result files.

The page's own text is written by hand; every figure stands between two markers and is made
from benchmarks/results, so that no figure is copied.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.summary import significant

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "performance.md"

# The layers of tutorials/cifar10.py, in their order; the first one needs no input gradient.
NETWORK = (
    "cifar10/conv 3->32 same",
    "cifar10/conv 32->32 valid",
    "cifar10/conv 32->64 same",
    "cifar10/conv 64->32 valid",
    "cifar10/dense 1152->512",
    "cifar10/dense 512->10",
)
PASSES = ("forward", "input_gradient", "weight_gradient")

END = "<!-- end -->"

Result = dict[str, Any]


def host(ops: Result, fit: Result) -> str:
    """The machine and the versions of both results."""
    lines = []
    for result in (fit, ops):
        versions = ", ".join(f"{name} {value}" for name, value in result["versions"].items())
        lines.append(
            f"* `{result['benchmark']}`: {result['rounds']} rounds on {result['cores']} cores of "
            f"{result['processor']}, of which others used {result['cores_used_by_others']:g}; tile "
            f"ops with {result['tile_op_instructions']}; {versions}"
        )
    return "\n".join(lines)


def fit_table(fit: Result) -> str:
    """Images per second of both engines at their best settings."""
    lines = ["| engine | settings | images/s: median | min | max |", "|---|---|---|---|---|"]
    for engine, speed in fit["images_per_second"].items():
        settings = ", ".join(f"{name}={value}" for name, value in fit["settings"][engine].items())
        lines.append(f"| {engine} | {settings} | {_columns(speed)} |")
    lines.append(f"| **ratio** | | {_columns(fit['ratio'])} |")
    lines.append(f"| ratio of the fastest rounds | | {fit['ratio']['of_fastest_rounds']:g} | | |")
    return "\n".join(lines)


def ops_table(ops: Result) -> str:
    """The ratio of every layer and pass, and their geometric means."""
    ratios: dict[str, dict[str, float]] = {}
    for entry in ops["results"]:
        ratios.setdefault(entry["layer"], {})[entry["pass"]] = entry["ratio"]["median"]
    lines = ["| layer | forward | input gradient | weight gradient |", "|---|---|---|---|"]
    for layer, by_pass in ratios.items():
        lines.append(f"| {layer} | " + " | ".join(f"{by_pass[p]:.2f}" for p in PASSES) + " |")
    means = ops["ratio"]["geometric_mean_by_pass"]
    lines.append(
        "| **geometric mean** | " + " | ".join(f"**{means[p]:.2f}**" for p in PASSES) + " |"
    )
    total = f"**{ops['ratio']['geometric_mean']:.2f}**"
    lines.append(f"| **geometric mean of all** | {total} | | |")
    fastest = ops["ratio"]["geometric_mean_of_fastest_rounds"]
    lines.append(f"| geometric mean of all, fastest rounds | {fastest:.2f} | | |")
    return "\n".join(lines)


def step_table(ops: Result, fit: Result) -> str:
    """Where the time of a step of the fastest round goes: the layers' tile ops, and the rest."""
    times = {
        (entry["layer"], entry["pass"]): entry["fastest_microseconds"]["tile"]
        for entry in ops["results"]
    }
    step = fit["batch"][0] / fit["images_per_second"]["ipu_tf"]["max"] * 1e6
    lines = ["| part of a step | microseconds | share |", "|---|---|---|"]
    total = 0.0
    for layer in NETWORK:
        passes = PASSES if layer != NETWORK[0] else PASSES[::2]
        time = sum(times[layer, pass_] for pass_ in passes)
        total += time
        lines.append(_share_row(layer.removeprefix("cifar10/"), time, step))
    lines.append(_share_row("the rest", step - total, step))
    lines.append(_share_row("**step**", step, step))
    return "\n".join(lines)


def render(page: str, ops: Result, fit: Result) -> str:
    """The page with its tables made anew.

    Raises:
        ValueError: The page lacks the markers of a table.
    """
    tables = {
        "host": host(ops, fit),
        "fit": fit_table(fit),
        "ops": ops_table(ops),
        "step": step_table(ops, fit),
    }
    for name, table in tables.items():
        begin = f"<!-- {name} -->\n"
        before, found, rest = page.partition(begin)
        _, closed, after = rest.partition(END)
        if not found or not closed:
            raise ValueError(f"The page has no '{begin.strip()}' ... '{END}' markers.")
        page = f"{before}{begin}{table}\n{END}{after}"
    return page


def load(name: str) -> Result:
    """The committed result of a benchmark.

    Raises:
        FileNotFoundError: It has not been measured.
    """
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(
            f"There is no {path}. Measure it: python -m benchmarks {name} --output {path}"
        )
    result: Result = json.loads(path.read_text())
    return result


def update() -> None:
    """Writes the tables of docs/performance.md anew."""
    PAGE.write_text(render(PAGE.read_text(), load("ops"), load("fit")))


def _columns(figures: dict[str, float]) -> str:
    return " | ".join(f"{figures[name]:g}" for name in ("median", "min", "max"))


def _share_row(name: str, time: float, step: float) -> str:
    return f"| {name} | {significant(time):g} | {time / step:.0%} |"
