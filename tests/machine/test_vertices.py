import inspect

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.machine import target, vertices

BOW = target("bow")

VERTICES = {
    "by_channels": lambda n: vertices.by_channels("add", n, 8, "f16", BOW),
    "by_rows": lambda n: vertices.by_rows("multiply", n, 64, "f32", BOW),
    "elementwise": lambda n: vertices.elementwise("add", n, "f32", BOW),
    "fused": lambda n: vertices.fused([("add", "f32"), ("tanh", "f32")], n, "f32", BOW, operands=2),
    "convert": lambda n: vertices.convert(n, "f32", "f16", BOW),
    "convert_scalar": lambda n: vertices.convert(n, "s32", "f16", BOW),
    "fill": lambda n: vertices.fill(n, "f16", BOW),
    "iota": lambda n: vertices.iota(n, "s32", BOW),
    "reduce_outputs": lambda n: vertices.reduce(n, 7, "f32", BOW),
    "reduce_integers": lambda n: vertices.reduce(n, 7, "s32", BOW),
    "copy": lambda n: vertices.copy(n, "f16", BOW, piece_elements=3),
    "transpose": lambda n: vertices.transpose(n, 4, "f16", BOW),
    "dynamic_slice": lambda n: vertices.dynamic_slice(n, 3, "f16", BOW),
    "dynamic_update": lambda n: vertices.dynamic_update(n, 3, "f16", BOW),
    "multi_slice": lambda n: vertices.multi_slice(16, n, "f16", BOW),
    "multi_update": lambda n: vertices.multi_update(16, n, "f16", BOW, rows=64, held_rows=8),
    "dropout": lambda n: vertices.dropout(n, "f16", BOW),
    "random_bits": lambda n: vertices.random_bits(n, "u32", BOW),
    "random_uniform": lambda n: vertices.random_uniform(n, "f32", BOW),
    "random_normal": lambda n: vertices.random_normal(n, "f16", BOW),
    "random_truncated_normal": lambda n: vertices.random_truncated_normal(n, "f16", BOW),
    "scan": lambda n: vertices.scan(1, n, "f32", BOW),
    "sort": lambda n: vertices.sort(n, "f32", BOW, values=1),
    "compare_exchange": lambda n: vertices.compare_exchange(n, "f32", BOW),
    "top_k": lambda n: vertices.top_k(n, 5, "f32", BOW),
    "window_reduce": lambda n: vertices.window_reduce(n, 4, "f16", BOW, channels=32),
    "select_and_scatter": lambda n: vertices.select_and_scatter(n, 4, "f32", BOW, channels=32),
}


def cycles(vertex):
    return vertex.cycles


@pytest.mark.parametrize("make", VERTICES.values(), ids=VERTICES)
def test_a_tile_without_work_has_no_vertex(make):
    assert make(0).cycles == 0
    assert make(0).state_bytes == 0


@pytest.mark.parametrize("make", VERTICES.values(), ids=VERTICES)
def test_numbers_and_arrays_cost_alike(make):
    sizes = np.array([0, 1, 17, 400])
    of_array = make(sizes)
    assert of_array.cycles.dtype == np.int64
    assert [make(int(size)).cycles for size in sizes] == of_array.cycles.tolist()
    one = make(17)
    assert isinstance(one.cycles, int)
    assert one.code_bytes % 8 == 0
    assert 0 < one.state_bytes < 100 < one.code_bytes < 2000


# Transposes have a faster codelet for whole blocks, copies a faster one for whole vectors.
STEADY = sorted(set(VERTICES) - {"transpose"})


@pytest.mark.fast_cells(8)
@pytest.mark.parametrize("name", STEADY)
@given(size=st.integers(1, 3000))
def test_a_vertex_never_gets_cheaper_with_size(name, size):
    assert VERTICES[name](size).cycles <= VERTICES[name](size + 1).cycles


@pytest.mark.parametrize("name", sorted(VERTICES))
def test_ten_times_the_work_takes_longer(name):
    assert VERTICES[name](4000).cycles > 2 * VERTICES[name](400).cycles


def test_every_public_vertex_is_tested():
    functions = {
        name for name in vertices.__all__ if inspect.isfunction(getattr(vertices, name))
    } - {"dtype_bytes", "vector_elements", "rearranged_cycles", "reduce_passes", "reduce"}
    assert functions <= set(VERTICES)


def test_an_addition_takes_three_slots_a_vector():
    assert vertices.elementwise("add", 1212, "f32", BOW).cycles == 11 + 6 * (20 + 3 * 101)
    assert vertices.elementwise("add", 1212, "f16", BOW).cycles == 11 + 6 * (20 + 3 * 51)


def test_in_place_saves_a_slot():
    twice = {
        vertices.elementwise("add", 1200, "f32", BOW, in_place=True).cycles,
        vertices.elementwise("add", 1200, "f32", BOW, scalar_operand=True).cycles,
    }
    assert twice == {11 + 6 * (20 + 2 * 100)}


def test_halves_are_faster_than_words_for_hardware_functions():
    for opcode in ("tanh", "exponential", "log", "logistic"):
        half, word = (vertices.elementwise(opcode, 10_000, d, BOW).cycles for d in ("f16", "f32"))
        assert half < word


@pytest.mark.parametrize("opcode", sorted(vertices.OPCODES))
def test_every_operation_has_some_type(opcode):
    made = []
    for dtype in ("f32", "f16", "s32", "u8", "s64", "pred", "bf16", "f8e4m3"):
        try:
            made.append(vertices.elementwise(opcode, 100, dtype, BOW).cycles)
        except ValueError:
            continue
    assert made
    assert min(made) > 0


def test_a_chain_of_one_is_about_that_one():
    for opcode in ("add", "exponential", "maximum"):
        alone = vertices.elementwise(opcode, 6000, "f32", BOW).cycles
        arity = 1 if opcode == "exponential" else 2
        chain = vertices.fused([(opcode, "f32")], 6000, "f32", BOW, operands=arity).cycles
        assert chain == pytest.approx(alone, rel=0.35)


def test_a_chain_is_cheaper_than_its_parts():
    operations = [("multiply", "f32"), ("add", "f32"), ("maximum", "f32")]
    apart = sum(vertices.elementwise(o, 6000, d, BOW).cycles for o, d in operations)
    assert vertices.fused(operations, 6000, "f32", BOW, operands=4).cycles < apart


def test_longer_chains_cost_more():
    one, two = (
        vertices.fused([("tanh", "f32")] * length, 6000, "f32", BOW, operands=1).cycles
        for length in (1, 2)
    )
    assert two > 1.7 * one


@pytest.mark.parametrize(
    ("opcode", "dtype", "message"),
    [
        ("frobnicate", "f32", r"Unknown element-wise operation.*abs.*Received: 'frobnicate'"),
        ("tanh", "s32", r"Element-wise tanh is defined for f32, f16\. Received: 's32'"),
        (
            "add",
            "f64",
            r"for 'f64'.*at most 32 bits.*s32, u32, f32\. Received: 'f64'",
        ),
    ],
)
def test_operations_that_do_not_exist(opcode, dtype, message):
    with pytest.raises(ValueError, match=message):
        vertices.elementwise(opcode, 1, dtype, BOW)
    with pytest.raises(ValueError, match=message):
        vertices.fused([(opcode, dtype)], 1, "f32", BOW, operands=1)


def test_deep_reductions_use_all_workers():
    deep = vertices.reduce(1, 12_000, "f32", BOW)
    assert deep.cycles == pytest.approx(12_000, rel=0.05)
    assert vertices.reduce(1, 12_000, "f32", BOW, interleaved=True).cycles < 0.55 * deep.cycles
    assert vertices.reduce(6, 2000, "f32", BOW).cycles == pytest.approx(12_000, rel=0.05)


def test_reductions_take_as_many_compute_sets_as_stages():
    np.testing.assert_array_equal(
        vertices.reduce_passes(np.array([1, 1, 1, 100]), np.array([1, 6, 1000, 1000]), "f32", BOW),
        [0, 1, 2, 1],
    )


def test_a_maximum_with_its_index_takes_twice():
    one, two = (vertices.reduce(10, 50, "f32", BOW, operands=n).cycles for n in (1, 2))
    assert two == 2 * one
    with pytest.raises(ValueError, match=r"`operands` must be positive\. Received: 0"):
        vertices.reduce(10, 50, "f32", BOW, operands=0)


def test_copies_of_small_pieces_are_slow():
    whole, words, halves = (
        vertices.copy(1000, dtype, BOW, piece_elements=piece).cycles
        for dtype, piece in (("f32", 0), ("f32", 1), ("f16", 1))
    )
    assert whole == pytest.approx(1000 * 4 / 8, rel=0.1)
    assert words > 20 * whole
    assert halves > 20 * whole / 2


def test_halves_transpose_fast_in_blocks():
    fast, slow = (vertices.transpose(64, columns, "f16", BOW).cycles for columns in (64, 63))
    assert slow > 3 * fast


def test_random_numbers_come_at_the_published_rate():
    # 944e9 samples a second on 1,216 tiles of 1.6 GHz (arXiv 1912.03413, 5.3).
    gc2 = target("gc2")
    took = vertices.random_uniform(10_000, "f32", gc2).cycles
    assert 10_000 / took * gc2.tiles * gc2.clock_hz == pytest.approx(944e9, rel=0.05)


@pytest.mark.parametrize(
    ("dtype", "cycles"), [("f32", 4 + 156 + 38 * 50), ("f16", 4 + 168 + 41 * 25)]
)
def test_truncated_normals_are_drawn_in_three_rounds(dtype, cycles):
    # poplibs' estimate of its vertex of bounds of two deviations, 100 numbers.
    assert vertices.random_truncated_normal(100, dtype, BOW).cycles == cycles


def test_channels_fill_vectors_of_windows():
    narrow, wide = (
        vertices.window_reduce(4000, 4, "f16", BOW, channels=channels).cycles for channels in (1, 8)
    )
    assert narrow > 3 * wide


def test_values_travel_with_their_keys():
    keys, pairs = (vertices.compare_exchange(600, "f32", BOW, values=v).cycles for v in (0, 1))
    assert keys < pairs < 2 * keys


def test_channels_share_their_value_at_the_published_rate():
    # Two slots for every 8 halves of an addition and for every word, one for 4 halves of a product.
    longer = {("add", "f16"): 8, ("multiply", "f16"): 8, ("add", "f32"): 1, ("multiply", "f32"): 1}
    for (opcode, dtype), channels in longer.items():
        few, many = (
            vertices.by_channels(opcode, 6 * positions * 64, 64, dtype, BOW).cycles
            for positions in (10, 11)
        )
        assert many - few == 6 * 2 * 64 // channels


def test_a_product_in_place_cannot_load_and_store_in_one_slot():
    for positions in (10, 11):
        out_of_place, in_place = (
            vertices.by_channels(opcode, 6 * positions * 16, 16, "f16", BOW).cycles
            for opcode in ("multiply", "multiply in place")
        )
        # Four loops over 4 channels: a slot more a position, two less to begin, four less to start.
        assert in_place - out_of_place == 6 * (4 * (positions - 2) - 4)


def test_workers_share_out_groups_of_channels():
    # 24 groups of 16 channels at a single position: each worker has four groups, not all 24.
    wide = vertices.by_channels("add", 24 * 16, 24 * 16, "f16", BOW).cycles
    assert wide == 8 + 6 * (4 + 4 * (27 + 2 * 7))
    # As many elements at 24 positions of one group: every worker has four positions.
    assert vertices.by_channels("add", 24 * 16, 16, "f16", BOW).cycles == 8 + 6 * (35 + 2 * 21)


def test_rows_share_their_value_in_two_slots_a_vector():
    # Pieces of 4 vectors of halves, one of each worker to begin with.
    few, many = (vertices.by_rows("add", 6 * 16 * n, 16, "f16", BOW).cycles for n in (1, 2))
    assert many - few == 6 * (7 + 2 * 4)


def test_all_workers_share_a_long_row():
    row = vertices.by_rows("add", 6 * 256, 6 * 256, "f16", BOW).cycles
    assert row == vertices.by_rows("add", 6 * 256, 16, "f16", BOW).cycles
    # Pieces of 8 vectors of words: every worker has up to two vectors of each of two.
    assert vertices.by_rows("add", 32, 32, "f32", BOW).cycles == 8 + 6 * (15 + 2 * (7 + 2 * 2))


def test_library_functions_take_the_published_slots():
    slots = {
        ("gelu", "f16"): 4 * 16, ("gelu", "f32"): 2 * 22, ("gelu-tanh", "f16"): 10,
        ("gelu-tanh", "f32"): 20, ("gate", "f16"): 3, ("gate", "f32"): 3,
    }  # fmt: skip
    for (opcode, dtype), each in slots.items():
        width = 4 if dtype == "f16" else 2
        few, many = (
            vertices.elementwise(opcode, 6 * n * width, dtype, BOW).cycles for n in (10, 11)
        )
        assert many - few == 6 * each


def test_dropout_takes_two_cycles_a_vector():
    few, many = (vertices.dropout(4 * n, "f16", BOW).cycles for n in (100, 200))
    assert many - few == 200


def test_whole_vectors_change_their_layout_faster():
    vectors, words, halves = (vertices.rearranged_cycles(1000, piece) for piece in (8, 4, 2))
    assert (vectors, words, halves) == (440, 3100, 5100)
    assert vertices.rearranged_cycles(0, 8) == 0


@pytest.mark.parametrize(
    ("elements", "dtype", "slots"),
    [(16, "f32", 19 + 2 * 8), (3, "f32", 19 + 2 * 2), (16, "f16", 19 + 2 * 8), (6, "u8", 19 + 6)],
)
def test_a_look_up_copies_each_row_that_it_finds(elements, dtype, slots):
    vertex = vertices.multi_slice(elements, 13, dtype, BOW)
    assert vertex.cycles == 6 * (30 + 3 * slots)


def test_a_look_up_passes_rows_of_other_tiles_by():
    # Of three look-ups of a worker one is likely to be among a quarter of the rows.
    vertex = vertices.multi_slice(16, 13, "f32", BOW, rows=100, held_rows=25)
    assert vertex.cycles == 6 * (30 + 1 * (19 + 2 * 8) + 2 * 8)


def test_workers_share_a_single_row():
    assert vertices.multi_slice(48, 1, "f32", BOW).cycles == 6 * (30 + 19 + 2 * 4)


@pytest.mark.parametrize(
    ("elements", "dtype", "start", "hit"),
    [
        (16, "f32", 38, 11 + 3 * 15),
        (1, "f32", 38, 11),
        (2, "f32", 38, 8),
        (4, "f32", 38, 16),
        (16, "f16", 37, 13 + 3 * 7),
        (4, "f16", 37, 9),
        (3, "f16", 37, 13 + 3 * 20),
    ],
)
def test_every_worker_of_an_update_visits_all_rows(elements, dtype, start, hit):
    # Each worker has 10 of 600 rows: one of 60 indices is likely to be among them.
    vertex = vertices.multi_update(elements, 60, dtype, BOW, rows=600, held_rows=60)
    assert vertex.cycles == 6 * (start + hit + 59 * 5)


def test_an_update_that_overwrites_copies():
    vertex = vertices.multi_update(16, 60, "f32", BOW, rows=600, held_rows=60, accumulate=False)
    assert vertex.cycles == 6 * (29 + (19 + 2 * 8) + 59 * 8)
