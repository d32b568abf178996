"""Models estimated, trained, pipelined and planned on targets and systems of one's own."""

import dataclasses
import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import IPUConfig, IPUOutOfMemoryError, IPUStrategy, Report, config, ops
from ipu_tf.keras import auto_pipeline
from ipu_tf.machine import CHIPS, target
from ipu_tf.ops import reference
from ipu_tf.profile.figures import program_figures as figures
from tests.grids import mostly_slow
from tests.keras.equivalence import BATCH, batches, check_weights, samples
from tests.keras.pipelined_models import sequential
from tests.keras.small_models import compile_model
from tests.sample_machines import ALONE, LARGE, PAIR

GC200 = CHIPS["gc200"]


@pytest.fixture(autouse=True)
def _no_configuration_is_left():
    yield
    config.reset_ipu_configuration()


def machine(chip, ipus=1):
    """Returns the configuration of so many IPUs of a chip or system."""
    cfg = IPUConfig()
    cfg.simulator.chip = chip
    cfg.auto_select_ipus = ipus
    return cfg


def strategy_on(chip, ipus=1):
    machine(chip, ipus).configure_ipu_system()
    return IPUStrategy()


def wide(units=1024):
    """A classifier with a product large enough for all tiles."""
    layers = [keras.layers.Dense(units, "relu"), keras.layers.Dense(10, "softmax")]
    model = keras.Sequential([keras.Input((1024,)), *layers], name="wide")
    model.compile(keras.optimizers.SGD(0.01), "sparse_categorical_crossentropy")
    return model


FASTER_EXCHANGE = {"exchange_bytes_per_cycle": 8, "paired_exchange_bytes_per_cycle": 16}
WIDER_AMP = {
    "amp_columns": 32,
    "macs_per_cycle_f32": 32,
    "macs_per_cycle_f16": 128,
    "store_bytes_per_cycle": 16,
}


class TestEstimates:
    @staticmethod
    @functools.cache
    def estimated(chip, units=1024):
        (program,) = ipu_tf.estimate(
            lambda: wide(units), batch_size=64, config=machine(chip)
        ).programs
        return program

    @pytest.mark.slow
    def test_twice_the_tiles_are_used(self):
        real, large = self.estimated("gc200"), self.estimated(LARGE)
        assert real.device.target == GC200
        assert large.device.target == LARGE
        assert max(op.plan.tiles for op in real.tile_ops) <= GC200.tiles
        assert max(op.plan.tiles for op in large.tile_ops) > 1.5 * GC200.tiles
        assert large.device.cycles < real.device.cycles
        assert len(figures.tile_bytes(large.device.memory)) == 2 * GC200.tiles

    def test_twice_the_memory_holds_what_did_not_fit(self):
        roomy = dataclasses.replace(GC200, tile_bytes=2 * GC200.tile_bytes)
        real, large = (self.estimated(chip, 100_000).device.memory for chip in (GC200, roomy))
        assert (real.limit_bytes, large.limit_bytes) == (624 * 1024, 2 * 624 * 1024)
        assert not figures.fits(real)
        assert figures.fits(large)

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize(
        ("change", "kind"),
        [(FASTER_EXCHANGE, "exchange"), (WIDER_AMP, "compute")],
    )
    def test_what_is_made_faster_takes_less_time(self, change, kind):
        real = figures.cycle_shares(self.estimated(GC200).device)
        faster = figures.cycle_shares(self.estimated(dataclasses.replace(GC200, **change)).device)
        assert getattr(faster, kind) < 0.9 * getattr(real, kind)
        assert faster.total < real.total

    @pytest.mark.slow
    def test_a_faster_way_to_the_host(self):
        timing = dataclasses.replace(
            PAIR.host,
            ipu_bytes_per_second=10 * PAIR.host.ipu_bytes_per_second,
            group_bytes_per_second=10 * PAIR.host.group_bytes_per_second,
            gateway_ipu_bytes_per_second=10 * PAIR.host.gateway_ipu_bytes_per_second,
            latency_seconds=PAIR.host.latency_seconds / 10,
        )
        slow, fast = (
            figures.cycle_shares(self.estimated(system).device)
            for system in (PAIR, dataclasses.replace(PAIR, host=timing))
        )
        assert fast.host == pytest.approx(slow.host / 10, rel=0.01)
        assert fast.compute == slow.compute

    def test_a_report_keeps_its_target(self, tmp_path):
        report = ipu_tf.estimate(wide, batch_size=8, config=machine(PAIR))
        report.to_json(tmp_path / "report.json")
        read = Report.from_json(tmp_path / "report.json")
        assert read.programs[0].device.target == ALONE
        assert read.summary() == report.summary()
        assert "one own IPU, 37 tiles at 1.33 GHz" in read.summary()


class TestTraining:
    @pytest.mark.slow
    def test_a_fit_equals_stock_keras_and_is_reported(self):
        data = np.random.default_rng(3).normal(size=(128, 1024)).astype("float32")
        dataset = batches((data, np.arange(128) % 10), 64)
        strategy = strategy_on(LARGE)
        models = []
        for scope in (strategy.scope(), tf.distribute.get_strategy().scope()):
            keras.utils.set_random_seed(7)
            with scope:
                models.append(wide())
                models[-1].fit(dataset, epochs=2, shuffle=False, verbose=0)
        check_weights(*models)
        (program,) = strategy.report().programs
        assert program.device.target == LARGE
        assert max(op.plan.tiles for op in program.tile_ops) > 1.5 * GC200.tiles
        assert program.device.cycles == TestEstimates().estimated(LARGE).device.cycles

    def test_targets_of_one_name_do_not_share_programs(self):
        found = []
        for tiles in (24, 25):
            strategy = strategy_on(target(GC200, tiles))
            strategy.run(tf.function(tf.matmul), args=(tf.ones([64, 64]), tf.ones([64, 64])))
            (program,) = strategy.report().programs
            found.append(program.device.target.tiles)
        assert found == [24, 25]

    def test_too_little_memory(self):
        strategy = strategy_on(dataclasses.replace(ALONE, chip="gc2", tile_bytes=64 * 1024))
        data = batches((np.zeros((64, 1024), "float32"), np.zeros(64, "int32")), 64)
        with strategy.scope():
            model = wide(4096)
            with pytest.raises(IPUOutOfMemoryError, match="does not fit on a gc2 IPU"):
                model.fit(data, verbose=0)


@pytest.mark.parametrize("tiles", [7, 37, 1471, 2 * 1472 + 1])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32])
class TestNumbersOfAnyNumberOfTiles:
    """The tile ops compute what the plan for so many tiles says, to the bit in float16."""

    def check(self, face, reference_face, *arguments, **options):
        plan = ops.plan_of(face, *arguments, **options)
        ours = face(*arguments, **options)
        wanted = reference_face(*(each.numpy() for each in arguments), plan=plan, **options)
        rtol, atol = (0, 0) if ours.dtype == tf.float16 else (1e-5, 1e-5)
        np.testing.assert_allclose(ours, wanted, rtol=rtol, atol=atol)
        return plan

    def operand(self, *shape, dtype):
        return tf.cast(tf.random.stateless_normal(shape, seed=[len(shape), 5]), dtype)

    def configure(self, tiles):
        chip = dataclasses.replace(GC200, tiles=tiles)
        machine(chip).configure_ipu_system()

    @pytest.mark.fast_cells(2)
    def test_matmul(self, tiles, dtype):
        self.configure(tiles)
        a, b = self.operand(150, 190, dtype=dtype), self.operand(190, 170, dtype=dtype)
        plan = self.check(ops.matmul, reference.matmul, a, b)
        assert tiles // 2 < plan.tiles <= tiles

    @pytest.mark.fast_cells(2)
    def test_conv2d(self, tiles, dtype):
        self.configure(tiles)
        x, w = self.operand(2, 13, 11, 19, dtype=dtype), self.operand(3, 3, 19, 23, dtype=dtype)
        plan = self.check(ops.conv2d, reference.conv2d, x, w, strides=(1, 1), padding="SAME")
        assert plan.tiles <= tiles


class TestSystems:
    def fitted(self, system, model_of, **fit):
        """Returns the only program of a fit on both IPUs of a system."""
        strategy = strategy_on(system, 2)
        keras.utils.set_random_seed(7)
        with strategy.scope():
            model = compile_model(model_of(), steps_per_execution=4)
        if model.get_pipeline_stage_assignment():
            model.set_pipelining_options(4)
        model.fit(batches(samples(BATCH * 8), BATCH), shuffle=False, verbose=0)
        (program,) = strategy.report().programs
        return program.device

    def slower(self):
        links = dataclasses.replace(PAIR.links, board_hop_seconds=1e-4)
        return dataclasses.replace(PAIR, name="slow pair", links=links)

    @pytest.mark.parametrize("stages", mostly_slow([1, 2], fast=["2"]))
    @pytest.mark.slow
    def test_links_count_for_pipelines_and_replicas(self, stages):
        fast, slow = (
            self.fitted(system, lambda: sequential(stages)) for system in (PAIR, self.slower())
        )
        assert (fast.target, fast.system, slow.system) == (ALONE, "own pair", "slow pair")
        assert fast.replicas * fast.replica_ipus == 2
        assert slow.cycles > fast.cycles + ALONE.clock_hz * 1e-4

    @pytest.mark.slow
    def test_a_pipeline_is_chosen_for_it(self):
        strategy = strategy_on(PAIR, 2)
        with strategy.scope():
            model = compile_model(sequential())
        decision = auto_pipeline(model, 2, batch_size=4, gradient_accumulation_steps=8)
        assert (decision.program.target, decision.program.system) == (ALONE, "own pair")
        with pytest.raises(ValueError, match="No system has 4 own IPUs"):
            auto_pipeline(model, 4, batch_size=4, gradient_accumulation_steps=8)
