"""`ipu-tf sweep SPEC`: many estimates, on all cores."""

from __future__ import annotations

import argparse
import json
import sys
from concurrent.futures import Executor
from pathlib import Path

from ipu_tf.base.user_objects import UsageError
from ipu_tf.cli.command import Command
from ipu_tf.cli.files import check_writable, write_errors


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("spec", type=Path, metavar="SPEC", help="a file of TOML or JSON")
    parser.add_argument(
        "--results",
        type=Path,
        metavar="FILE",
        help="keeps the estimates as they come; a stopped sweep goes on from there; default: SPEC "
        "with .results.jsonl",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the estimates as CSV, too")
    parser.add_argument(
        "--html",
        type=Path,
        metavar="FILE",
        help="write a page, too: throughput against memory, with the Pareto front",
    )
    parser.add_argument(
        "--processes", type=int, metavar="N", help="estimates side by side; default: one a core"
    )
    parser.add_argument(
        "--executor",
        choices=["mpi"],
        help="estimate on the other instances of a job that poprun started, on all its hosts",
    )
    parser.add_argument("--json", action="store_true", help="print the estimates as JSON")


def _run(options: argparse.Namespace) -> int:
    if options.executor is None:
        return _sweep(options)
    from ipu_tf.sweep.executors import mpi_executor

    with mpi_executor() as executor:
        return _sweep(options, executor) if executor is not None else 0


def _sweep(options: argparse.Namespace, executor: Executor | None = None) -> int:
    from ipu_tf.sweep import SweepFileError, sweep
    from ipu_tf.sweep.point import encoded
    from ipu_tf.sweep.progress import progress_on
    from ipu_tf.sweep.spec import SpecError, read_spec

    results = options.results or options.spec.with_suffix(".results.jsonl")
    for path in (options.csv, options.html):
        if path is not None:
            check_writable(path)
    try:
        result = sweep(
            **read_spec(options.spec),
            results=results,
            processes=options.processes,
            executor=executor,
            progress=progress_on(sys.stderr),
        )
    except (SpecError, SweepFileError, ValueError) as error:
        raise UsageError(error) from error
    except OSError as error:
        raise UsageError(f"cannot use {error.filename}: {error.strerror}.") from error
    except KeyboardInterrupt:
        print(f"stopped; the same command goes on from {results}", file=sys.stderr)
        return 130
    if options.csv is not None:
        with write_errors(options.csv):
            result.to_csv(options.csv)
    if options.html is not None:
        with write_errors(options.html):
            result.to_html(options.html)
    if options.json:
        front = set(map(id, result.front))
        print(
            json.dumps(
                [
                    {
                        "point": each.point.labels(),
                        "outcome": encoded(each.outcome),
                        "on_front": id(each) in front,
                    }
                    for each in result.estimates
                ],
                indent=1,
            )
        )
    else:
        print(result)
    errors = [each.outcome.error for each in result.estimates if each.outcome.error]
    if errors and len(errors) == len(result.estimates):
        raise UsageError(f"every estimate failed, the first with: {errors[0]}")
    return 0


SWEEP = Command(
    name="sweep",
    summary="estimate a model on many machines and in many ways",
    description="Estimates a model for every combination of the values in a file: chips, memories, "
    "batch sizes, replicas, stages, precisions. Uses all cores; goes on where it was stopped.",
    add_arguments=_add_arguments,
    run=_run,
)
