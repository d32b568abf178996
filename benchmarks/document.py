"""`python -m benchmarks document`: the tables of docs/performance.md, from the result files.

People write the page's text by hand; every figure stands between two markers and comes from
benchmarks/results, so nobody copies figures.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.errors import BenchmarkError
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
BENCHMARKS = (
    "fit",
    "ops",
    "ops_threads",
    "keras",
    "kinds",
    "kinds_big",
    "kinds_avx2",
    "parts",
    "compile",
    "loops",
    "mcmc",
)
TASKS = {
    "ops_threads": "ops --threads 1 2",
    "kinds_big": "kinds --big",
    "kinds_avx2": "kinds --avx2",
}
"""What to ask for where it is not the name of the result."""
PASSES = ("forward", "input_gradient", "weight_gradient")

END = "<!-- end -->"

Result = dict[str, Any]


def host(*results: Result) -> str:
    """The machine and the versions of the results."""
    lines = []
    for result in results:
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


def threads_table(threads: Result) -> str:
    """The scaling of both sides for every layer and pass, and their geometric means."""
    (count,) = threads["scaling"]["tile"]
    scalings: dict[str, dict[str, str]] = {}
    for entry in threads["results"]:
        ours, stock = (entry["scaling"][side][count]["median"] for side in ("tile", "stock"))
        scalings.setdefault(entry["layer"], {})[entry["pass"]] = f"{ours:.2f} ({stock:.2f})"
    lines = ["| layer | forward | input gradient | weight gradient |", "|---|---|---|---|"]
    for layer, by_pass in scalings.items():
        lines.append(f"| {layer} | " + " | ".join(by_pass[p] for p in PASSES) + " |")
    ours, stock = (threads["scaling"][side][count] for side in ("tile", "stock"))
    lines.append(f"| **geometric mean of all** | **{ours:.2f} ({stock:.2f})** | | |")
    return "\n".join(lines)


def step_table(ops: Result, fit: Result) -> str:
    """The time of a step of the fastest round: the layers' tile ops, and the rest."""
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


def keras_table(keras: Result) -> str:
    """Samples per second of both engines in every case of the training loop."""
    lines = [
        "| case | stock: median | ipu_tf: median | ratio: median | fastest rounds | wanted |",
        "|---|---|---|---|---|---|",
    ]
    for case in keras["results"]:
        if "samples_per_second" not in case:
            continue
        speed, ratio = case["samples_per_second"], case["ratio"]
        lines.append(
            f"| {case['what']} | {speed['stock']['median']:g} | {speed['ipu_tf']['median']:g} | "
            f"**{ratio['median']:g}** | {ratio['of_fastest_rounds']:g} | {case['wanted']:g} |"
        )
    return "\n".join(lines)


def kinds_table(kinds: Result) -> str:
    """Samples per second of both engines for each kind of network, first steps and memory."""
    lines = [
        "| network | stock | ipu_tf | ratio: median | min | max | wanted | products | bound | "
        "first step | memory |",
        "|---" * 11 + "|",
    ]
    for network in kinds["results"]:
        speed, ratio = network["samples_per_second"], network["ratio"]
        products = network["products"]
        first, peak = network["first_step_seconds"], network["peak_bytes"]
        lines.append(
            f"| {network['what']} | {speed['stock']['median']:g} | {speed['ipu_tf']['median']:g} | "
            f"**{ratio['median']:g}** | {ratio['min']:g} | {ratio['max']:g} | "
            f"{network['wanted']:g} | {products['share_of_stock']:.0%} | {products['bound']:.2f} | "
            f"{first['ipu_tf']:g} s ({first['stock']:g} s) | "
            f"{peak['ipu_tf'] / 2**20:.0f} MiB ({peak['stock'] / 2**20:.0f} MiB) |"
        )
    wanted = {"kinds": " 1.3", "kinds_avx2": ""}.get(kinds["benchmark"])
    if wanted is not None:
        mean = kinds["geometric_mean"]
        lines.append(f"| **geometric mean** | | | **{mean:g}** | | |{wanted} | | | | |")
    return "\n".join(lines)


def parts_table(parts: Result) -> str:
    """The time of an update of both sides of each case."""
    lines = [
        "| network | one side | the other | ratio: median | min | max | wanted at most |",
        "|---" * 7 + "|",
    ]
    for case in parts["results"]:
        one, other = (
            f"{side}, {time['median']:g} ms"
            for side, time in case["milliseconds_of_an_update"].items()
        )
        lines.append(
            f"| {case['name'].partition(':')[0]} | {one} | {other} | {_columns(case['ratio'])} | "
            f"{case['wanted_at_most']:g} |"
        )
    return "\n".join(lines)


def first_step_table(keras: Result) -> str:
    """Seconds to the first step of both engines, and the memory of replicas."""
    cases = {case["name"]: case for case in keras["results"]}
    lines = ["| network | stock: median | ipu_tf: median | ratio |", "|---|---|---|---|"]
    for network, figures in cases["first_step"]["networks"].items():
        stock, ours = (figures["seconds"][side]["median"] for side in ("stock", "ipu_tf"))
        lines.append(f"| {network} | {stock:g} s | {ours:g} s | {figures['ratio']:g} |")
    memory = cases["memory"]
    peaks = " | ".join(f"{peak / 2**20:.0f} MiB" for peak in memory["peak_bytes"].values())
    lines += [
        "",
        f"| {' | '.join(memory['peak_bytes'])} | ratio | wanted at most |",
        "|---|---|---|---|",
        f"| {peaks} | {memory['ratio']:g} | {memory['wanted_at_most']:g} |",
    ]
    return "\n".join(lines)


def compile_table(compiled: Result) -> str:
    """Seconds of the compiler and the planner, and of the tools they are compared with."""
    lines = ["| what | ipu_tf | other | ratio |", "|---|---|---|---|"]
    for network, figures in compiled["against_xla_cpu"].items():
        ours, xla = (figures["seconds"][side]["median"] for side in ("ours", "xla"))
        lines.append(
            f"| training step of {network}, compiled | {ours:g} s | {xla:g} s (XLA:CPU) | "
            f"{figures['ratio']['median']:g} |"
        )
    block = compiled["estimate_of_1.8_billion_weights"]
    lines.append(
        f"| estimate of a transformer block of 1.8 billion weights | "
        f"{block['seconds']['median']:g} s, {block['peak_gib']['max']:g} GiB | | |"
    )
    cached_run = compiled["run_with_cached_program_seconds"]["median"] * 1e3
    lines.append(f"| run of a function whose program is cached | {cached_run:g} ms | | |")
    layers = compiled["resnet50_layers"]
    ours = f"| plans of ResNet-50's {layers['layers']} layers | {layers['seconds']['median']:g} s |"
    if "scalesim_seconds" in layers:
        least = "at least " if layers["scalesim_layers"] < layers["layers"] else ""
        lines.append(
            f"{ours} {layers['scalesim_seconds']:g} s (SCALE-Sim, {layers['scalesim_layers']} of "
            f"the layers) | {least}{layers['ratio']['median']:g} |"
        )
    else:
        lines.append(f"{ours} {layers['scalesim']} | |")
    return "\n".join(lines)


_LOOPS = {
    "function_per_step": "stock, a function called per step",
    "loop_in_function": "stock, the loop in a function",
    "ipu_tf": "ipu_tf",
}


def loops_table(loops: Result) -> str:
    """Milliseconds of the loops, and the ratios to ours."""
    lines = ["| loop | time: median | ratio: median | wanted |", "|---|---|---|---|"]
    for side, figures in loops["milliseconds"].items():
        ratio = loops["ratio"].get(side)
        row = f"**{ratio['median']:g}** | {ratio['wanted']:g}" if ratio else "|"
        lines.append(f"| {_LOOPS[side]} | {figures['median']:g} ms | {row} |")
    return "\n".join(lines)


def mcmc_table(mcmc: Result) -> str:
    """Microseconds of a leapfrog step of every sampler, and the ratios to ours."""
    sides = list(next(iter(mcmc["chains"].values()))["microseconds_a_leapfrog_step"])
    lines = [
        f"| chains | {' | '.join(sides)} | ratio to stock | wanted | first call to XLA's |",
        "|---" * (len(sides) + 4) + "|",
    ]
    for chains, case in mcmc["chains"].items():
        times = (case["microseconds_a_leapfrog_step"][side]["median"] for side in sides)
        lines.append(
            f"| {chains} | {' | '.join(f'{time:g} us' for time in times)} | "
            f"**{case['ratio']['median']:g}** | {mcmc['wanted']:g} | "
            f"{case['first_call_to_that_of_xla']:g} |"
        )
    lines += [f"\n`{name}` did not run: {reason}." for name, reason in mcmc["absent"].items()]
    return "\n".join(lines)


def render(page: str, results: dict[str, Result]) -> str:
    """The page with its tables regenerated.

    Args:
        page: The page.
        results: The result of each benchmark, by its name.

    Raises:
        BenchmarkError: The page lacks the markers of a table.
    """
    in_order = [results[name] for name in BENCHMARKS]
    fit, ops, threads, keras, kinds, big, avx2, parts, compiled, loops, mcmc = in_order
    tables = {
        "host": host(*in_order),
        "fit": fit_table(fit),
        "ops": ops_table(ops),
        "threads": threads_table(threads),
        "step": step_table(ops, fit),
        "keras": keras_table(keras),
        "kinds": kinds_table(kinds),
        "big": kinds_table(big),
        "avx2": kinds_table(avx2),
        "parts": parts_table(parts),
        "first step": first_step_table(keras),
        "compile": compile_table(compiled),
        "loops": loops_table(loops),
        "mcmc": mcmc_table(mcmc),
    }
    for name, table in tables.items():
        begin = f"<!-- {name} -->\n"
        before, marker, content = page.partition(begin)
        _, end_marker, after = content.partition(END)
        if not marker or not end_marker:
            raise BenchmarkError(f"The page has no '{begin.strip()}' ... '{END}' markers.")
        page = f"{before}{begin}{table}\n{END}{after}"
    return page


def load(name: str) -> Result:
    """The committed result of a benchmark.

    Raises:
        BenchmarkError: It has not been measured.
    """
    path = RESULTS / f"{name}.json"
    if not path.exists():
        raise BenchmarkError(
            f"There is no {path}. Measure it: python -m benchmarks {TASKS.get(name, name)} "
            f"--output {path}"
        )
    result: Result = json.loads(path.read_text())
    return result


def update() -> None:
    """Regenerates the tables of docs/performance.md."""
    PAGE.write_text(render(PAGE.read_text(), {name: load(name) for name in BENCHMARKS}))


def _columns(figures: dict[str, float]) -> str:
    return " | ".join(f"{figures[name]:g}" for name in ("median", "min", "max"))


def _share_row(name: str, time: float, step: float) -> str:
    return f"| {name} | {significant(time):g} | {time / step:.0%} |"
