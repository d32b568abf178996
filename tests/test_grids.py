"""The choice of cells for the fast tier."""

import itertools

import pytest

from tests.grids import covering, examples, mostly_slow

AXES = {"size": [1, 2, 3], "kind": {"a": "first", "b": "second"}, "flag": [False, True, None]}


def fast_values(params):
    return [param.values for param in params if not param.marks]


@pytest.mark.parametrize("strength", [1, 2, 3])
def test_fast_cells_cover_every_combination(strength):
    names, params = covering(strength, **AXES)
    assert names == ("size", "kind", "flag")
    axes = [[1, 2, 3], ["first", "second"], [False, True, None]]
    assert [param.values for param in params] == list(itertools.product(*axes))
    for chosen in itertools.combinations(range(3), strength):
        covered = {tuple(cell[axis] for axis in chosen) for cell in fast_values(params)}
        assert covered == set(itertools.product(*(axes[axis] for axis in chosen)))


def test_fast_cells_are_few():
    assert [len(fast_values(covering(strength, **AXES)[1])) for strength in (1, 2, 3)] == [3, 9, 18]


def test_ids_are_the_names_of_the_values():
    assert covering(2, **AXES)[1][0].id == "1-a-False"


def test_values_that_are_not_fast_are_slow():
    params = mostly_slow({"a": 1, "b": 2, "c": 3}, fast=["b"])
    assert [(param.id, param.values, bool(param.marks)) for param in params] == [
        ("a", (1,), True),
        ("b", (2,), False),
        ("c", (3,), True),
    ]


def test_fast_values_exist():
    with pytest.raises(ValueError, match=r"`fast` has names of no value: \['d'\] of \['a', 'b'\]"):
        mostly_slow(["a", "b"], fast=["a", "d"])


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("value", [1, 2, pytest.param(3, marks=pytest.mark.slow), 4])
def test_cells_beyond_the_fast_ones_are_slow(value, request):
    assert (request.node.get_closest_marker("slow") is None) == (value in (1, 2))


def test_fast_runs_try_a_quarter_of_the_examples(request):
    share = 4 if request.config.getoption("-m") == "not slow" else 1
    assert examples(200).max_examples == 200 // share
    assert examples(2).max_examples == max(1, 2 // share)
