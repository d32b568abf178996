"""Cuts of rows of layers: as good as the best of all, within memory, and better by experience."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.pipeline.balance import (
    BalanceRequest,
    LayerFigures,
    balanced_stages,
    corrected,
    even_stages,
    layer_figures,
)
from ipu_tf.compiler.pipeline.deployment import Offload
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import LAYERS, OPTIONS, compiled, stages_at
from tests.grids import examples

PLENTY = 1 << 40


def row(forward, backward=None, kept=None, waiting=None, crossing=None):
    """Figures of a row of layers; what is not given is 0."""
    count = len(forward)

    def array(values, length=count):
        return np.array(values if values is not None else [0] * length, np.int64)

    return LayerFigures(
        forward_cycles=array(forward),
        backward_cycles=array(backward),
        kept_bytes=array(kept),
        waiting_bytes=array(waiting),
        crossing_bytes=array(crossing, count + 1),
        further_bytes=array(None),
    )


def wanted(stages, **changes):
    values = {"schedule": "grouped", "recompute": False, "chip_bytes": PLENTY}
    return BalanceRequest(**({"stages": stages, "cycles_per_byte": 0.0} | values | changes))


def every_cut(layers, stages, together=()):
    """Yields the stages of the layers for every way to cut them."""
    for begins in itertools.combinations(range(1, layers), stages - 1):
        if not set(begins) & set(together):
            yield tuple(sum(layer >= begin for begin in begins) for layer in range(layers))


def per_stage(values, cut):
    return [sum(v for v, stage in zip(values, cut, strict=True) if stage == s) for s in set(cut)]


cycles = st.lists(st.integers(0, 100), min_size=4, max_size=7)


@examples(60)
@given(cycles, st.integers(2, 4), st.sets(st.integers(1, 6), max_size=2), st.data())
def test_no_cut_has_a_shorter_longest_stage(forward, stages, together, data):
    backward = data.draw(st.lists(st.integers(0, 100), min_size=7, max_size=7))[: len(forward)]
    together = frozenset(layer for layer in together if layer < len(forward))
    all_cuts = list(every_cut(len(forward), stages, together))
    if not all_cuts:
        return
    for schedule, of_passes in (("grouped", sum), ("interleaved", max)):

        def longest(cut, of_passes=of_passes):
            passes = zip(per_stage(forward, cut), per_stage(backward, cut), strict=True)
            return max(map(of_passes, passes))

        want = wanted(stages, schedule=schedule, together=together)
        found = balanced_stages(row(forward, backward), want)
        assert found in all_cuts
        assert longest(found) == min(map(longest, all_cuts))


def test_all_but_the_last_stage_pay_for_their_forward_pass_twice():
    figures = row([10, 10, 10, 10], [10, 10, 10, 10])
    assert balanced_stages(figures, wanted(2)) == (0, 0, 1, 1)
    uneven = row([10, 10, 10, 10, 10], [10] * 5)
    again = wanted(2, recompute=True)
    assert balanced_stages(uneven, again) == (0, 0, 1, 1, 1)


def test_a_stage_that_does_not_fit_is_longer_than_any_that_does():
    figures = row([1, 1, 1, 100], kept=[40, 40, 40, 1])
    assert balanced_stages(figures, wanted(2)) == (0, 0, 0, 1)
    assert balanced_stages(figures, wanted(2, chip_bytes=90)) == (0, 0, 1, 1)


def test_what_waits_counts_as_often_as_the_schedule_has_it():
    figures = row([1, 1, 1, 1], waiting=[10, 10, 10, 10])
    # Grouped in two stages: three micro-batches wait in the first, one in the second.
    assert balanced_stages(figures, wanted(2, chip_bytes=35)) == (0, 1, 1, 1)
    assert balanced_stages(figures, wanted(2, chip_bytes=60)) == (0, 0, 1, 1)


def test_links_count():
    figures = row([10, 10, 10, 10], crossing=[0, 0, 100, 0, 0])
    assert balanced_stages(figures, wanted(2)) == (0, 0, 1, 1)
    assert balanced_stages(figures, wanted(2, cycles_per_byte=1.0)) != (0, 0, 1, 1)


def test_fewer_layers_than_stages():
    with pytest.raises(ValueError, match="needs as many layers.* Received: 2 layers, of which 2"):
        balanced_stages(row([1, 1]), wanted(3))
    with pytest.raises(ValueError, match="Received: 3 layers, of which 1 may begin a stage"):
        balanced_stages(row([1, 1, 1]), wanted(2, together=frozenset({1, 2})))


@given(st.integers(1, 40), st.integers(1, 8))
def test_even_stages_differ_by_one_layer_at_most(layers, stages):
    if layers < stages:
        return
    cut = even_stages(layers, stages)
    counts = [cut.count(stage) for stage in range(stages)]
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1


class TestFiguresOfAStep:
    PLACES = stages_at(*range(1, len(LAYERS)))

    def figures(self, **changes):
        return layer_figures(modules.text("cifar10"), self.PLACES, OPTIONS, {}, **changes)

    def test_every_layer_has_its_weights_and_their_state(self):
        figures = self.figures()
        module = modules.text("cifar10")
        sizes = {
            i.attributes["parameter_number"]: i.type.bytes
            for i in module.entry_computation
            if i.opcode == "parameter"
        }
        for place, layer in enumerate(LAYERS):
            mine = [n for n, p in enumerate(module.parameters) if p.layer == f"sequential/{layer}"]
            assert figures.kept_bytes[place] >= sum(sizes[n] for n in mine)
        assert figures.forward_cycles.min() >= 0
        assert figures.forward_cycles[0] > 0

    def test_what_is_offloaded_is_not_on_the_tiles(self):
        kept = self.figures()
        away = self.figures(offload=Offload(optimizer_state=True, activations=True))
        assert away.kept_bytes.sum() < kept.kept_bytes.sum()
        assert away.waiting_bytes.sum() == 0 < kept.waiting_bytes.sum()

    def test_corrected_figures_are_those_of_the_pipeline(self):
        figures = self.figures()
        want = wanted(3, schedule="interleaved", recompute=True)
        cut = tuple(stages_at(2, 5).values())
        program = compiled(2, 5, schedule="interleaved", recompute=True, micro_batches=6)
        better = corrected(figures, want, cut, program)
        for stage in program.stages:
            mine = [place for place, of in enumerate(cut) if of == stage.index]
            assert better.forward_cycles[mine].sum() == pytest.approx(
                stage.forward_cycles, abs=len(mine)
            )
            alone = stage.backward_cycles - stage.recomputed_cycles
            assert better.backward_cycles[mine].sum() == pytest.approx(alone, abs=len(mine))
        # Corrected once, nothing is left to correct.
        again = corrected(better, want, cut, program)
        assert np.abs(again.further_bytes - better.further_bytes).max() <= len(LAYERS)
