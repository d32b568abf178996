"""Prints the figures of an estimate at once, and its insights as they are found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipu_tf.cli.output import print_text

if TYPE_CHECKING:
    from ipu_tf.profile.report import Report
    from ipu_tf.programs.insight import Insight
    from ipu_tf.programs.program import Program


class FiguresFirst:
    """Prints a program before its insights are looked for, then a line for each of them.

    Args:
        plans: Whether every tile op is listed with its plan.
    """

    def __init__(self, *, plans: bool) -> None:
        self._plans = plans
        self._is_printed = False

    def __call__(self, program: Program, insight: Insight | None) -> None:
        """Prints what is known now; `ipu_tf.programs.insights` calls it."""
        from ipu_tf.profile.report import Report
        from ipu_tf.profile.text.text import gain_lines

        if insight is None:
            print_text(lambda: Report(programs=(program,)).summary(plans=self._plans) + "\n")
            self._is_printed = True
        elif program.device is not None:
            device = program.device
            print_text(lambda: "\n".join(f"  {line}" for line in gain_lines(insight, device)))

    def finish(self, report: Report) -> None:
        """Prints what limits the program, with the best changes, and the notes of the report."""
        from ipu_tf.profile.text.text import closing_lines, overview_lines

        if not self._is_printed:
            print_text(lambda: report.summary(plans=self._plans))
            return
        lines = [line for program in report.programs for line in closing_lines(program)]
        print_text(
            lambda: "\n".join(
                [
                    *(f"  {line}" for line in lines),
                    "",
                    *overview_lines(report.programs),
                    *(f"note: {note}" for note in report.notes),
                ]
            )
        )
