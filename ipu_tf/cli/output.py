"""The output of commands with `--json`: plain data in place of text."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipu_tf.profile.report import Report


def add_json(parser: argparse.ArgumentParser) -> None:
    """Adds `--json`, which prints plain data in place of text."""
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def print_text(text: Callable[[], str]) -> None:
    """Prints a text as wide as the terminal, with colours if there is one.

    Args:
        text: Makes the text.
    """
    from ipu_tf.profile.text.rendering import for_stream, rendering

    with rendering(for_stream(sys.stdout)):
        print(text())


def print_json(content: object) -> None:
    """Prints plain data as JSON."""
    print(json.dumps(content, indent=1, ensure_ascii=False))


def figures_of(report: Report) -> dict[str, object]:
    """Returns the main figures of a report as plain data, as its file has them."""
    from ipu_tf.profile.data.json_figures import program_figures

    return {
        "figures": [program_figures(program) for program in report.programs],
        "notes": list(report.notes),
    }
