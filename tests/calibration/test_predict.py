import pytest

from ipu_tf.calibration import KINDS, CannotPredict, predict, predict_contractions
from ipu_tf.calibration.library_reduction import library_reduction_cycles
from ipu_tf.calibration.params import input_dtype, partials_dtype
from ipu_tf.machine import target


def test_every_measured_kind_has_a_predictor(measured):
    assert {record.kind for record in measured} == set(KINDS)


def test_an_unknown_kind_has_no_prediction(make):
    assert predict(make("weather", {})) is None


def test_an_unknown_chip_is_an_error(make):
    with pytest.raises(ValueError, match=r"Unknown chip.*Received: 'gc3'"):
        predict(make("host", {}, chip="gc3"))
    assert predict(make("host", {}, chip="GC2")) == predict(make("host", {}))


@pytest.mark.parametrize(
    ("kind", "params", "unit", "dtype", "message"),
    [
        ("exchange_gather", {"bytes_each": 4}, "us", "-", r"needs the parameter 'source_tiles' or"),
        ("exchange_gather", {"tiles": "many"}, "us", "-", r"the parameter 'tiles' is not a number"),
        ("exchange_gather", {"tiles": 0}, "us", "-", r"must be a positive whole number"),
        ("exchange_gather", {"tiles": 2}, "TFLOPS", "-", r"has no figure in flops per second"),
        ("dense_matmul", {"m": 2, "k": 2, "n": 2}, "us", "int4", r"the dtype 'int4' names no type"),
        ("host", {}, "n", "-", r"has no figure in count"),
    ],
)
def test_records_that_say_too_little(make, kind, params, unit, dtype, message):
    with pytest.raises(CannotPredict, match=message):
        predict(make(kind, params, unit, dtype=dtype))


@pytest.mark.parametrize(
    ("text", "inputs", "partials"),
    [
        ("f16", "float16", "float32"),
        ("half", "float16", "float32"),
        ("f16 x f16 -> f16 partials", "float16", "float16"),
        ("FP16.32 mixed", "float16", "float32"),
        ("single precision", "float32", "float32"),
        ("f8", "float8", "float32"),
    ],
)
def test_types_by_any_name(make, text, inputs, partials):
    record = make("dense_matmul", {}, dtype=text)
    assert (input_dtype(record), partials_dtype(record)) == (inputs, partials)


def test_partials_may_be_a_parameter(make):
    record = make("dense_matmul", {"partials": "half, as an option"}, dtype="f16")
    assert partials_dtype(record) == "float16"


def test_sizes_may_be_texts_that_begin_with_a_number(make):
    texts = make("exchange_gather", {"source_tiles": "64 tiles", "bytes_each": 4})
    numbers = make("exchange_gather", {"tiles": 64})
    assert predict(texts) == predict(numbers)


def test_units_agree(make):
    cycles, nanoseconds, microseconds = (
        predict(make("exchange_scatter", {"dest_tiles": 38}, unit))
        for unit in ("cycles", "ns", "us")
    )
    assert cycles == pytest.approx(nanoseconds * 1.6)
    assert nanoseconds == pytest.approx(microseconds * 1000)


def test_a_stated_clock_is_used(make):
    slow, fast = (
        predict(make("exchange_gather", {"tiles": 64, "clock_hz": clock})) for clock in (8e8, 1.6e9)
    )
    assert slow == 2 * fast


def test_the_sync_is_left_out_where_the_record_leaves_it_out(make):
    params = {"transfers": 76, "bytes_each": 4}
    with_sync = predict(make("exchange_point_to_point", params, "cycles"))
    without = predict(make("exchange_point_to_point", params, "cycles", what="sync excluded"))
    assert with_sync - without == pytest.approx(target("gc2").sync_cycles)


@pytest.mark.parametrize(
    ("what", "cycles"),
    [
        ("within one column, sync excluded (min)", 59),
        ("within one column, sync excluded (max)", 95),
        ("slowest tile pair on chip, sync excluded", 157),
        ("extra latency per island", 2),
    ],
)
def test_ways_on_the_chip(make, what, cycles):
    record = make("exchange_point_to_point", {"bytes": 4}, "cycles", what=what)
    assert predict(record) == pytest.approx(cycles)


@pytest.mark.parametrize(
    "kind", ["exchange_broadcast", "exchange_gather", "exchange_scatter", "exchange_point_to_point"]
)
def test_patterns_take_longer_across_links(make, kind):
    params = {"tiles": 64, "bytes_each": 400}
    here, next_board, further = (
        predict(make(kind, params, n_ipus=ipus, what=what))
        for ipus, what in ((1, ""), (2, "off board, direct"), (2, "off board, indirect"))
    )
    assert here < next_board < further


def test_broadcasts_to_the_own_ipu_come_first(make):
    params = {"bytes": 102_400}
    other, both = (
        predict(make("exchange_broadcast", {**params, "dest_tiles": tiles}, n_ipus=2))
        for tiles in (1216, 2432)
    )
    own = predict(make("exchange_broadcast", {**params, "dest_tiles": 1216}))
    assert both - other == pytest.approx(own, rel=0.05)


def test_link_rates_by_direction(make):
    one, two = (
        predict(make("link", {"transfers": 2432}, "GB/s", n_ipus=2, what=what))
        for what in ("monodirectional", "bidirectional")
    )
    assert two == 2 * one
    alone = predict(make("link", {"transfers": 1}, "GB/s", n_ipus=2))
    assert alone == pytest.approx(6.4 * 0.8625)


def test_link_latency_by_hops_and_by_place(make):
    near, far = (predict(make("link", {"hops": hops}, n_ipus=16)) for hops in (1, 7))
    assert far - near == pytest.approx(6 * 0.16, rel=0.03)
    placed = make("link", {"source_ipu": 0, "dest_ipu": 14}, n_ipus=16)
    assert predict(placed) == far


def test_random_traffic_grows_with_the_system(make):
    few, many = (
        predict(make("link", {"transfers": 1216 * n}, n_ipus=n, what="random destinations"))
        for n in (4, 16)
    )
    assert few < many


def test_rates_of_many_ipus_are_those_of_the_rails(make):
    four, sixteen = (
        predict(make("link", {"transfers": 1216 * n}, "GB/s", n_ipus=n)) for n in (4, 16)
    )
    assert four == sixteen == pytest.approx(4 * 27.6)


def test_the_host_takes_its_time_before_the_bytes(make):
    one, all_ = (predict(make("host", {"tiles": tiles}, "GB/s")) for tiles in (1, 1216))
    assert one < all_ / 2
    assert predict(make("host", {"tiles": 4864}, "GB/s", n_ipus=4)) == pytest.approx(13.7, rel=0.01)


@pytest.mark.parametrize(
    ("params", "what", "rate"),
    [
        ({"load_bits": 64, "code": "C"}, "read", 15.3),
        ({"load_bits": 32}, "bandwidth", 7.67),
        ({"code": "asm"}, "read", 30.7),
        ({}, "naive read", 7.67),
        ({"store_bits": 64}, "write bandwidth", 15.3),
        ({}, "memory bandwidth", 46.3),
    ],
)
def test_memory_rates(make, params, what, rate):
    assert predict(make("tile_memory", params, "TB/s", what=what)) == pytest.approx(rate, rel=0.01)


def test_a_reduction_on_one_tile_takes_a_cycle_an_operand():
    long, short = (library_reduction_cycles(n, 1, "f32", target("gc2")) for n in (20_000, 10_000))
    assert long - short == pytest.approx(10_000, rel=0.01)


@pytest.mark.parametrize(
    ("what", "kib"),
    [("memory of a tile", 256), ("available to the user", 248), ("of the whole chip", 256 * 1216)],
)
def test_memory_sizes(make, what, kib):
    assert predict(make("tile_memory", {}, "KiB", what=what)) == kib


def test_reductions_over_tiles_and_ipus(make):
    one, chip, two = (
        predict(make("reduce", {"operands": 1000, "tiles": tiles}, dtype="f32", n_ipus=ipus))
        for tiles, ipus in ((1, 1), (1216, 1), (2432, 2))
    )
    assert one < chip < two


def test_an_amp_vertex_does_its_macs(make):
    params = {"rows_per_tile": 6000, "in_chans": 16, "out_chans": 16, "tiles": 1472}
    rate = predict(make("amp_vertex", params, "TFLOPS", chip="bow", dtype="f16 -> f16"))
    assert 0.98 * 348.6 < rate < 348.6
    wide = predict(make("amp_vertex", params, "TFLOPS", chip="bow", dtype="f16 -> f32"))
    assert wide == pytest.approx(rate / 2, rel=0.02)


def test_a_matmul_may_count_its_compute_alone(make):
    params = {"m": 512, "k": 512, "n": 512}
    everything = predict(make("dense_matmul", params, dtype="f16"))
    compute = predict(make("dense_matmul", params, dtype="f16", what="compute sets only"))
    assert compute < everything


def test_a_matmul_may_leave_syncs_out(make):
    params = {"m": 512, "k": 512, "n": 512}
    everything, exchanging, compute = (
        predict(make("dense_matmul", {**params, "cycles_counted": counted}, dtype="f16"))
        for counted in ("all", "compute and exchange, no sync", "compute only")
    )
    assert compute < exchanging < everything


def test_plans_that_do_not_fit_are_not_predicted(make):
    params = {"m": 10**6, "k": 10**6, "n": 10**6}
    with pytest.raises(CannotPredict, match=r"matmul"):
        predict(make("dense_matmul", params, dtype="f32"))


@pytest.mark.parametrize(("fitting", "largest"), [({128, 256, 512}, 256), ({256}, 0)])
def test_the_largest_square_is_the_last_before_one_does_not_fit(monkeypatch, fitting, largest):
    monkeypatch.setattr(
        predict_contractions, "_square_fits", lambda size, dtype, partials, target: size in fitting
    )
    found = predict_contractions._largest_square("float32", "float32", target("gc2"))
    assert found == largest


def test_no_square_may_fit(monkeypatch, make):
    monkeypatch.setattr(predict_contractions, "_largest_square", lambda *_: 0)
    with pytest.raises(CannotPredict, match=r"no square matmul of 128 rows fits"):
        predict(make("gemm_largest_square", {}, dtype="f32"))


@pytest.mark.parametrize("size", [2**40, 2**53])
def test_sizes_that_are_out_of_range_together(make, size):
    params = {"input": size, "filter": 3, "in_chans": size, "out_chans": size}
    with pytest.raises(CannotPredict, match="its sizes together are out of range"):
        predict(make("conv_forward", params, dtype="f16"))


def test_a_size_that_is_out_of_range(make):
    with pytest.raises(CannotPredict, match="the parameter 'tiles' is out of range"):
        predict(make("host", {"tiles": "1e999"}))
