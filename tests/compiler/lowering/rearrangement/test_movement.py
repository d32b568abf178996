"""Views and movement: what is free, what is exchanged, what is copied."""

from ipu_tf.tile_program.layouts.placement import Placement
from tests.compiler.lowering.programs import run

X = "x = f32[8,64] parameter(0)\n"


def test_there_and_back_lies_as_before():
    program = run(
        X + "t = f32[64,8] transpose(x), dimensions={1,0}\nb = f32[8,64] transpose(t), "
        "dimensions={1,0}\nv = f32[8,64] reverse(x), dimensions={0}\n"
        "w = f32[8,64] reverse(v), dimensions={0}\nr = f32[8,64] add(b, w)"
    )
    assert program.placements["t"][0].layout != "linear"
    assert program.placements["b"] == program.placements["x"] == program.placements["w"]
    assert program.exchange_bytes("r") == 0


def test_a_transposed_operand_has_to_be_exchanged():
    program = run(
        X + "y = f32[64,8] parameter(1)\nt = f32[64,8] transpose(x), dimensions={1,0}\n"
        "r = f32[64,8] add(t, y)"
    )
    assert program.exchange_bytes("r") == 8 * 64 * 4


def test_moving_dimensions_of_one_element_changes_nothing():
    program = run(
        "x = f32[8,1,64] parameter(0)\na = f32[1,8,64] transpose(x), dimensions={1,0,2}\n"
        "r = f32[64,1,8] transpose(x), dimensions={2,1,0}"
    )
    assert program.placements["a"] == program.placements["x"]
    assert program.placements["r"][0].layout != "linear"


def test_three_turns_of_three_dimensions_come_back():
    # On five tiles pieces end within rows: the views have no blocks of their own.
    text = (
        "x = f32[4,10,6] parameter(0)\na = f32[10,6,4] transpose(x), dimensions={1,2,0}\n"
        "b = f32[6,4,10] transpose(a), dimensions={1,2,0}\n"
        "c = f32[4,10,6] transpose(b), dimensions={1,2,0}\n"
        "r = f32[4,10,6] transpose(a), dimensions={2,0,1}"
    )
    for tiles in (4, 7):
        program = run(text, tiles=tiles)
        assert program.placements["r"] == program.placements["x"]
        assert program.placements["b"][0].layout != "linear"


def test_what_is_broadcast_is_known_through_a_transposition():
    program = run(
        X + "b = f32[64] parameter(1)\nw = f32[8,64] broadcast(b), dimensions={1}\n"
        "t = f32[64,8] transpose(w), dimensions={1,0}\ny = f32[64,8] parameter(2)\n"
        "r = f32[64,8] add(y, t)"
    )
    assert program.placements["t"][0].pattern == ((64, True), (8, False))
    # A tile has eight rows of y, each of which needs one element.
    assert program.exchange_bytes("r") == 8 * 8 * 4


def test_a_run_of_rows_lies_where_they_are():
    program = run(X + "r = f32[2,64] slice(x), slice_dimensions={[6:8:1], [0:64:1]}")
    # 512 elements in 8 pieces of 64: rows 6 and 7 are on the last two tiles.
    assert program.placements["r"] == (
        Placement(elements=128, element_bytes=4, first_tile=6, tiles=2),
    )


def test_rows_that_begin_within_a_piece_are_no_even_pieces():
    program = run(
        "x = f32[16,32] parameter(0)\nr = f32[4,32] slice(x), slice_dimensions={[1:5:1], [0:32:1]}"
    )
    # Pieces of two rows: row 1 is on tile 0, rows 2 and 3 on tile 1, row 4 on tile 2.
    (placement,) = program.placements["r"]
    assert (placement.first_tile, placement.tiles) == (0, 3)
    assert placement.layout != "linear"


def test_a_slice_of_columns_is_on_all_tiles():
    program = run(X + "r = f32[8,2] slice(x), slice_dimensions={[0:8:1], [3:5:1]}")
    assert program.placements["r"][0].tiles == 8
    assert program.placements["r"][0].layout != "linear"


def test_a_slice_of_every_other_column_is_on_all_tiles():
    program = run(X + "r = f32[8,32] slice(x), slice_dimensions={[0:8:1], [0:64:2]}")
    assert program.placements["r"][0].elements == 8 * 32


def test_a_slice_of_everything_is_the_operand():
    program = run(X + "r = f32[8,64] slice(x), slice_dimensions={[0:8:1], [0:64:1]}")
    assert program.placements["r"] == program.placements["x"]


def test_a_dynamic_slice_fetches_its_index_alone():
    program = run(
        X + "i = s32[] parameter(1)\n"
        "r = f32[1,64] dynamic-slice(x, i, i), dynamic_slice_sizes={1,64}"
    )
    assert program.exchange_bytes("r") == 8 * 4 * 2


def test_dynamic_slices_and_updates_of_everything_are_views():
    program = run(
        X + "i = s32[] parameter(1)\ny = f32[8,64] parameter(2)\n"
        "s = f32[8,64] dynamic-slice(x, i, i), dynamic_slice_sizes={8,64}\n"
        "r = f32[8,64] dynamic-update-slice(x, y, i, i)"
    )
    assert program.lowered["s"].view_of == 0
    assert program.lowered["r"].view_of == 1


def test_an_update_is_in_place_and_moves_the_slice():
    program = run(
        X + "i = s32[] parameter(1)\nu = f32[1,64] parameter(2)\n"
        "r = f32[8,64] dynamic-update-slice(x, u, i, i)"
    )
    made = program.lowered["r"]
    assert made.in_place == 0
    assert program.placements["r"] == program.placements["x"]
    assert program.exchange_bytes("r") == 64 * 4 + 8 * 4 * 2


def test_an_update_of_a_broadcast_fills_it_first():
    program = run(
        "z = f32[] parameter(0)\ni = s32[] parameter(1)\nu = f32[1,64] parameter(2)\n"
        "x = f32[8,64] broadcast(z), dimensions={}\n"
        "r = f32[8,64] dynamic-update-slice(x, u, i, i)"
    )
    assert [step.name for step in program.lowered["r"].supersteps] == ["fill", "dynamic update"]
    assert program.placements["r"][0].repeats is None


def test_padding_fills_and_moves():
    program = run(
        X + "z = f32[] parameter(1)\n"
        "r = f32[10,64] pad(x, z), padding_config=1_1_0x0_0_0\n"
        "q = f32[8,64] copy(x)"
    )
    assert [step.name for step in program.lowered["r"].supersteps] == ["fill", "pad"]
    assert program.exchange_bytes("r") == 8 * 64 * 4 + 8 * 4
    assert program.exchange_bytes("q") == 0


def test_small_pieces_on_one_tile_are_joined_there():
    program = run(
        "a = s32[1] parameter(0)\nb = s32[1] parameter(1)\n"
        "r = s32[2] concatenate(a, b), dimensions={0}",
        tiles=1,
    )
    assert program.exchange_bytes("r") == 0
    assert program.cycles("r") > 0


def test_a_copy_of_a_broadcast_stores_it():
    program = run(
        "z = f32[] parameter(0)\nx = f32[8,64] broadcast(z), dimensions={}\nr = f32[8,64] copy(x)"
    )
    (placement,) = program.placements["r"]
    assert placement.repeats is None
    assert placement.tiles == 8
