"""Models that recompute train to the same weights, with less memory and more cycles."""

import dataclasses
import re

import keras
import numpy as np
import pytest

import ipu_tf
from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.keras.layers import RecomputationCheckpoint
from ipu_tf.keras.saving.options_config import options_of, set_options
from ipu_tf.machine import CHIPS
from ipu_tf.profile.data.json_figures import device_figures
from ipu_tf.profile.figures.program_figures import recomputation

BEST = (5, 9, 12, 14)
"""The layers of a chain of 15 after which the vendor's example keeps activations."""


def configuration(**options):
    cfg = IPUConfig()
    for name, value in options.items():
        setattr(cfg, name, value)
    return cfg


def chain(checkpoints=(), layers=15, dropout=0.0):
    """A chain of equal layers with checkpoints after some of them."""
    values = inputs = keras.Input((64,))
    for number in range(1, layers + 1):
        values = keras.layers.Dense(64, "relu", name=f"layer_{number}")(values)
        if dropout:
            values = keras.layers.Dropout(dropout, seed=number)(values)
        if number in checkpoints:
            values = RecomputationCheckpoint(name=f"checkpoint_{number}")(values)
    model = keras.Model(inputs, values, name="chain")
    model.compile(keras.optimizers.SGD(0.1), "mse")
    return model


def estimated(make, recompute, **arguments):
    cfg = configuration(allow_recompute=recompute)
    report = ipu_tf.estimate(make, batch_size=2048, config=cfg, **arguments)
    (program,) = report.programs
    return report, program.device


def activations(program):
    """The most bytes that are live at a time, of those that are not always live."""
    memory = program.memory
    return int(memory.live_bytes.max() - sum(each.sum() for each in memory.always_live.values()))


def copied(program):
    """Cycles of the copies for calls of shared code, which depend on how long values live."""
    return sum(
        superstep.total_cycles
        for step in program.steps
        for superstep in step.supersteps
        if superstep.name in ("copy operands", "copy results")
    )


@pytest.fixture(scope="module")
def kept():
    return estimated(chain, False)[1]


class TestTheExampleOfTheVendor:
    def test_fifteen_layers_run_once_and_keep_fifteen_activations(self, kept):
        found = recomputation(kept)
        assert (found.forward_operations, found.kept_activations, found.cycles) == (15, 15, 0)

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize(
        "checkpoints", [BEST, ()], ids=["of the model", "placed by the compiler"]
    )
    @pytest.mark.slow
    def test_with_the_best_checkpoints_ten_run_again_and_five_are_live(self, kept, checkpoints):
        report, again = estimated(lambda: chain(checkpoints), True)
        found = recomputation(again)
        assert (found.forward_operations, found.kept_activations) == (25, 5)
        figures = device_figures(again, ())
        assert (figures["forward_operations"], figures["live_activations"]) == (25, 5)
        text = " ".join(report.summary().split())
        assert "recomputation 25 forward operations for 15 layers, " in text
        assert "at most 5 activations live" in text
        # Values lie on other tiles, which changes the cycles of the rest a little.
        copies = copied(again) - copied(kept)
        assert again.cycles - kept.cycles - copies == pytest.approx(found.cycles, rel=0.05)
        # 15 activations of 2,048 x 64 float32.
        assert activations(kept) - activations(again) > 8 * 2048 * 64 * 4
        assert again.memory.peak_tile_bytes.max() < kept.memory.peak_tile_bytes.max()

    @pytest.mark.slow
    def test_checkpoints_alone_change_nothing(self, kept):
        _, marked = estimated(lambda: chain(BEST), False)
        assert marked.cycles == kept.cycles
        assert marked.memory.live_bytes.tolist() == kept.memory.live_bytes.tolist()
        assert not marked.recompute


def trained(recompute, stages=None, **options):
    """The weights after two steps with dropout, and the program of the step."""
    configuration(allow_recompute=recompute, auto_select_ipus=4).configure_ipu_system()
    keras.utils.set_random_seed(7)
    strategy = IPUStrategy()
    data = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
    try:
        with strategy.scope():
            model = chain((2, 4), layers=5, dropout=0.3)
            if stages:
                model.set_pipeline_stage_assignment(stages(model))
                model.set_pipelining_options(4, **options)
            model.steps_per_execution = 4
            model.fit(data, data, batch_size=4, epochs=1, steps_per_epoch=8, verbose=0)
        program = strategy.report().programs[0].device
    finally:
        config.reset_ipu_configuration()
    return model.get_weights(), program


def halves(model):
    layers = model.get_pipeline_stage_assignment()
    for place, one in enumerate(layers):
        one.pipeline_stage = int(place >= 7)
    return layers


@pytest.mark.slow
@pytest.mark.parametrize("stages", [None, halves], ids=["one IPU", "stages"])
def test_weights_are_equal_to_the_bit_with_dropout(stages):
    plain, kept = trained(False, stages)
    same, again = trained(True, stages)
    assert all(np.array_equal(a, b) for a, b in zip(plain, same, strict=True))
    assert kept.stages[0].recomputed_cycles == 0 < again.stages[0].recomputed_cycles
    opcodes = {step.opcode for step in again.steps if step.recomputed}
    assert "dropout" in opcodes


SMALL_BYTES = 23_500
"""Memory of a tile with which the chain fits if it recomputes."""


def on_small_tiles(tile_bytes, make=chain, **arguments):
    cfg = IPUConfig()
    cfg.simulator.chip = dataclasses.replace(CHIPS["bow"], tile_bytes=tile_bytes)
    report = ipu_tf.estimate(make, batch_size=2048, config=cfg, **arguments)
    return report.programs[0].device


class TestAuto:
    @pytest.mark.slow
    def test_a_step_that_fits_recomputes_nothing(self, kept):
        device = on_small_tiles(int(kept.memory.peak_tile_bytes.max()), recompute="auto")
        assert device.fits
        assert not device.recompute
        assert device.cycles == kept.cycles

    @pytest.mark.slow
    def test_the_cheapest_checkpoints_with_which_a_step_fits_are_found(self):
        whole, least = (on_small_tiles(SMALL_BYTES, recompute=each) for each in (False, True))
        assert (whole.fits, least.fits) == (False, True)
        found = on_small_tiles(SMALL_BYTES, recompute="auto")
        assert found.fits
        assert found.recompute
        assert whole.cycles < found.cycles < least.cycles
        # They are names that a model takes, too.
        named = on_small_tiles(SMALL_BYTES, recompute=found.checkpoints)
        assert (named.cycles, named.fits) == (found.cycles, True)

    @pytest.mark.slow
    def test_a_step_that_fits_with_no_checkpoints_overflows_least(self):
        device = on_small_tiles(4096, recompute="auto")
        assert not device.fits
        assert device.recompute

    @pytest.mark.parametrize("value", ["all", 3, [1], ["a", ""]])
    def test_other_values_are_errors(self, value):
        message = '`recompute` must be True, False, "auto", None, or the names of layers after '
        with pytest.raises(ValueError, match=re.escape(message) + ".*Received: "):
            ipu_tf.estimate(chain, batch_size=4, recompute=value)


class TestOptionsOfAModel:
    @pytest.fixture
    def model(self):
        configuration().configure_ipu_system()
        with IPUStrategy().scope():
            yield chain()
        config.reset_ipu_configuration()

    @pytest.mark.slow
    def test_checkpoints_are_layers_of_the_model(self, model, kept):
        model.set_recomputation_options(checkpoints=[f"layer_{number}" for number in BEST])
        device = ipu_tf.estimate(model, batch_size=2048).programs[0].device
        assert recomputation(device).forward_operations == 25
        assert device.checkpoints == tuple(f"layer_{number}" for number in BEST)
        off = ipu_tf.estimate(model, batch_size=2048, recompute=False).programs[0].device
        assert off.cycles == kept.cycles

    @pytest.mark.parametrize(
        ("checkpoints", "error", "message"),
        [
            (["layer_1", "nope"], ValueError, "Model 'chain' has no layer 'nope' to keep activ"),
            ("layer_1", TypeError, "`checkpoints` must be a sequence of names of layers. Received"),
            ([1], TypeError, r"`checkpoints` must be a sequence of names .* Received: \[1\]"),
        ],
    )
    def test_others_are_errors(self, model, checkpoints, error, message):
        with pytest.raises(error, match=message):
            model.set_recomputation_options(checkpoints=checkpoints)

    def test_files_keep_them(self, model):
        model.set_recomputation_options(checkpoints=["layer_3"])
        wanted, kept = model.ipu_training_state, options_of(model)
        model.set_recomputation_options(recompute=None)
        assert model.ipu_training_state != wanted
        set_options(model, kept)
        assert model.ipu_training_state == wanted


@pytest.mark.slow
def test_auto_pipeline_chooses_checkpoints():
    cfg = configuration(auto_select_ipus=1)
    cfg.simulator.chip = dataclasses.replace(CHIPS["bow"], tile_bytes=SMALL_BYTES)
    cfg.configure_ipu_system()
    try:
        with IPUStrategy().scope():
            model = chain()
            decision = ipu_tf.keras.auto_pipeline(
                model, 1, batch_size=2048, gradient_accumulation_steps=1
            )
            device = ipu_tf.estimate(model, batch_size=2048).programs[0].device
    finally:
        config.reset_ipu_configuration()
    assert decision.checkpoints
    assert decision.recompute
    assert f"Activations are kept after {decision.checkpoints[0]}" in str(decision)
    assert (device.cycles, device.fits) == (decision.program.cycles, True)
    assert device.checkpoints == decision.checkpoints
