"""Checkpoints are where the search says that the fewest bytes are live, at the least cost."""

import itertools

import numpy as np
import pytest

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.recomputation.placement import CheckpointSearch

UNIT = 4
"""Bytes of an element."""


def layers(sizes):
    """A chain of layers with results of these sizes, each read by the backward pass."""
    forward = [f"y0 = f32[{sizes[0]}] parameter(0)"]
    for n, size in enumerate(sizes, 1):
        forward.append(f'y{n} = f32[{size}] pad(y{n - 1}), layer="l{n}"')
    count = len(sizes)
    back = [f"g{count + 1} = f32[1] slice(y{count}), phase=backward"]
    for n in range(count, 0, -1):
        back.append(f'g{n} = f32[1] dot(g{n + 1}, y{n}), layer="l{n}", phase=backward')
    body = "\n".join([*forward, *back, "ROOT all = (f32[1]) tuple(g1)"])
    return parse(f"ENTRY main {{\n{body}\n}}\n")


def test_fifteen_equal_layers_need_five_activations_and_ten_layers_again():
    """The vendor's own example."""
    search = CheckpointSearch(layers([1] * 15))
    found = search.least
    assert search.bytes_without == 15 * UNIT
    assert [search.layer_before(cut) for cut in found.cuts] == ["l5", "l9", "l12", "l14"]
    assert (found.live_bytes, found.cost) == (5 * UNIT, 10)


def by_hand(sizes, ends, costs):
    """The live elements and the cost of checkpoints after the layers `ends`."""
    kept = live = cost = 0
    for begin, end in itertools.pairwise([0, *ends, len(sizes)]):
        live = max(live, kept + sum(sizes[begin:end]))
        if end < len(sizes):
            kept += sizes[end - 1]
            cost += sum(costs[begin : end - 1])
    return live, cost


@pytest.mark.parametrize("seed", range(3))
def test_no_other_checkpoints_of_a_chain_are_better(seed):
    random = np.random.default_rng(seed)
    sizes, costs = random.integers(1, 9, 8).tolist(), random.integers(1, 9, 8).tolist()
    costs_of = {f"y{n}": cost for n, cost in enumerate(costs, 1)}
    search = CheckpointSearch(layers(sizes), costs_of)
    every = [
        by_hand(sizes, ends, costs)
        for count in range(len(sizes))
        for ends in itertools.combinations(range(1, len(sizes)), count)
    ]
    # Exclusive sources: none, as the backward pass reads every layer.
    for limit in sorted({live for live, _ in every}):
        found = search.within(limit * UNIT)
        assert found.cost == min(cost for live, cost in every if live <= limit)
        assert found.live_bytes <= limit * UNIT
    least = min(live for live, _ in every)
    assert search.within(least * UNIT - 1) is None
    assert search.least.live_bytes <= least * UNIT * 1.02


@pytest.mark.parametrize("seed", [0, 29])
def test_the_fewest_bytes_that_are_possible_are_found(seed):
    """Of ways that keep about the same, the cheapest alone would leave too few bytes here."""
    random = np.random.default_rng(seed)
    count = int(random.integers(8, 40))
    sizes = random.integers(1, 2000, count).tolist()
    costs = {f"y{n}": int(cost) for n, cost in enumerate(random.integers(1, 9, count), 1)}
    found = CheckpointSearch(layers(sizes), costs).least
    ends = [
        int(layer[1:]) for layer in map(CheckpointSearch(layers(sizes)).layer_before, found.cuts)
    ]
    live, _ = by_hand(sizes, ends, [0] * count)
    assert live * UNIT == found.live_bytes < sum(sizes) * UNIT


def test_without_a_forward_pass_there_is_nothing_to_cut():
    empty = parse("ENTRY main {\n x = f32[1] parameter(0)\n ROOT all = (f32[1]) tuple(x)\n}\n")
    assert CheckpointSearch(empty).least.cuts == ()
