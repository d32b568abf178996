"""Where NaN and infinities came from, as lines of a report."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from ipu_tf.profile.text.rendering import current
from ipu_tf.profile.text.table import table
from ipu_tf.programs.nonfinite import NonFinite, ValueSummary
from ipu_tf.programs.program import Program

_INDENT = 4
_LABEL = 14
_ROWS = 12
"""Rows of a histogram at most; where values have more exponents, a row has several."""


def title(found: NonFinite) -> str:
    """Returns what happened, and where, in a line."""
    if not found.op:
        return "values were not finite before the program read them"
    layer = f" in layer '{found.layer}'" if found.layer else ""
    if found.fault == "underflow":
        return f"first gradient that flushes to zero{layer}"
    if found.handled:
        return f"first gradient that overflows, handled by loss scaling: {found.fault}{layer}"
    return f"first value that is not finite: {found.fault}{layer}"


def facts(found: NonFinite) -> Mapping[str, str]:
    """Returns what is known of a fault, by name: place, moment, values, what to do."""
    known = {
        "operation": f"{found.op} ({found.op_type})" if found.op else "",
        "computed in": found.superstep_and_tiles,
        "when": found.moment,
        "flushed": f"{found.lost:,} values are 0 and should not be" if found.lost else "",
        "operands": "; ".join(map(str, found.operands)),
        "result": "; ".join(map(str, found.results)),
        "first": _first(found),
        "to do": found.what_to_do,
    }
    return {name: value for name, value in known.items() if value}


def _first(found: NonFinite) -> str:
    """Returns the place of the first wrong value, and those around it, "" where there is none."""
    values = ", ".join(f"{value:.6g}" for value in found.around)
    if not values:
        return ""
    place = f"at {list(found.position)}, "
    return place + (f"where {values} should be" if found.lost else f"among {values}")


def histogram(tensors: Sequence[ValueSummary]) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Returns how many values of each tensor there are, by their size, the smallest first.

    Args:
        tensors: The tensors.
    """
    by_tensor = [dict(tensor.exponents) for tensor in tensors]
    exponents = sorted({exponent for one in by_tensor for exponent in one})
    each = -(-len(exponents) // _ROWS)
    rows = [("0", tuple(tensor.zeros for tensor in tensors))]
    for first in range(0, len(exponents), max(1, each)):
        group = exponents[first : first + each]
        size = f"from 2^{group[0]} to below 2^{group[-1] + 1}"
        rows.append((size, tuple(sum(one.get(e, 0) for e in group) for one in by_tensor)))
    rows += [
        ("infinite", tuple(tensor.infinities for tensor in tensors)),
        ("NaN", tuple(tensor.nans for tensor in tensors)),
    ]
    return tuple(row for row in rows if any(row[1]))


def all_lines(programs: Sequence[Program]) -> Iterator[str]:
    """Yields the faults of programs, or that there are none.

    Args:
        programs: The programs of a script that ran with `simulator.trace_numerics`.
    """
    faults = {id(found): found for program in programs for found in program.nonfinite}
    if not faults:
        yield (
            f"No NaN and no overflow was found in {len(programs)} traced programs; warnings in the "
            "log name those that cannot be searched."
        )
    for found in faults.values():
        yield f"Program '{found.program}':"
        yield from (f"  {line}" for line in nonfinite_lines(found))


def nonfinite_lines(found: NonFinite) -> Iterator[str]:
    """Yields the lines of a fault, with a histogram of its operands."""
    width = current().width - _INDENT
    yield from textwrap.wrap(title(found), width, subsequent_indent="  ")
    for name, value in facts(found).items():
        line = f"{name:<{_LABEL}}{value}"
        yield from textwrap.wrap(
            line, width - 2, initial_indent="  ", subsequent_indent=" " * (_LABEL + 2)
        )
    rows = histogram(found.operands)
    if rows:
        header = ("sizes of the operands' values", *(one.name for one in found.operands))
        lines = table(header, [(size, *(f"{n:,}" for n in counts)) for size, counts in rows])
        yield from (f"  {line}" for line in lines)
