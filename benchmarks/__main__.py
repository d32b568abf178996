"""The command line of the benchmarks: one of them, as JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path

from benchmarks import avx2_alone
from benchmarks.errors import BenchmarkError
from ops.toolchain import BuildError


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    tasks = parser.add_subparsers(dest="task", required=True)
    fit = tasks.add_parser("fit", help="train CIFAR-10's network against stock Keras")
    fit.add_argument("--steps", type=int, default=50, help="per round; a multiple of 50")
    ops = tasks.add_parser("ops", help="tile ops against TensorFlow's, shape by shape")
    ops.add_argument("--only", default="", help="measure the layers with this in their name")
    ops.add_argument(
        "--threads", type=int, nargs="+", default=[], help="compare these numbers of threads"
    )
    keras = tasks.add_parser("keras", help="loops, replicas, accumulation against stock Keras")
    keras.add_argument("--only", default="", help="the cases with this in their name")
    kinds = tasks.add_parser("kinds", help="one network of each kind against stock Keras")
    kinds.add_argument("--optimizer", choices=("own", "sgd", "adam"), default="own")
    kinds.add_argument("--big", action="store_true", help="the big networks instead")
    kerases = tasks.add_parser("kerases", help="models of Keras 2 against Keras 3, on the IPU")
    parts = tasks.add_parser("parts", help="replicas, stages, float16 against one IPU in float32")
    for task in (kinds, kerases, parts):
        task.add_argument("--only", default="", help="the networks with this in their name")
        task.add_argument("--restarts", type=int, default=1, help="of the processes of both sides")
    loops = tasks.add_parser("loops", help="loops with feeds against stock TensorFlow's loops")
    loops.add_argument("--steps", type=int, default=1000, help="per round")
    mcmc = tasks.add_parser("mcmc", help="samplers of TensorFlow Probability against stock ones")
    mcmc.add_argument("--samples", type=int, default=5, help="per round")
    compiler = tasks.add_parser("compile", help="device programs against XLA:CPU's, plans too")
    compiler.add_argument(
        "--scalesim-python", default="", help="a Python that has the package scalesim"
    )
    compiler.add_argument(
        "--scalesim-layers", type=int, default=0, help="simulate only that many, the smallest"
    )
    aliases = tasks.add_parser(
        "aliases", help="the vendor's module names at the start of a process"
    )
    distributed = tasks.add_parser(
        "distributed",
        help="sums and training over two processes, the start of a job",
    )
    poplar = tasks.add_parser("poplar", help="vertices a second of C++ programs for Poplar")
    others = (loops, mcmc, compiler, aliases, distributed, poplar)
    for task in (fit, ops, keras, kinds, parts):
        task.add_argument("--avx2", action="store_true", help="as on a processor without AVX-512")
    for task in (fit, ops, keras, kinds, kerases, parts, *others):
        task.add_argument("--rounds", type=int, default=11, help="turns of each side")
        task.add_argument("--output", type=Path, help="file for the JSON; it is printed as well")
    kinds.set_defaults(rounds=3)  # The figures of docs/performance.md have 9, and 3 restarts.
    tasks.add_parser("document", help="make the tables of docs/performance.md anew")
    options = parser.parse_args(arguments)
    if options.task != "document" and options.rounds < 1:
        parser.error(f"--rounds must be at least 1. Received: {options.rounds}")
    cores = len(os.sched_getaffinity(0))
    if options.task == "ops" and not all(1 <= count <= cores for count in options.threads):
        parser.error(f"--threads must be from 1 to {cores}. Received: {options.threads}")
    if options.task in ("kinds", "kerases", "parts") and options.restarts < 1:
        parser.error(f"--restarts must be at least 1. Received: {options.restarts}")
    if options.task == "mcmc" and options.samples < 1:
        parser.error(f"--samples must be at least 1. Received: {options.samples}")
    if options.task == "loops" and options.steps < 1:
        parser.error(f"--steps must be at least 1. Received: {options.steps}")
    if options.task == "fit" and (options.steps < 50 or options.steps % 50):
        parser.error(f"--steps must be a multiple of 50. Received: {options.steps}")
    return options


def main(arguments: list[str] | None = None) -> int:
    """Runs a benchmark, prints and writes its result; returns the exit code."""
    try:
        return _run(arguments)
    except (BenchmarkError, BuildError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _run(arguments: list[str] | None) -> int:
    options = parse(arguments)
    if getattr(options, "avx2", False) and not avx2_alone.is_limited():
        avx2_alone.restart(sys.argv[1:] if arguments is None else arguments)
    # Each task imports what it measures, which takes seconds.
    if options.task == "document":
        from benchmarks import document

        document.update()
        return 0
    module = "ops_threads" if options.task == "ops" and options.threads else options.task
    result = importlib.import_module(f"benchmarks.{module}").run(options)
    text = json.dumps(result, indent=2)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
