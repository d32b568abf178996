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


def title(fault: NonFinite) -> str:
    """Returns what happened, and where, in a line."""
    if not fault.op:
        return "values were not finite before the program read them"
    layer = f" in layer '{fault.layer}'" if fault.layer else ""
    if fault.fault == "underflow":
        return f"first gradient that flushes to zero{layer}"
    if fault.handled:
        return f"first gradient that overflows, handled by loss scaling: {fault.fault}{layer}"
    return f"first value that is not finite: {fault.fault}{layer}"


def facts(fault: NonFinite) -> Mapping[str, str]:
    """Returns what is known of a fault, by name: place, moment, values, what to do."""
    rows = {
        "operation": f"{fault.op} ({fault.op_type})" if fault.op else "",
        "computed in": fault.superstep_and_tiles,
        "when": fault.moment,
        "flushed": f"{fault.lost:,} values are 0 and should not be" if fault.lost else "",
        "operands": "; ".join(map(str, fault.operands)),
        "result": "; ".join(map(str, fault.results)),
        "first": _first(fault),
        "to do": fault.what_to_do,
    }
    return {name: value for name, value in rows.items() if value}


def _first(fault: NonFinite) -> str:
    """Returns the place of the first wrong value, and those around it, "" where there is none."""
    values = ", ".join(f"{value:.6g}" for value in fault.around)
    if not values:
        return ""
    place = f"at {list(fault.position)}, "
    return place + (f"where {values} should be" if fault.lost else f"among {values}")


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
    faults = {id(fault): fault for program in programs for fault in program.nonfinite}
    if not faults:
        yield (
            f"No NaN and no overflow was found in {len(programs)} traced programs; warnings in the "
            "log name those that cannot be searched."
        )
    for fault in faults.values():
        yield f"Program '{fault.program}':"
        yield from (f"  {line}" for line in nonfinite_lines(fault))


def nonfinite_lines(fault: NonFinite) -> Iterator[str]:
    """Yields the lines of a fault, with a histogram of its operands."""
    width = current().width - _INDENT
    yield from textwrap.wrap(title(fault), width, subsequent_indent="  ")
    for name, value in facts(fault).items():
        line = f"{name:<{_LABEL}}{value}"
        yield from textwrap.wrap(
            line, width - 2, initial_indent="  ", subsequent_indent=" " * (_LABEL + 2)
        )
    rows = histogram(fault.operands)
    if rows:
        header = ("sizes of the operands' values", *(one.name for one in fault.operands))
        lines = table(header, [(size, *(f"{n:,}" for n in counts)) for size, counts in rows])
        yield from (f"  {line}" for line in lines)
