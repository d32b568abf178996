"""The search for a pipeline: a step of plain data in, ranked programs out."""

import pytest

from ipu_tf.compiler.pipeline.deployment import ALL_ON_TILES, with_short_paths
from ipu_tf.compiler.pipeline.search import PipelinedCall, PipelineSearch, sharing
from ipu_tf.compiler.pipeline.search_bounds import Bounds
from ipu_tf.compiler.traced_step import TracedStep
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import LAYERS, OPTIONS

CALLS = [PipelinedCall(path=f"sequential/{layer}") for layer in LAYERS]


def bounds(**changes):
    values = {
        "ipus": 2,
        "replicas": None,
        "micro_batches": (4, 4),
        "schedules": ("grouped",),
        "recompute": (False,),
    }
    return Bounds(**(values | changes))


def searched(within, calls=CALLS):
    step = TracedStep(module=modules.text("cifar10"), options=OPTIONS, plans={}, samples_per_run=16)
    search = PipelineSearch(
        "sequential", calls, lambda _: step, offload=ALL_ON_TILES, offload_whole=ALL_ON_TILES
    )
    return search.run(within)


@pytest.fixture(scope="module")
def found():
    return searched(bounds())


def test_the_search_compiles_whole_even_and_balanced_splits_and_ranks_them(found):
    assert {one.split for one in found.candidates} == {"whole", "even", "balanced"}
    ranks = [one.rank for one in found.candidates]
    assert ranks == sorted(ranks)
    assert found.best.candidate is found.candidates[0]
    assert found.even.candidate.split == "even"


def test_candidates_have_the_figures_of_their_programs(found):
    program, candidate = found.best.program, found.best.candidate
    assert candidate.cycles == program.cycles
    assert candidate.samples_per_second == program.samples_per_second > 0
    assert candidate.stages == tuple(candidate.options.stage_of_layers[call.path] for call in CALLS)


def test_calls_that_share_weights_stay_in_one_stage():
    tied = [
        PipelinedCall(path=call.path, weights=frozenset({7} if 2 <= place <= 6 else {place + 100}))
        for place, call in enumerate(CALLS)
    ]
    assert sharing(tied) == {3, 4, 5, 6}
    found = searched(bounds(replicas=1), tied)
    assert all(len(set(one.stages[2:7])) == 1 for one in found.candidates)


def test_bounds_that_no_schedule_meets_have_no_candidate():
    # Grouped training of two stages takes multiples of four.
    assert searched(bounds(replicas=1, micro_batches=(5, 7))) is None


def test_layers_have_their_short_paths_too():
    assert with_short_paths({"model/a": 0, "model/b/c": 1}, "model") == {
        "model/a": 0,
        "a": 0,
        "model/b/c": 1,
        "b/c": 1,
    }
