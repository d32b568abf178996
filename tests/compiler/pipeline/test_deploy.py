"""Whole steps, cut: what is kept, what waits, what crosses, and who does not hold it."""

import dataclasses
import logging

import pytest

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.hlo import verify
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.pipeline.assignment import assign, layer_stage
from ipu_tf.compiler.pipeline.split import cut, prepared, stage_module, with_accumulators
from ipu_tf.machine.target import target
from ipu_tf.tile_program.errors import IPUOutOfMemoryError
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import OPTIONS, compiled, stages_at


def bytes_of(program, category):
    return sum(
        tensor.bytes
        for stage in program.stages
        for tensor in stage.program.tensors
        if tensor.category == category and tensor.always_live
    )


def device_cycles(steps):
    return sum(step.cycles for step in steps if step.opcode not in ("infeed", "outfeed"))


def test_a_layer_within_another_has_its_stage():
    assert layer_stage("model/block/dense", {"model/block": 3}) == 3
    assert layer_stage("model", {"model/block": 3}) is None


class TestSplit:
    def test_stages_have_every_instruction_once_and_are_sound(self):
        module = prepared(modules.text("cifar10"))
        assignment = assign(module, stages_at(2, 5), 3)
        found = cut(module, assignment)
        parts = [stage_module(found, stage, ()) for stage in range(3)]
        for part in parts:
            verify(part)
        names = [i.name for part in parts for i in part.entry_computation]
        for instruction in module.entry_computation:
            if instruction.name in assignment.anywhere or instruction.opcode == "parameter":
                continue
            if instruction.name != module.entry_computation.root:
                made = [n for n in names if n == instruction.name]
                crossing = [c for c in found.crossings if c.name == instruction.name]
                assert len(made) == 1 + len(crossing), instruction.name

    def test_weights_and_their_updates_are_in_the_stage_of_their_layer(self):
        module = prepared(modules.text("cifar10"))
        wanted = stages_at(2, 5)
        found = cut(module, assign(module, wanted, 3))
        for stage in range(3):
            for parameter in stage_module(found, stage, ()).parameters:
                if parameter.role == "weight":
                    assert wanted[parameter.layer] == stage
                    assert parameter.updated_by is not None

    def test_data_flows_one_way_in_each_pass(self):
        module = prepared(modules.text("cifar10"))
        crossings = cut(module, assign(module, stages_at(2, 5), 3)).crossings
        assert {c.phase for c in crossings} >= {"forward", "backward"}
        for crossing in crossings:
            if crossing.phase == "forward":
                assert crossing.source < crossing.destination
            if crossing.phase == "backward":
                assert crossing.source > crossing.destination

    def test_accumulators_stand_between_gradients_and_update(self):
        module = prepared(modules.text("cifar10"))
        changed, _ = with_accumulators(module, assign(module, stages_at(5), 2))
        verify(changed)
        by_name = changed.entry_computation.by_name()
        for instruction in changed.entry_computation:
            if instruction.phase == "update" and instruction.name != changed.entry_computation.root:
                read = [by_name[name] for name in instruction.operands]
                assert all(i.opcode == "add" for i in read if i.phase == "backward")


class TestConservation:
    def test_stages_compute_what_one_ipu_computes(self):
        whole = compile_program(modules.text("cifar10"), OPTIONS)
        parts = compiled(2, 5).stages
        flops = [sum(s.repeats * s.flops for s in part.program.steps) for part in parts]
        assert sum(flops) == sum(step.repeats * step.flops for step in whole.steps)
        cycles = sum(device_cycles(part.program.steps) for part in parts)
        assert cycles == pytest.approx(device_cycles(whole.steps), rel=0.1)

    def test_weights_are_kept_once(self):
        whole = compile_program(modules.text("cifar10"), OPTIONS)
        weights = sum(t.bytes for t in whole.tensors if t.category == "weights")
        assert bytes_of(compiled(2, 5), "weights") == weights

    def test_accumulators_are_as_large_as_the_weights(self):
        program = compiled(5, micro_batches=4)
        assert bytes_of(program, "accumulators") == bytes_of(program, "weights")
        assert bytes_of(compiled(5), "accumulators") == 0


class TestMemory:
    def test_fifos_hold_what_the_schedule_has_under_way(self):
        grouped = compiled(5, micro_batches=8)
        interleaved = compiled(5, micro_batches=8, schedule="interleaved")
        sequential = compiled(5, micro_batches=8, schedule="sequential")
        assert [stage.fifo_depth for stage in grouped.stages] == [2, 1]
        assert [stage.fifo_depth for stage in interleaved.stages] == [1, 0]
        assert [stage.fifo_depth for stage in sequential.stages] == [0, 0]
        first = grouped.stages[0]
        assert first.fifo_bytes == 2 * interleaved.stages[0].fifo_bytes > 0
        fifos = [t.bytes for t in first.program.tensors if t.category == "fifos"]
        assert sum(fifos) == first.fifo_bytes

    def test_recomputation_trades_fifos_for_cycles(self):
        kept, again = compiled(2, 5), compiled(2, 5, recompute=True)
        for before, after in zip(kept.stages[:-1], again.stages[:-1], strict=True):
            assert after.fifo_bytes < before.fifo_bytes
            assert after.recomputed_cycles > 0
            assert after.backward_cycles == before.backward_cycles + after.recomputed_cycles
        assert again.stages[-1].recomputed_cycles == 0

    def test_stages_on_one_ipu_share_its_memory(self):
        program = compiled(2, 4, 6, ipu_of_stages=(0, 1, 0, 1))
        assert [ipu.stages for ipu in program.ipus] == [(0, 2), (1, 3)]
        for ipu in program.ipus:
            parts = [program.stages[stage].program.memory for stage in ipu.stages]
            weights = sum(int(part.always_live["weights"].sum()) for part in parts)
            assert ipu.memory.always_live["weights"].sum() == weights
            stacks = parts[0].always_live["stack"]
            assert (ipu.memory.always_live["stack"] == stacks).all()
            assert ipu.memory.max_tile_bytes.max() >= max(p.max_tile_bytes.max() for p in parts)

    def test_the_ipu_that_is_too_small_is_named(self):
        small = dataclasses.replace(OPTIONS, target=target("bow", 4), out_of_memory="raise")
        with pytest.raises(IPUOutOfMemoryError, match="IPU [01]") as caught:
            compiled(5, options=small)
        assert caught.value.ipu in (0, 1)

    def test_a_warning_goes_on(self, caplog):
        small = dataclasses.replace(OPTIONS, target=target("bow", 4), out_of_memory="warn")
        with caplog.at_level(logging.WARNING):
            program = compiled(5, options=small)
        assert not program.fits
        assert "does not fit on IPU" in caplog.text


class TestFigures:
    def test_more_micro_batches_make_the_bubble_smaller(self):
        shares = [compiled(5, micro_batches=n).timeline.bubble_share for n in (2, 4, 16)]
        assert shares == sorted(shares, reverse=True)

    def test_an_update_takes_micro_batches_all_reduce_and_weights(self):
        program = compiled(5, micro_batches=4, replicas=2)
        assert program.all_reduce_cycles > 0
        parts = program.timeline.cycles, program.all_reduce_cycles, program.update_cycles
        assert program.cycles == sum(parts)
        assert compiled(5, micro_batches=4).all_reduce_cycles == 0

    def test_the_limiting_stage_has_the_longest_passes(self):
        program = compiled(1, 8)
        longest = max(stage.micro_batch_cycles for stage in program.stages)
        assert program.limiting_stage.micro_batch_cycles == longest

    def test_one_stage_is_the_unpipelined_step(self):
        whole = compile_program(modules.text("cifar10"), OPTIONS)
        program = compiled()
        assert program.cycles == whole.cycles
        assert program.crossings == ()
        assert program.timeline.bubble_share == 0

    def test_equal_arguments_compile_once(self):
        assert compiled(3) is compiled(3)
        assert compiled(3) is not compiled(4)


def test_a_system_that_is_too_small_is_refused():
    with pytest.raises(ValueError, match="No system has"):
        compiled(5, replicas=1024)


class TestPrepared:
    def test_what_reads_gradients_is_not_forward(self):
        module = modules.text("cifar10")
        entry = module.entry_computation
        gradient = next(i for i in entry if i.phase == "backward" and i.type.dims == (512, 10))
        total = gradient.replace(
            name="total", opcode="add", operands=(gradient.name,) * 2, layer="", phase="forward"
        )
        position = entry.instructions.index(gradient) + 1
        instructions = (*entry.instructions[:position], total, *entry.instructions[position:])
        changed = module.replace(
            computations={
                **module.computations,
                entry.name: dataclasses.replace(entry, instructions=instructions),
            }
        )
        found = prepared(changed)
        assert found.entry_computation.by_name()["total"].phase == "backward"
        assert assign(found, stages_at(8), 2).stage_of["total"] == 1

    @pytest.mark.slow
    def test_loops_that_fill_stacks_for_their_gradients_are_forward(self):
        found = prepared(simplify(modules.module("gru")))
        loops = [i for i in found.entry_computation if i.opcode == "while"]
        assert [loop.phase for loop in loops] == ["forward"] * 2 + ["backward"] * 2
        assert all("gradient_of" in loop.attributes for loop in loops[2:])
        by_name = found.entry_computation.by_name()
        for instruction in found.entry_computation:
            if (
                instruction.phase == "forward"
                and instruction is not by_name[found.entry_computation.root]
            ):
                read = {by_name[name].phase for name in instruction.operands}
                assert read <= {"forward"}, instruction.name

    def test_a_single_result_becomes_a_tuple(self):
        module = modules.text("cifar10")
        entry = module.entry_computation
        last = next(i for i in reversed(entry.instructions) if i.opcode == "fusion")
        place = entry.instructions.index(last) + 1
        alone = dataclasses.replace(entry, instructions=entry.instructions[:place], root=last.name)
        changed = module.replace(computations={**module.computations, entry.name: alone})
        root = prepared(changed).entry_computation.instructions[-1]
        assert (root.opcode, root.operands) == ("tuple", (last.name,))


def test_a_stage_that_computes_nothing_passes_values_on():
    alone = compiled(6, 7).stages[1].program  # The layer `flatten`.
    assert not alone.steps
    assert alone.memory.fits
