"""Estimates modules in HLO text, as XLA and the frameworks above it dump them."""

from __future__ import annotations

import argparse
import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING

from ipu_tf.base.printable import printable
from ipu_tf.base.user_objects import UsageError

if TYPE_CHECKING:
    from ipu_tf.compiler.hlo import Module
    from ipu_tf.machine import System, Target
    from ipu_tf.profile.report import Report

_SUFFIXES = (".hlo", ".hlo.txt")
_OF_KERAS = ("precision", "replicas", "accumulation", "stages", "optimizer")
_FLAGS_OF_KERAS = ("inference", "packed", "recompute")
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")


def add_hlo_options(parser: argparse.ArgumentParser) -> None:
    """Adds the option that only modules in HLO text have."""
    parser.add_argument(
        "--weights",
        metavar="NUMBERS",
        help="of an .hlo file: the parameters that stay on the tiles, such as 0,3-7; those that "
        "a result replaces always stay, others come from the host in every run",
    )


def is_hlo(word: str) -> bool:
    """Returns whether a word of the command line names a file of HLO text."""
    return word.endswith(_SUFFIXES)


def estimated_hlo(options: argparse.Namespace, machine: str | Target | System, ipus: int) -> Report:
    """Returns the report of a run of the module in a file.

    Raises:
        UsageError: There is no such file, it holds no module, or an option is not about modules.
    """
    from ipu_tf.compiler.compile import compile_program
    from ipu_tf.compiler.compiler_options import CompilerOptions
    from ipu_tf.compiler.traced_step import TracedStep
    from ipu_tf.machine import system_of
    from ipu_tf.profile.report import Report
    from ipu_tf.programs.insights import has_insights
    from ipu_tf.programs.program import Program
    from ipu_tf.programs.source import Source

    _check(options, ipus)
    module = _module(Path(options.model), options.weights)
    system = system_of(machine, ipus)
    compiler = CompilerOptions(
        target=system.target,
        system=system,
        unsupported=options.unsupported,
        out_of_memory="report",
    )
    samples = options.batch_size
    device = compile_program(module, compiler, samples_per_run=samples)
    step = TracedStep(module=module, options=compiler, plans={}, samples_per_run=samples)
    program = Program(name=module.name, device=device, source=Source(step=step))
    report = Report(programs=(program,))
    if has_insights(options.insights):
        report.with_insights(all_changes=options.insights is True)
    return report


def _check(options: argparse.Namespace, ipus: int) -> None:
    wrong = [name for name in _OF_KERAS if getattr(options, name) is not None]
    wrong += [name for name in _FLAGS_OF_KERAS if getattr(options, name) not in (None, False)]
    if wrong:
        raise UsageError(
            f"--{wrong[0]} is about Keras models: leave it out for the module in {options.model}, "
            "which is estimated as it is."
        )
    if ipus != 1:
        raise UsageError(
            f"the module in {options.model} runs on one IPU: leave out --ipus and --system. "
            f"Received: {ipus} IPUs."
        )


def _module(path: Path, weights: str | None) -> Module:
    """Returns the module of a file, with the roles of its parameters."""
    from ipu_tf.compiler.hlo.from_proto import UnsupportedType
    from ipu_tf.compiler.hlo.op_layers import with_layers
    from ipu_tf.compiler.hlo.text import ParseError
    from ipu_tf.compiler.hlo.verify import InvalidModule, verify
    from ipu_tf.compiler.hlo.xla_text import parse_xla

    try:
        module = with_layers(parse_xla(printable(path.read_text(encoding="utf-8"))))
        verify(module)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{path} is no text: {error}. Dump the module as text, not as a proto."
        ) from error
    except (ParseError, UnsupportedType, InvalidModule) as error:
        raise UsageError(f"{path}: {error}") from error
    weight_numbers = _numbers(weights, len(module.parameters))
    parameters = tuple(
        dataclasses.replace(parameter, role="weight")
        if number in weight_numbers or parameter.updated_by is not None
        else parameter
        for number, parameter in enumerate(module.parameters)
    )
    return module.replace(parameters=parameters)


def _numbers(text: str | None, count: int) -> set[int]:
    """Returns the numbers of a list such as "0,3-7"."""
    numbers: set[int] = set()
    for part in (text or "").split(",") if text is not None else ():
        match = _RANGE.fullmatch(part.strip())
        if match is None:
            raise UsageError(f"--weights takes numbers such as 0,3-7. Received: {text!r}.")
        numbers |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    if numbers and max(numbers) >= count:
        raise UsageError(
            f"--weights takes numbers of the module's {count} parameters, from 0 to {count - 1}. "
            f"Received: {text!r}."
        )
    return numbers
