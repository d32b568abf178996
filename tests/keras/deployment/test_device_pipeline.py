"""Options that place things, or run them in another order, change the device program so."""

import dataclasses

import keras
import pytest

import ipu_tf
from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.keras import Sequential
from ipu_tf.keras.deployment import device_pipeline
from ipu_tf.keras.deployment.device_pipeline import offload_of
from ipu_tf.keras.pipeline.pipelining_options import PipeliningOptions
from ipu_tf.ops.pipelining_ops import NEEDED_OPTIONS, PipelineSchedule, RecomputationMode
from ipu_tf.processes.instances import Instances
from tests.grids import covering, mostly_slow
from tests.keras.small_models import CLASSES, FEATURES

BATCH = 16
UNITS = 256


@pytest.fixture
def strategy():
    configured()
    yield IPUStrategy()
    config.reset_ipu_configuration()


def configured(**options):
    cfg = IPUConfig()
    cfg.auto_select_ipus = 4
    for name, value in options.items():
        if isinstance(value, dict):
            for option, choice in value.items():
                setattr(getattr(cfg, name), option, choice)
        else:
            setattr(cfg, name, value)
    cfg.configure_ipu_system()


def wide_model(stages):
    """Layers that are large enough to leave the tiles; a stage a layer, the last has the rest."""
    sizes = [UNITS, UNITS, UNITS, CLASSES]
    layers = [keras.layers.Dense(size, activation="relu") for size in sizes]
    model = keras.Sequential([keras.Input((FEATURES,)), *layers], name="wide")
    model.compile(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    )
    if stages > 1:
        model.set_pipeline_stage_assignment([min(n, stages - 1) for n in range(len(layers))])
    return model


def pipelined(strategy, stages=2, micro_batches=8, training=True, **options):
    """The estimate of a model with these options of its pipeline."""
    with strategy.scope():
        model = wide_model(stages)
        model.steps_per_execution = micro_batches
        model.set_pipelining_options(micro_batches, **options)
        report = ipu_tf.estimate(model, batch_size=BATCH, training=training)
    (program,) = report.programs
    return program.device


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("stages", "count", "replicas"), [(2, 2, 4), (1, 4, 16), (1, 3, 4)])
def test_the_replicas_of_all_instances_sum_their_gradients(
    strategy, stages, count, replicas, monkeypatch
):
    with strategy.scope():
        model = wide_model(stages)
    job = Instances(count=count, total_replicas=count)
    monkeypatch.setattr(device_pipeline, "instances", lambda: job)
    device = ipu_tf.estimate(model, batch_size=BATCH).programs[0].device
    assert (device.replicas, device.all_reduce_cycles > 0) == (replicas, True)


def accumulating(strategy, micro_batches=4, **options):
    """The estimate of a model without stages with these options of its accumulation."""
    with strategy.scope():
        model = wide_model(1)
        model.set_gradient_accumulation_options(micro_batches, **options)
        report = ipu_tf.estimate(model, batch_size=BATCH)
    (program,) = report.programs
    return program.device


FULL_TILES = {pipelined: 3, accumulating: 3}
"""Tiles of an IPU that hold the model only without the state of its optimizer."""

KEPT = ("weights", "optimizer_state", "accumulators", "fifos")


def kept_bytes(program):
    """Bytes that variables and FIFOs always take, on all tiles of a replica."""
    memories = [ipu.memory.always_live for ipu in program.ipus]
    return sum(int(memory[category].sum()) for memory in memories for category in KEPT)


def fifos(program):
    return [stage.fifo_bytes for stage in program.stages]


IN_THE_LOOP = {
    "steps_per_replica",
    "accumulate_outfeed",
    "gradient_accumulation_for_captured_grads",
    "experimental_normalize_gradients",
}
"""Options that are numbers or flags and place nothing."""


def placement(model, **options):
    model.set_pipelining_options(4, **options)
    offload = offload_of(model.ipu_training_state.pipelining)
    return (
        offload.optimizer_state,
        offload.accumulators,
        offload.activations,
        offload.weights,
        offload.weight_parts(8),
        offload.update_parts(8),
    )


def test_every_option_of_a_place_acts_alone_or_names_the_one_that_it_needs(caplog):
    model = Sequential([keras.layers.Dense(2)], name="net")
    kept = placement(model)
    flags = {"bool": True, "int": 2}
    fields = {
        field.name: flags.get(field.type.removesuffix(" | None"))
        for field in dataclasses.fields(PipeliningOptions)
    }
    alone = {name: value for name, value in fields.items() if value and name not in IN_THE_LOOP}
    assert set(NEEDED_OPTIONS) < set(alone)
    for name, value in alone.items():
        caplog.clear()
        try:
            acts = placement(model, **{name: value}) != kept
        except (ValueError, NotImplementedError):
            continue  # It is refused alone.
        assert acts != (name in NEEDED_OPTIONS), name
        needed = NEEDED_OPTIONS.get(name)
        assert caplog.messages == [
            f"Pipeline of model 'net': `{name}={value}` does nothing without `{needed}=True`: set "
            "both, or neither."
        ] * (not acts)
    caplog.clear()
    placement(model, replicated_weight_sharding=True, offload_weights=True, weight_replicas=2)
    assert not caplog.messages


class TestOffloading:
    @pytest.mark.parametrize(
        ("flags", "phase"),
        [
            ({"offload_weight_update_variables": True}, "update"),
            ({"offload_gradient_accumulation_buffers": True}, "backward"),
            ({"offload_activations": True}, "forward"),
            ({"replicated_weight_sharding": True, "offload_weights": True}, "forward"),
        ],
    )
    @pytest.mark.slow
    def test_a_flag_trades_tile_memory_for_cycles(self, strategy, flags, phase):
        kept, gone = pipelined(strategy), pipelined(strategy, **flags)
        assert gone.streaming_bytes > kept.streaming_bytes == 0
        assert gone.cycles > kept.cycles
        assert kept_bytes(gone) < kept_bytes(kept)
        assert all(getattr(stage.streamed, phase) > 0 for stage in gone.stages[:1])

    @pytest.mark.slow
    def test_false_and_none_leave_all_on_the_tiles(self, strategy):
        kept = pipelined(strategy)
        for value in (False, None):
            same = pipelined(strategy, offload_activations=value, offload_weights=value)
            assert same.cycles == kept.cycles
            assert same.streaming_bytes == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("estimated", [pipelined, accumulating])
    def test_the_state_leaves_full_tiles_unless_it_may_not(self, estimated):
        configured(ipu_model={"tiles_per_ipu": FULL_TILES[estimated]})
        free, kept, always = (
            estimated(IPUStrategy(), offload_weight_update_variables=value)
            for value in (None, False, True)
        )
        assert [program.ipus[-1].memory.fits for program in (free, kept, always)] == [1, 0, 1]
        assert free.streaming_bytes == always.streaming_bytes > kept.streaming_bytes == 0
        assert free.cycles == always.cycles > kept.cycles
        (note,) = free.notes
        assert note == (
            "The state of the optimizer is in streaming memory, because the tiles of IPU "
            f"{len(free.ipus) - 1} do not hold it. offload_weight_update_variables=False keeps it "
            "on the tiles, True always moves it."
        )
        assert kept.notes == always.notes == ()

    @pytest.mark.slow
    def test_the_state_stays_where_there_is_no_streaming_memory(self):
        configured(
            ipu_model={"tiles_per_ipu": 2 * FULL_TILES[pipelined]}, simulator={"chip": "gc2"}
        )
        free = pipelined(IPUStrategy())
        assert not free.ipus[-1].memory.fits
        assert free.streaming_bytes == 0

    @pytest.mark.slow
    def test_sharing_the_state_takes_streaming_memory_and_cycles_away(self, strategy):
        whole = pipelined(strategy, offload_weight_update_variables=True)
        shared = pipelined(
            strategy,
            offload_weight_update_variables=True,
            replicated_optimizer_state_sharding=True,
        )
        assert shared.replicas == 2
        assert shared.streaming_bytes < 0.6 * whole.streaming_bytes
        assert shared.update_cycles < whole.update_cycles

    @pytest.mark.slow
    def test_weights_are_offloaded_where_they_are_shared_out(self, strategy):
        kept = pipelined(strategy)
        alone = pipelined(strategy, offload_weights=True)
        shared = pipelined(strategy, replicated_weight_sharding=True)
        assert alone.cycles == kept.cycles
        assert alone.streaming_bytes == shared.streaming_bytes == 0
        assert shared.cycles > kept.cycles
        assert shared.stages[0].gathered.forward > 0

    @pytest.mark.slow
    def test_a_model_without_stages_offloads_the_state_of_its_optimizer(self, strategy):
        kept = accumulating(strategy)
        gone = accumulating(strategy, offload_weight_update_variables=True)
        shared = accumulating(
            strategy,
            offload_weight_update_variables=True,
            replicated_optimizer_state_sharding=True,
        )
        on_tiles = accumulating(strategy, replicated_optimizer_state_sharding=True)
        assert kept.streaming_bytes == on_tiles.streaming_bytes == 0
        assert kept_bytes(on_tiles) < kept_bytes(kept)
        assert on_tiles.update_cycles < shared.update_cycles
        assert kept.update_cycles < shared.update_cycles < gone.update_cycles
        assert shared.streaming_bytes < gone.streaming_bytes

    @pytest.mark.slow
    def test_one_batch_on_one_ipu_offloads_too(self, strategy):
        configured(auto_select_ipus=1)
        plain = accumulating(strategy, 1)
        assert plain.streaming_bytes == 0
        gone = accumulating(strategy, 1, offload_weight_update_variables=True)
        assert gone.streaming_bytes > 0
        assert (gone.micro_batches, gone.replicas) == (1, 1)

    def test_prediction_has_no_state_to_offload(self, strategy):
        flags = {"offload_weight_update_variables": True, "training": False}
        assert pipelined(strategy, **flags).streaming_bytes == 0


class TestRecomputation:
    MODES = (
        RecomputationMode.RecomputeThenBackpropagate,
        RecomputationMode.RecomputeAndBackpropagateInterleaved,
    )

    @pytest.mark.parametrize(*covering(1, mode=MODES, schedule=list(PipelineSchedule)))
    @pytest.mark.fast_cells(1)
    @pytest.mark.slow
    def test_every_mode_recomputes_under_every_schedule(self, strategy, schedule, mode):
        kept = pipelined(strategy, 3, 12, pipeline_schedule=schedule)
        again = pipelined(strategy, 3, 12, pipeline_schedule=schedule, recomputation_mode=mode)
        assert again.recompute
        assert again.cycles > kept.cycles
        forward = kept.stages[0].forward_cycles - host(kept)
        assert 0 < again.stages[0].recomputed_cycles <= forward
        assert again.stages[-1].recomputed_cycles == 0
        if schedule is not PipelineSchedule.Sequential:  # Where nothing waits, nothing is saved.
            assert sum(fifos(again)) < sum(fifos(kept))

    @pytest.mark.slow
    def test_the_configuration_recomputes_what_the_options_leave_open(self, strategy):
        kept = pipelined(strategy)
        by_options = pipelined(strategy, recomputation_mode=self.MODES[0])
        configured(allow_recompute=True)
        by_configuration = pipelined(strategy)
        assert not kept.recompute
        assert by_configuration.recompute
        assert by_configuration.cycles == by_options.cycles > kept.cycles

    def test_prediction_recomputes_nothing(self, strategy):
        kept = pipelined(strategy, training=False)
        again = pipelined(strategy, training=False, recomputation_mode=self.MODES[0])
        assert again.cycles == kept.cycles


def host(program):
    """Cycles in which the first stage waits for the host: a second forward pass does not."""
    steps = program.stages[0].program.steps
    return sum(step.cycles for step in steps if step.opcode in ("infeed", "outfeed"))


class TestSchedules:
    @pytest.mark.slow
    def test_grouped_keeps_most_and_sequential_nothing(self, strategy):
        grouped, interleaved, sequential = (
            pipelined(strategy, 4, 16, pipeline_schedule=schedule) for schedule in PipelineSchedule
        )
        assert sum(fifos(grouped)) > sum(fifos(interleaved)) > sum(fifos(sequential)) == 0
        assert kept_bytes(grouped) > kept_bytes(interleaved) > kept_bytes(sequential)
        assert grouped.cycles < sequential.cycles
        assert interleaved.cycles < sequential.cycles
        for program in (grouped, interleaved):
            assert program.timeline.bubble_share < sequential.timeline.bubble_share

    @pytest.mark.slow
    @pytest.mark.parametrize(
        "schedule", mostly_slow({each.name: each for each in PipelineSchedule}, fast=["Grouped"])
    )
    def test_more_micro_batches_cost_less_each(self, strategy, schedule):
        few = pipelined(strategy, 2, 4, pipeline_schedule=schedule)
        many = pipelined(strategy, 2, 32, pipeline_schedule=schedule)
        assert many.cycles / 32 < few.cycles / 4
        assert many.timeline.bubble_share <= few.timeline.bubble_share + 1e-12
        assert kept_bytes(many) == kept_bytes(few)

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("schedule", PipelineSchedule)
    def test_all_work_is_done_once_whatever_the_schedule(self, strategy, schedule):
        program = pipelined(strategy, 3, 12, pipeline_schedule=schedule)
        for stage, busy in zip(program.stages, program.timeline.busy_cycles, strict=True):
            assert busy == 12 * stage.micro_batch_cycles
        longest = max(program.stages, key=lambda stage: stage.micro_batch_cycles)
        assert program.limiting_stage is longest


class TestGroupsOfReplicas:
    @pytest.mark.slow
    def test_they_share_state_and_weights_among_fewer(self, strategy):
        sharing = {
            "offload_weight_update_variables": True,
            "replicated_optimizer_state_sharding": True,
        }
        everyone = pipelined(strategy, **sharing)
        alone = pipelined(strategy, **sharing, optimizer_state_replicas=1)
        assert everyone.replicas == 2
        assert alone.streaming_bytes == pytest.approx(2 * everyone.streaming_bytes, rel=0.01)

    def test_other_numbers_are_errors(self, strategy):
        with (
            strategy.scope(),
            pytest.raises(ValueError, match="`weight_replicas` must be a number of replicas"),
        ):
            wide_model(2).set_pipelining_options(8, weight_replicas=-1)
