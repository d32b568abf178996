"""The context of lowering rules, and moves of a tensor to another placement."""

import pytest

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo.text import parse
from ipu_tf.compiler.lowering.context import LoweringContext, TileBalance
from ipu_tf.compiler.lowering.rearrangement.relayout import relayout
from ipu_tf.machine import target
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement

CHIP = target("bow", 8)


def context_of(text="ENTRY main {\n x = f32[4] parameter(0)\n }"):
    module = parse(text)
    context = LoweringContext(
        options=CompilerOptions(target=CHIP),
        plans={},
        computations=module.computations,
        instructions={},
        balance=TileBalance(CHIP.tiles),
    )
    return context.inside(module.entry_computation), module.entry_computation.by_name()


def test_elements_of_tuple_parameters_count_as_parameters():
    context, instructions = context_of(
        """
        ENTRY main {
          s = ((f32[4], s32[]), f32[8]) parameter(0)
          inner = (f32[4], s32[]) get-tuple-element(s), tuple_index=0
          a = f32[4] get-tuple-element(inner), tuple_index=0
          y = f32[4] negate(a)
          t = (f32[4], f32[4]) tuple(a, y)
          b = f32[4] get-tuple-element(t), tuple_index=1
          ROOT z = f32[4] add(a, b)
        }
        """
    )
    assert context.operand(instructions["y"], 0).opcode == "parameter"
    assert context.operand(instructions["z"], 0).opcode == "parameter"
    assert context.operand(instructions["z"], 1).opcode == "get-tuple-element"


def test_tensors_start_on_the_emptiest_tiles():
    context, _ = context_of()
    assert context.first_tile(3) == 0
    context.balance.add(Footprint(first_tile=0, tiles=3, tile_bytes=100))
    assert context.first_tile(3) == 3
    context.balance.add(Footprint(first_tile=3, tiles=4, tile_bytes=50))
    # Tile 7 is empty, tiles 6 and 5 hold less than 0 and 1: around the end is not better.
    assert context.first_tile(1) == 7
    assert context.first_tile(2) == 6
    assert context.first_tile(8) == context.first_tile(9) == 0


def test_tensors_on_all_tiles_do_not_move_the_next_one():
    balance = TileBalance(8)
    balance.add(Footprint(first_tile=0, tiles=8, tile_bytes=1000))
    assert balance.first_tile(2) == 0


def test_a_context_of_more_memory_differs_in_nothing_else():
    context, _ = context_of()
    roomy = context.with_tile_bytes(1 << 30)
    assert roomy.target.tile_bytes == roomy.options.target.tile_bytes == 1 << 30
    assert roomy.target.tiles == context.target.tiles
    assert roomy.balance is context.balance


@pytest.mark.parametrize(
    ("changes", "exchanged"),
    [({}, False), ({"first_tile": 4}, True), ({"layout": "other"}, True), ({"tiles": 2}, True)],
)
def test_moving_is_an_exchange_unless_the_elements_stay_on_their_tiles(changes, exchanged):
    context, _ = context_of()
    source = Placement(elements=400, element_bytes=4, tiles=4)
    where = {"elements": 400, "element_bytes": 4, "tiles": 4} | changes
    (step,) = relayout(source, Placement(**where), context)
    assert (step.exchange_cycles > 0) == exchanged
    assert (step.compute_cycles > 0) != exchanged


def test_moving_nothing_costs_nothing():
    context, _ = context_of()
    empty = Placement(elements=0, element_bytes=4)
    assert relayout(empty, empty, context) == ()
