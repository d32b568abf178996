"""Transfers from and to the host and streaming memory, beside the work of the tiles."""

import dataclasses

import pytest

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.pipeline.deployment import Offload
from ipu_tf.machine import SYSTEMS, host, io_tiles, target
from ipu_tf.tile_program.moves import Moves, waits
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import OPTIONS, compiled

TILES = 16
OVERLAPPED = dataclasses.replace(OPTIONS, io_tiles=TILES)
STATE = Offload(optimizer_state=True)
EVERYTHING = Offload(
    optimizer_state=True, accumulators=True, activations=True, shard_weights=True, weights=True
)


def slow_host(options, factor):
    """The options with a host and a streaming memory that are `factor` times slower."""
    system = options.system_of(4)
    host = dataclasses.replace(
        system.host, ipu_bytes_per_second=system.host.ipu_bytes_per_second / factor
    )
    streaming = dataclasses.replace(
        system.streaming,
        ipu_bytes_per_second=system.streaming.ipu_bytes_per_second / factor,
    )
    return dataclasses.replace(
        options, system=dataclasses.replace(system, host=host, streaming=streaming)
    )


def on_one_ipu(options):
    return compile_program(modules.text("cifar10"), options)


def host_cycles(replicas):
    """Cycles in which the tiles of one of so many replicas wait for the host."""
    (stage,) = compiled(replicas=replicas).stages
    return sum(s.host_cycles for step in stage.program.steps for s in step.supersteps)


def ahead(program):
    """Cycles of the host's connection to the gateway beside the steps of a program."""
    return sum(step.ahead_cycles for step in program.stages[0].program.steps)


def own_cycles(program):
    """Cycles of the steps of a program with one stage, without transfers beside them."""
    return sum(step.cycles for step in program.stages[0].program.steps)


def transfers(program):
    return sum(step.overlapped_cycles for step in program.stages[0].program.steps)


class TestTheHost:
    def test_without_io_tiles_the_tiles_wait(self):
        program = on_one_ipu(OPTIONS)
        assert transfers(program) == 0
        host = [s.host_cycles for step in program.steps for s in step.supersteps if s.host_cycles]
        assert len(host) == 2  # The inputs and the results.
        assert program.cycles == own_cycles(program)

    def test_replicas_of_a_machine_share_its_connection(self):
        one, *others = (ahead(compiled(replicas=replicas)) for replicas in (1, 2, 4, 16))
        assert others == pytest.approx([2 * one, 4 * one, 4 * one], rel=1e-3)
        # Each has a way of its own to the gateway.
        assert len({host_cycles(replicas) for replicas in (1, 2, 4, 16)}) == 1

    def test_tiles_wait_for_a_connection_that_is_slower_than_their_work(self):
        fast, slow = on_one_ipu(OPTIONS), on_one_ipu(slow_host(OPTIONS, 1000))
        assert fast.stages[0].waiting == Moves()
        assert own_cycles(slow) == own_cycles(fast)
        (stage,) = slow.stages
        assert (
            stage.micro_batch_cycles == ahead(slow) == pytest.approx(1000 * ahead(fast), rel=0.01)
        )

    def test_without_a_gateway_tiles_wait_for_the_whole_transfer(self):
        c600 = dataclasses.replace(OPTIONS, target=target("c600"), system=SYSTEMS["c600"])
        size = 1_000_000
        assert host.feed_cycles(c600.system, size) == (host.transfer_cycles(c600.system, size), 0)
        assert ahead(on_one_ipu(c600)) == 0

    def test_with_io_tiles_a_step_hides_its_transfers(self):
        kept, beside = on_one_ipu(OPTIONS), on_one_ipu(OVERLAPPED)
        latency = 2 * host.transfer_cycles(OPTIONS.system_of(1), 0)
        assert transfers(beside) == pytest.approx(latency + ahead(kept), abs=2)
        assert transfers(beside) < own_cycles(beside)
        assert beside.cycles == own_cycles(beside)
        assert not any(s.host_cycles for step in beside.steps for s in step.supersteps)

    def test_a_step_takes_the_longer_of_the_two(self):
        program = on_one_ipu(slow_host(OVERLAPPED, 1000))
        (stage,) = program.stages
        assert transfers(program) > own_cycles(program)
        assert stage.micro_batch_cycles == transfers(program)
        assert stage.waiting.forward == transfers(program) - (
            own_cycles(program) - stage.update_cycles
        )

    def test_the_data_moves_between_both_groups_of_tiles(self):
        inputs = on_one_ipu(OVERLAPPED).steps[0]
        (superstep,) = inputs.supersteps
        moved = superstep.exchange_bytes
        words = -(-moved // (4 * TILES))
        assert superstep.exchange_cycles == words + OPTIONS.target.exchange_fixed_cycles
        assert superstep.exchange_cycles == io_tiles.exchange_cycles(moved, TILES, OPTIONS.target)

    def test_two_buffers_that_do_not_fit_do_not_overlap(self):
        cramped = dataclasses.replace(OVERLAPPED, io_tiles=1, io_tile_share=0.001)
        program = on_one_ipu(cramped)
        assert program.cycles == on_one_ipu(OPTIONS).cycles
        (note,) = program.notes
        assert note.startswith("The 1 I/O tiles do not hold two buffers of the ")
        assert note.endswith("Set more I/O tiles, or use smaller batches.")

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"io_tiles": -1}, r"io_tiles must not be negative\. Received: -1\."),
            ({"io_tile_share": 1.5}, r"io_tile_share must be in \[0, 1\]\. Received: 1\.5\."),
        ],
    )
    def test_other_values_are_errors(self, change, message):
        with pytest.raises(ValueError, match=message):
            CompilerOptions(target=target("bow"), **change)


class TestPipelines:
    def test_every_stage_hides_its_transfers(self):
        kept = compiled(5, micro_batches=4)
        beside = compiled(5, micro_batches=4, options=OVERLAPPED)
        for before, after in zip(kept.stages, beside.stages, strict=True):
            assert after.forward_cycles < before.forward_cycles
            assert after.overlapped.forward > 0
            assert after.waiting == Moves()
        assert beside.cycles < kept.cycles

    def test_recomputation_fetches_nothing_again(self):
        beside = compiled(5, micro_batches=4, options=OVERLAPPED)
        again = compiled(5, micro_batches=4, options=OVERLAPPED, recompute=True)
        assert [s.overlapped for s in again.stages] == [s.overlapped for s in beside.stages]

    def test_a_micro_batch_takes_the_longer_of_the_two(self):
        program = compiled(5, micro_batches=4, options=slow_host(OVERLAPPED, 10_000))
        for stage in program.stages:
            moved = stage.overlapped.forward + stage.overlapped.backward
            assert stage.micro_batch_cycles == moved


class TestStreamingMemory:
    def test_the_update_hides_the_state_of_the_optimizer(self):
        waits_for_it = compiled(5, micro_batches=4, offload=STATE)
        beside = compiled(5, micro_batches=4, offload=STATE, options=OVERLAPPED)
        for before, after in zip(waits_for_it.stages, beside.stages, strict=True):
            assert after.overlapped.update == before.streamed.update
            assert after.streamed.update < before.streamed.update  # To and from the I/O tiles.
            own = sum(s.cycles for s in after.program.steps if s.phase == "update")
            busy = own + after.streamed.update
            assert after.update_cycles == max(busy, after.overlapped.update)
            assert after.waiting.update == after.update_cycles - busy
        assert beside.update_cycles < waits_for_it.update_cycles

    @pytest.mark.parametrize("factor", [1, 100])
    def test_host_and_streaming_memory_share_the_way(self, factor):
        options = slow_host(OVERLAPPED, factor)
        program = compiled(5, micro_batches=4, replicas=2, offload=EVERYTHING, options=options)
        for stage in program.stages:
            steps = [step for step in stage.program.steps if step.phase != "update"]
            moves = [stage.streamed, stage.gathered]
            busy = sum(step.cycles for step in steps)
            busy += sum(move.forward + move.backward for move in moves)
            beside = stage.overlapped.forward + stage.overlapped.backward
            assert beside > sum(step.overlapped_cycles for step in steps)
            assert stage.micro_batch_cycles == max(busy, beside)


def test_the_wait_counts_for_the_pass_that_fetches_more():
    busy = Moves(forward=10, backward=20, update=5)
    assert waits(busy, Moves(forward=30)) == Moves()
    assert waits(busy, Moves(forward=35, update=9)) == Moves(forward=5, update=4)
    assert waits(busy, Moves(forward=15, backward=25)) == Moves(backward=10)
