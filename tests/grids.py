"""Parameters of tests over grids: a few cells in the fast tier, the whole grid in the slow one."""

import collections
import itertools

import pytest
from hypothesis import settings


def covering(strength, **axes):
    """Returns the arguments of `parametrize` for a grid; cells beyond a cover are marked slow.

    In the fast cells, every combination of values of any `strength` axes occurs: with 1 every
    value, with 2 every pair. The choice is the same in every run.

    Args:
        strength: How many axes are combined.
        **axes: The values of each parameter: a sequence, or a dict by the names for the tests' ids.

    Returns:
        The names of the parameters, and the list of all cells.
    """
    named = [_named(values) for values in axes.values()]
    cells = list(itertools.product(*named))
    fast = set(_cover(cells, strength))
    params = [
        pytest.param(
            *(values[name] for values, name in zip(named, cell, strict=True)),
            id="-".join(cell),
            marks=[] if cell in fast else pytest.mark.slow,
        )
        for cell in cells
    ]
    return tuple(axes), params


def mostly_slow(values, fast):
    """Returns all values as parameters; those not in `fast` are marked slow.

    Args:
        values: The values, or a dict of values by the names for the tests' ids.
        fast: Names of the values of the fast tier.
    """
    named = _named(values)
    if unknown := set(fast) - set(named):
        raise ValueError(f"`fast` has names of no value: {sorted(unknown)} of {list(named)}.")
    return [
        pytest.param(value, id=name, marks=[] if name in fast else pytest.mark.slow)
        for name, value in named.items()
    ]


def beyond_fast_cells(items):
    """Yields the tests that the marker `fast_cells(count)` of their function leaves out.

    Cells that are slow for another reason do not count.

    Args:
        items: The collected tests, in their order.
    """
    counted = collections.Counter()
    for item in items:
        marker = item.get_closest_marker("fast_cells")
        if marker is None or item.get_closest_marker("slow"):
            continue
        function = item.nodeid.partition("[")[0]
        counted[function] += 1
        if counted[function] > marker.args[0]:
            yield item


def _named(values):
    return values if isinstance(values, dict) else {str(value): value for value in values}


def _cover(cells, strength):
    """Returns a few cells in which every combination of values of `strength` axes occurs."""
    parts = {cell: set(itertools.combinations(enumerate(cell), strength)) for cell in cells}
    missing = set().union(*parts.values())
    chosen = []
    while missing:
        cell = max(cells, key=lambda cell: len(parts[cell] & missing))
        chosen.append(cell)
        missing -= parts[cell]
    return chosen


def examples(number):
    """Returns the settings of a property that is tried on so many examples, fewer in fast runs."""
    shares = settings.default.max_examples, settings.get_profile("repeatable").max_examples
    return settings(max_examples=max(1, number * shares[0] // shares[1]))
