"""Tensors that are not whole on the tiles all the time: less memory, more cycles."""

import dataclasses
import itertools

import numpy as np
import pytest

from ipu_tf.compiler.compile import check_memory, compile_program
from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.pipeline.deployment import Deployment, Offload
from ipu_tf.compiler.pipeline.off_chip import LEAST_BYTES
from ipu_tf.compiler.pipeline.residence import Residence, Share, variables, with_shares
from ipu_tf.compiler.pipeline.timeline import Wiring
from ipu_tf.machine import streaming
from ipu_tf.machine.system import system_of
from ipu_tf.machine.target import target
from ipu_tf.tile_program.errors import IPUOutOfMemoryError
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import OPTIONS, compiled


def always(program, category):
    """Bytes that a category always takes, on all tiles of each IPU."""
    return [int(ipu.memory.always_live[category].sum()) for ipu in program.ipus]


def peaks(program):
    return [int(ipu.memory.peak_tile_bytes.max()) for ipu in program.ipus]


def parameters(role, least=128):
    module = modules.text("cifar10")
    by_number = {
        i.attributes["parameter_number"]: i.type.bytes
        for i in module.entry_computation
        if i.opcode == "parameter"
    }
    sizes = [by_number[n] for n, p in enumerate(module.parameters) if p.role == role]
    return [size for size in sizes if size >= least]


def wiring(program):
    """The IPUs that a program is compiled for."""
    system = dataclasses.replace(
        system_of("bow", program.replicas * program.replica_ipus), target=program.target
    )
    return Wiring(
        system=system,
        ipus=tuple(stage.ipu for stage in program.stages),
        replica_ipus=program.replica_ipus,
        replicas=program.replicas,
    )


def pairs(stage):
    """Whether steps belong to the update, in pairs of neighbours."""
    return itertools.pairwise(step.phase == "update" for step in stage.program.steps)


def streamed_both_ways(program, sizes):
    return sum(2 * wiring(program).streaming_cycles(size) for size in sizes)


class TestOptimizerState:
    def test_it_leaves_the_tiles_and_is_loaded_and_stored_by_the_update(self):
        kept = compiled(5, micro_batches=4)
        gone = compiled(5, micro_batches=4, offload=Offload(optimizer_state=True))
        sizes = parameters("optimizer_state")
        assert sum(stage.streaming_bytes for stage in gone.stages) == sum(sizes)
        assert gone.streaming_bytes == sum(sizes)
        assert sum(always(gone, "optimizer_state")) < sum(always(kept, "optimizer_state")) / 10
        for before, after in zip(kept.stages, gone.stages, strict=True):
            assert after.forward_cycles == before.forward_cycles
            assert after.backward_cycles == before.backward_cycles
            assert after.update_cycles == before.update_cycles + after.streamed.update
        total = sum(stage.streamed.update for stage in gone.stages)
        assert total == streamed_both_ways(gone, sizes)
        assert max(peaks(gone)) < max(peaks(kept))

    def test_it_is_on_the_tiles_for_the_update_of_its_variable_alone(self):
        gone = compiled(micro_batches=4, offload=Offload(optimizer_state=True))
        (stage,) = gone.stages
        (begin,) = {n for n, (a, b) in enumerate(pairs(stage)) if (a, b) == (False, True)}
        state = [t for t in stage.program.tensors if t.category == "optimizer_state"]
        lives = sorted((t.first_step, t.last_step) for t in state if t.bytes >= LEAST_BYTES)
        assert lives[0][0] > begin
        assert all(last < first for (_, last), (first, _) in itertools.pairwise(lives))

    def test_replicas_share_it_out(self):
        whole = compiled(5, replicas=4, offload=Offload(optimizer_state=True))
        share = Offload(optimizer_state=True, shard_optimizer_state=True)
        shared = compiled(5, replicas=4, offload=share)
        assert shared.streaming_bytes == pytest.approx(whole.streaming_bytes / 4, rel=0.01)
        assert shared.update_cycles < whole.update_cycles
        # Two halves of an all-reduce, each with its own synchronisation.
        assert shared.all_reduce_cycles == pytest.approx(whole.all_reduce_cycles, rel=0.05)
        assert shared.all_reduce_cycles > whole.all_reduce_cycles

    @pytest.mark.slow
    def test_replicas_share_it_out_on_the_tiles(self):
        kept, share, away = (
            compiled(5, micro_batches=4, replicas=4, offload=offload)
            for offload in (
                Offload(),
                Offload(shard_optimizer_state=True),
                Offload(optimizer_state=True, shard_optimizer_state=True),
            )
        )
        assert share.streaming_bytes == 0
        sizes = [sum(always(program, "optimizer_state")) for program in (kept, share)]
        assert sizes[1] == pytest.approx(sizes[0] / 4, rel=0.05)
        assert share.all_reduce_cycles == away.all_reduce_cycles
        streamed = [stage.streamed.update for stage in away.stages]
        assert all(streamed)
        assert [stage.update_cycles for stage in share.stages] == [
            stage.update_cycles - cycles
            for stage, cycles in zip(away.stages, streamed, strict=True)
        ]

    def test_state_of_an_update_that_is_computed_whole_is_whole_on_the_tiles(self):
        module = parse(
            """
            parameter 0 input "x"
            parameter 1 weight "w" layer="a" updated_by=0
            parameter 2 optimizer_state "m" layer="a" updated_by=1
            ENTRY main {
              x = f32[64,64] parameter(0)
              w = f32[64,64] parameter(1)
              m = f32[64,64] parameter(2)
              y = f32[64,64] multiply(x, w), layer="a"
              g = f32[64,64] sine(y), layer="a", phase=backward
              turned = f32[64,64] reverse(m), dimensions={0}, layer="a", phase=update
              new_m = f32[64,64] add(turned, g), layer="a", phase=update
              new_w = f32[64,64] subtract(w, new_m), layer="a", phase=update
              ROOT all = (f32[64,64], f32[64,64]) tuple(new_w, new_m)
            }
            """
        )
        kept, away = (
            compile_program(
                module,
                OPTIONS,
                deployment=Deployment(
                    stage_of_layers={"a": 0},
                    replicas=4,
                    offload=Offload(optimizer_state=streams, shard_optimizer_state=True),
                ),
            )
            for streams in (False, True)
        )
        assert always(kept, "optimizer_state") == [64 * 64 * 4]
        assert away.streaming_bytes == 4 * 64 * 64  # A quarter for each of four replicas.

    def test_one_replica_has_nobody_to_share_with(self):
        whole = compiled(5, offload=Offload(optimizer_state=True))
        share = Offload(optimizer_state=True, shard_optimizer_state=True)
        alone = compiled(5, offload=share)
        assert alone.cycles == whole.cycles
        assert peaks(alone) == peaks(whole)


class TestAccumulators:
    def test_every_micro_batch_loads_and_stores_them(self):
        kept = compiled(5, micro_batches=4)
        gone = compiled(5, micro_batches=4, offload=Offload(accumulators=True))
        sizes = parameters("weight")  # One for each weight, as large as it.
        backward = sum(stage.streamed.backward for stage in gone.stages)
        assert backward == streamed_both_ways(gone, sizes)
        assert sum(stage.streamed.update for stage in gone.stages) == backward // 2
        assert all(stage.streamed.forward == 0 for stage in gone.stages)
        assert gone.streaming_bytes == sum(sizes)
        assert max(peaks(gone)) < max(peaks(kept))
        assert gone.cycles > kept.cycles

    def test_one_micro_batch_has_none(self):
        gone = compiled(5, offload=Offload(accumulators=True))
        assert gone.streaming_bytes == 0
        assert gone.cycles == compiled(5).cycles


class TestActivations:
    def test_what_waits_is_in_streaming_memory(self):
        kept = compiled(5, micro_batches=8)
        gone = compiled(5, micro_batches=8, offload=Offload(activations=True))
        first, before = gone.stages[0], kept.stages[0]
        assert first.fifo_bytes == before.fifo_bytes
        assert first.streaming_bytes == pytest.approx(before.fifo_bytes, rel=1e-3)
        assert always(gone, "fifos")[0] < always(kept, "fifos")[0] / 100
        assert first.streamed.forward > 0
        assert first.streamed.backward > 0
        assert first.streamed.update == 0
        assert first.forward_cycles == before.forward_cycles + first.streamed.forward
        assert first.backward_cycles == before.backward_cycles + first.streamed.backward

    @pytest.mark.slow
    def test_nothing_waits_for_a_sequential_pipeline(self):
        sequential = {"micro_batches": 8, "schedule": "sequential"}
        gone = compiled(5, **sequential, offload=Offload(activations=True))
        assert gone.cycles == compiled(5, **sequential).cycles

    def test_recomputation_streams_the_inputs_of_stages_alone(self):
        offload = Offload(activations=True)
        kept = compiled(2, 5, micro_batches=8, offload=offload)
        again = compiled(2, 5, micro_batches=8, offload=offload, recompute=True)
        for all_of_them, inputs in zip(kept.stages[:-1], again.stages[:-1], strict=True):
            assert inputs.streaming_bytes < all_of_them.streaming_bytes
            assert inputs.streamed.forward < all_of_them.streamed.forward


class TestWeights:
    SHARED = Offload(shard_weights=True)
    AWAY = Offload(shard_weights=True, weights=True)

    def test_each_replica_has_a_share_and_passes_gather_the_rest(self):
        kept, shared = compiled(5, replicas=4), compiled(5, replicas=4, offload=self.SHARED)
        weights = sum(parameters("weight"))
        assert sum(always(shared, "weights")) == pytest.approx(weights / 4, rel=0.05)
        assert max(peaks(shared)) < max(peaks(kept))
        # Gradients are scattered; no weights are gathered after the update.
        way = wiring(shared)
        assert shared.all_reduce_cycles < kept.all_reduce_cycles
        gathered = sum(stage.gathered.forward for stage in shared.stages)
        sizes = parameters("weight")
        assert gathered == sum(way.all_gather_cycles(size) for size in sizes)
        assert all(stage.gathered.update == 0 for stage in shared.stages)
        assert all(stage.streamed == type(stage.streamed)() for stage in shared.stages)

    def test_a_backward_pass_that_begins_with_a_forward_pass_gathers_twice(self):
        once = compiled(5, replicas=4, offload=self.SHARED)
        twice = compiled(5, replicas=4, offload=self.SHARED, recompute=True)
        first, again = once.stages[0].gathered, twice.stages[0].gathered
        assert again.forward == first.forward
        assert again.backward == first.backward + first.forward
        assert twice.stages[1].gathered == once.stages[1].gathered

    def test_shares_in_streaming_memory_are_loaded_by_every_pass(self):
        shared = compiled(5, replicas=4, offload=self.SHARED)
        away = compiled(5, replicas=4, offload=self.AWAY)
        assert sum(always(away, "weights")) < sum(always(shared, "weights")) / 10
        assert away.streaming_bytes == pytest.approx(sum(parameters("weight")), rel=0.01)
        for stage in away.stages:
            assert stage.streamed.forward > 0
            assert stage.streamed.backward > 0
            assert stage.streamed.update > 0
        assert away.cycles > shared.cycles


class TestWholePrograms:
    def test_what_is_off_the_tiles_is_there_around_its_uses(self):
        program = compiled(5, offload=Offload(optimizer_state=True)).stages[0].program
        states = [tensor for tensor in program.tensors if tensor.category == "optimizer_state"]
        large = [tensor for tensor in states if tensor.bytes >= 128]
        assert large
        for tensor in large:
            assert not tensor.always_live
            assert program.steps[tensor.first_step].phase == "update"
            assert program.steps[tensor.last_step].phase == "update"

    def test_nothing_moved_is_the_same_program(self):
        program = compiled(5).stages[0].program
        assert with_shares(program, {}) is program

    def test_moving_a_variable_whole_and_always_changes_no_byte(self):
        module = modules.text("cifar10")
        program = compile_program(module, OPTIONS).stages[0].program
        shares = {
            variable.parameter.name: Share(variable=variable, place=Residence())
            for variable in variables(module, program)
            if variable.parameter.role == "weight"
        }
        same = with_shares(program, shares)
        assert np.array_equal(same.memory.max_tile_bytes, program.memory.max_tile_bytes)
        assert np.array_equal(same.memory.live_bytes, program.memory.live_bytes)

    @pytest.mark.slow
    def test_everything_together_takes_least(self):
        everything = Offload(
            optimizer_state=True,
            shard_optimizer_state=True,
            accumulators=True,
            activations=True,
            shard_weights=True,
            weights=True,
        )
        settings = {"micro_batches": 8, "replicas": 2}
        least = compiled(2, 5, **settings, offload=everything)
        for one in (
            Offload(),
            Offload(optimizer_state=True),
            Offload(activations=True),
            Offload(accumulators=True),
        ):
            other = compiled(2, 5, **settings, offload=one)
            assert max(peaks(least)) < max(peaks(other))
            assert least.cycles > other.cycles

    def test_stages_on_one_ipu_add_up_in_streaming_memory(self):
        program = compiled(
            2, 4, 6, ipu_of_stages=(0, 1, 0, 1), offload=Offload(optimizer_state=True)
        )
        for ipu in program.ipus:
            parts = [program.stages[stage].streaming_bytes for stage in ipu.stages]
            assert ipu.streaming_bytes == sum(parts) > 0


class TestErrors:
    @pytest.mark.parametrize(
        ("flags", "message"),
        [
            ({"weights": True}, "needs Offload.shard_weights: set both"),
        ],
    )
    def test_flags_that_need_another(self, flags, message):
        with pytest.raises(ValueError, match=message):
            Offload(**flags)

    def test_a_system_without_streaming_memory(self):
        options = dataclasses.replace(OPTIONS, target=target("gc2", 64))
        with pytest.raises(ValueError, match="has no streaming memory. Keep the tensor on tiles"):
            compiled(5, options=options, offload=Offload(optimizer_state=True))

    def test_streaming_memory_that_is_too_small(self):
        program = compiled(5, offload=Offload(optimizer_state=True))
        assert program.streaming_limit_bytes == streaming.capacity_bytes(system_of("bow", 2), 2)
        assert program.fits
        small = dataclasses.replace(program, streaming_limit_bytes=program.streaming_bytes - 1)
        assert not small.fits
        with pytest.raises(
            IPUOutOfMemoryError, match="offloaded tensors exceed the streaming memory.*Received"
        ):
            check_memory(small, "raise")
