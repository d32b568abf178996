"""Layouts of plans: operands lie on tiles that read them, results where they are summed up."""

import itertools

import numpy as np
import pytest

from ipu_tf.compiler.lowering.contractions.contraction_layout import plan_layout
from ipu_tf.compiler.lowering.mapping import arrays
from ipu_tf.planner.partition import partition
from ipu_tf.planner.plan import ConvPlan, MatMulPlan
from ipu_tf.planner.shapes import ConvShape, MatMulShape
from ipu_tf.tile_program.layouts.layout import tile_offsets
from ipu_tf.tile_program.layouts.placement import Placement
from tests.compiler.lowering.programs import run

DOT = (
    "x = f32[{m},{k}] parameter(0)\nw = f32[{k},{n}] parameter(1)\nr = f32[{m},{n}] dot(x, w), "
    'dot_dimension_numbers={{lhs_contracting={{1}} rhs_contracting={{0}}}}, op_name="dense/MatMul"'
)
CONV = (
    "x = f32[2,4,4,8] parameter(0)\nk = f32[1,1,8,16] parameter(1)\n"
    "r = f32[2,4,4,16] convolution(x, k), window={size=1x1}, "
    'convolution_dimension_numbers=b01f_01io->b01f, op_name="conv/Conv2D"'
)
CONV_SHAPE = ConvShape(
    batch=2, in_rows=4, in_columns=4, in_channels=8, out_channels=16, kernel_rows=1,
    kernel_columns=1, out_rows=4, out_columns=4,
)  # fmt: skip


def layouts_of(text, name, shape, plan):
    program = run(text, plans={name: (shape, plan)}, tiles=64)
    instruction = program.context.instructions["r"]
    found = []
    for side, made in (("left", 0), ("right", 1), ("result", None)):
        owner = instruction if made is None else program.context.operand(instruction, made)
        (array,) = arrays(owner.type)
        found.append(plan_layout(instruction, array, side, shape, plan))
    return found


def plan_tiles(shape, plan, order):
    """The tile that computes each element, by extent: of `order`, the last one counts fastest."""
    parts = [partition(shape.extents[name], plan.splits[name]) for name in order]
    of_element = [
        [next(n for n, (b, e) in enumerate(own) if b <= at < e) for at in range(own[-1][1])]
        for own in parts
    ]
    tiles = np.zeros([len(elements) for elements in of_element], int)
    for index in itertools.product(*map(range, tiles.shape)):
        tile = 0
        for at, own, elements in zip(index, parts, of_element, strict=True):
            tile = tile * len(own) + elements[at]
        tiles[index] = tile
    return tiles


def test_a_result_lies_on_the_tiles_that_sum_it_up():
    shape = MatMulShape(m=8, k=64, n=32)
    plan = MatMulPlan(rows=2, columns=4, reduction=2, grain=8)
    *_, result = layouts_of(DOT.format(m=8, k=64, n=32), "dense/MatMul", shape, plan)
    tiles = plan_tiles(shape, plan, ("rows", "columns", "reduction"))
    # Partials of a block are on two neighbouring tiles; each ends up with one half of its rows.
    pairs = tile_offsets(result).reshape(8, 32)
    assert (pairs // 2 == tiles[:, :, 0] // 2).all()
    assert sorted(set(pairs.ravel())) == list(range(16))


@pytest.mark.parametrize(
    ("splits", "side", "dims"),
    [
        ({"rows": 4, "reduction": 2}, 0, ("rows", "reduction")),
        ({"columns": 4, "reduction": 2}, 1, ("columns", "reduction")),
    ],
)
def test_an_operand_that_one_tile_reads_lies_on_that_tile(splits, side, dims):
    shape, plan = MatMulShape(m=64, k=64, n=64), MatMulPlan(**splits, grain=8)
    layout = layouts_of(DOT.format(m=64, k=64, n=64), "dense/MatMul", shape, plan)[side]
    tiles = plan_tiles(shape, plan, dims)
    assert (tile_offsets(layout).reshape(64, 64) == (tiles if side == 0 else tiles.T)).all()


def test_operands_that_many_tiles_read_lie_in_pieces_of_a_sensible_size():
    shape, plan = MatMulShape(m=64, k=64, n=64), MatMulPlan(rows=8, columns=8, grain=8)
    left, right, _ = layouts_of(DOT.format(m=64, k=64, n=64), "dense/MatMul", shape, plan)
    # Blocks of 8 x 64 x 4 bytes: eight pieces of 256 bytes of each are of a sensible size.
    assert left.tiles == right.tiles == 64
    shape, plan = MatMulShape(m=8, k=64, n=64), MatMulPlan(rows=8, columns=8, grain=8)
    left, right, _ = layouts_of(DOT.format(m=8, k=64, n=64), "dense/MatMul", shape, plan)
    # A row of 256 bytes is two pieces of 128 bytes; of the weights a piece has 256 bytes.
    assert left.tiles == 8 * 2
    assert right.tiles == 8 * 8


def test_a_convolution_cuts_images_weights_and_results_alike():
    plan = ConvPlan(batch=2, field_rows=2, out_channels=4, in_channels=1, grain=8)
    left, right, result = layouts_of(CONV, "conv/Conv2D", CONV_SHAPE, plan)
    tiles = plan_tiles(CONV_SHAPE, plan, ("batch", "field_rows", "field_columns", "out_channels"))
    assert (tile_offsets(result).reshape(2, 4, 4, 16) == tiles).all()
    # Each of four tiles reads the same two rows of 4 x 8 elements: 256 bytes, in two pieces.
    assert (tile_offsets(left) == np.arange(256) // 32).all()
    outputs = tile_offsets(right).reshape(8, 16)
    assert (outputs == np.arange(16) // 4).all()


def test_serial_steps_lie_on_the_same_tiles():
    plan = ConvPlan(out_channels=8, serial_out_channels=2, grain=8)
    *_, result = layouts_of(CONV, "conv/Conv2D", CONV_SHAPE, plan)
    assert (tile_offsets(result).reshape(-1, 16) == np.arange(16) // 2 % 4).all()


FILTER = (
    "x = f32[2,4,4,8] parameter(0)\ny = f32[2,4,4,16] parameter(1)\n"
    "r = f32[1,1,8,16] convolution(x, y), window={size=4x4}, "
    "convolution_dimension_numbers=f01b_i01o->01bf, "
    'op_type="Conv2DBackpropFilter", op_name="conv/Filter"'
)


def test_a_weight_and_its_gradient_that_are_cut_alike_are_aligned():
    forward = ConvPlan(out_channels=4, in_channels=1, grain=8)
    gradient = ConvPlan(out_channels=4, in_channels=1, grain=4)
    shape = CONV_SHAPE
    backward = ConvShape(
        pass_="filter_gradient", batch=2, in_rows=4, in_columns=4, in_channels=8,
        out_channels=16, kernel_rows=1, kernel_columns=1, out_rows=4, out_columns=4,
    )  # fmt: skip
    _, weights, _ = layouts_of(CONV, "conv/Conv2D", shape, forward)
    *_, update = layouts_of(FILTER, "conv/Filter", backward, gradient)
    assert weights == update
    *_, other = layouts_of(FILTER, "conv/Filter", backward, ConvPlan(out_channels=2, grain=4))
    assert weights != other


def test_groups_that_are_written_in_another_way_have_a_name():
    program = run(CONV, tiles=64)
    instruction = program.context.instructions["r"]
    grouped = ConvShape(
        batch=2, in_rows=4, in_columns=4, in_channels=4, out_channels=16, groups=2,
        kernel_rows=1, kernel_columns=1, out_rows=4, out_columns=4,
    )  # fmt: skip
    (array,) = arrays(instruction.type)
    layout = plan_layout(instruction, array, "result", grouped, ConvPlan(groups=2, grain=8))
    assert layout.startswith("conv2d result 1,2,")


@pytest.mark.parametrize(
    ("method", "rows", "columns", "parts"),
    [
        ("amp_1x1_swapped", 128, 8, [48, 48, 32]),
        ("amp_1x1", 128, 8, [43, 43, 42]),
        ("horizontal_mac_swapped", 128, 8, [43, 43, 42]),
        ("amp_1x1_swapped", 72, 8, [32, 24, 16]),
        ("amp_1x1_swapped", 197, 8, [69, 64, 64]),
        ("amp_1x1_swapped", 32, 8, [16, 8, 8]),
    ],
)
def test_features_are_cut_in_whole_groups_of_an_amp_pass(method, rows, columns, parts):
    shape = MatMulShape(m=rows, k=64, n=columns)
    plan = MatMulPlan(rows=3, grain=8, method=method)
    text = DOT.format(m=rows, k=64, n=columns)
    for layout in layouts_of(text, "dense/MatMul", shape, plan)[::2]:
        tiles = tile_offsets(layout).reshape(rows, -1)[:, 0]
        assert sorted(np.unique(tiles, return_counts=True)[1], reverse=True) == parts


def test_a_window_meets_the_blocks_around_its_own():
    shape = ConvShape(
        batch=1, in_rows=16, in_columns=16, in_channels=8, out_channels=8, kernel_rows=3,
        kernel_columns=3, out_rows=16, out_columns=16, padding=(1, 1, 1, 1),
    )  # fmt: skip
    whole = {"field_rows": 16, "field_columns": 16, "kernel_rows": 3, "kernel_columns": 3}
    assert shape.halo(whole) == (1, 1.0)
    met, ratio = shape.halo(whole | {"field_rows": 4})
    assert (met, ratio) == (3, 1.5)
    met, ratio = shape.halo(whole | {"field_rows": 1, "field_columns": 2})
    assert (met, ratio) == (9, 3 * 2)


def test_a_reshape_keeps_the_layout_of_weights():
    layout = layouts_of(
        DOT.format(m=8, k=64, n=32),
        "dense/MatMul",
        MatMulShape(m=8, k=64, n=32),
        MatMulPlan(columns=4, grain=8),
    )[1]
    placement = Placement(elements=2048, element_bytes=4, tiles=layout.tiles, layout=layout)
    program = run(
        "w = f32[64,4,8] parameter(0)\nr = f32[64,32] reshape(w)", placed={"w": (placement,)}
    )
    assert program.placements["r"] == (placement,)
