"""Reports as text."""

import dataclasses

import pytest

from ipu_tf.profile.report import Report
from ipu_tf.profile.text import units
from ipu_tf.profile.text.nonfinite_text import histogram
from ipu_tf.programs.nonfinite import ValueSummary
from tests.profile.programs import device_program, fault, overflowing, program


def summary(device=None, **options):
    return Report(programs=(program(device),)).summary(**options)


def test_overview_has_units_and_says_that_it_is_modelled():
    text = summary(device_program())
    assert "on one gc200 IPU, 4 tiles at 1.33 GHz; all figures are modelled" in text
    assert "1,000 cycles a step, 751.9 ns; 6 samples a step, 7,980,000.0 samples/s" in text
    assert "compute 70.0%, exchange 18.0%, sync 2.0%, host 10.0%" in text
    assert "tile balance  75.0%" in text


def test_layers_have_forward_backward_and_update_apart():
    lines = summary(device_program()).splitlines()
    header = next(line for line in lines if "cycles by layer (2 of 2)" in line)
    assert header.split()[-5:] == ["all", "share", "forward", "backward", "update"]
    row = lines[lines.index(header) + 1]
    assert row.split() == ["net/dense", "900", "90.0%", "600", "200", "100", "━" * 9]


def test_only_ten_layers_are_shown():
    step = device_program().steps[1]
    steps = tuple(dataclasses.replace(step, layer=f"layer_{index:02}") for index in range(12))
    text = summary(device_program(steps=steps))
    assert "cycles by layer (10 of 12)" in text
    assert "layer_09" in text
    assert "layer_10" not in text


def test_memory_has_the_limit_and_the_verdict():
    text = summary(device_program())
    assert "max 0.1 KiB (tile 2), mean 0.1 KiB of 1.0 KiB: fits" in text
    assert "weights, always live" in text
    assert "activations, at the peak" in text
    assert "peak at step 1 of 4: dot.2, net/dense" in text
    assert "OUT OF MEMORY by 0.0 KiB" in summary(overflowing())


def test_what_does_not_fit_is_explained():
    lines = [line.strip() for line in summary(overflowing()).splitlines()]
    (table,) = [n for n, line in enumerate(lines) if line.startswith("largest on tile 2, KiB")]
    assert lines[table].endswith("layer")
    assert lines[table + 1].split() == ["net/dense/kernel", "0.0", "weights", "net/dense"]
    advice = lines[lines.index("to make room:") + 1]
    assert advice.startswith("split the model over at least 2 IPUs (pipelining)")
    assert "to make room" not in summary(device_program())


def test_a_fault_has_its_place_its_values_and_a_way_out():
    traced = program(device_program())
    traced.nonfinite.append(fault())
    lines = Report(programs=(traced,)).summary().splitlines()
    first = lines.index("  first value that is not finite: overflow in layer 'net/dense'")
    shown = " ".join(" ".join(lines[first:]).split())
    for part in (
        "operation net/dense/MatMul (MatMul)",
        "computed in step 1 of the device program, superstep 'multiply' on 3 tiles (0 to 1, 3), "
        "the first on tile 3 of IPU 0",
        "when run 3, replica 1, iteration 4 of 'while'",
        "operands net/dense/MatMul/x float16[6, 8]: -3 to 60000; net/dense/MatMul/kernel ",
        "result result 0 float16[6, 10]: 1 to 3e+38, 1 infinite",
        "first at [0, 2], among 1, -2.5, inf, -inf, nan",
        "to do its operands grew too large: lower the learning rate, or clip the gradients",
        "from 2^-2 to below 2^-1 3 0 from 2^0 to below 2^1 0 80",
    ):
        assert part in shown, shown
    assert "not finite" not in summary(device_program())


def test_what_is_harmless_says_so():
    flushed = dataclasses.replace(fault(), fault="underflow", lost=7, factor=8.0, kept=7)
    traced = program(device_program())
    traced.nonfinite += [flushed, dataclasses.replace(fault(), handled=True)]
    shown = " ".join(Report(programs=(traced,)).summary().split())
    for part in (
        "first gradient that flushes to zero in layer 'net/dense'",
        "flushed 7 values are 0 and should not be",
        "first at [0, 2], where 1, -2.5, inf, -inf, nan should be",
        "to do raise the loss scale: 8 times as large it keeps 7 of them",
        "first gradient that overflows, handled by loss scaling: overflow in layer 'net/dense'",
    ):
        assert part in shown, shown


def test_a_histogram_of_many_sizes_has_twelve_rows():
    values = ValueSummary(
        name="x",
        dtype="float32",
        shape=(40,),
        low=1.0,
        high=1e12,
        exponents=tuple((exponent, 1) for exponent in range(40)),
    )
    rows = histogram([values])
    assert len(rows) == 10
    assert rows[0] == ("from 2^0 to below 2^4", (4,))
    assert sum(counts[0] for _, counts in rows) == 40


def test_transfers_with_the_host_have_a_name():
    assert "(host)" in summary(device_program())


def test_what_is_missing_is_said():
    device = device_program(unsupported={"fft": ("net/dense", "")}, notes=("a loop",))
    text = summary(device)
    assert "incomplete: 'fft' has no cost, in net/dense, (no layer)" in text
    assert "note: a loop" in text


def test_programs_that_are_not_compiled_say_so():
    text = summary()
    assert "is not compiled for the machine" in text
    assert "2 tile ops, 1 native contractions" in text
    assert "native, no tile op: Conv3D in net" in text


def test_native_contractions_are_counted_by_layer():
    one = program()
    native = [*one.native_ops, *one.native_ops]
    text = Report(programs=(dataclasses.replace(one, native_ops=native),)).summary()
    assert "native, no tile op: 2 Conv3D in net" in text


def test_programs_that_cannot_be_compiled_say_why():
    reason = "it cannot be compiled: " + "of many words " * 12
    text = Report(programs=(dataclasses.replace(program(), refusal=reason),)).summary()
    assert "it cannot be compiled: of many words" in text
    assert max(map(len, text.splitlines())) <= 100


def test_plans_fit_a_page():
    assert max(map(len, summary(plans=True).splitlines())) <= 100


def test_plans_are_listed_on_request():
    assert "rows 2, columns 2, float32 partials, stochastic rounding" in summary(plans=True)
    assert "6x10x8 float16" in summary(plans=True) or "6x8x10 float16" in summary(plans=True)
    assert "float32 partials" not in summary()


def test_several_programs_and_notes():
    report = Report(programs=(program(device_program()), program()), notes=("assumed SGD",))
    assert str(report).count("Program 'net.train_step'") == 2
    assert str(report).endswith("note: assumed SGD")
    assert len(report.tile_ops) == 4
    assert len(report.native_ops) == 2
    assert not report.complete


def test_empty_report_says_what_to_do():
    assert "call `strategy.run`" in Report().summary()


def test_complete_means_that_everything_has_a_cost():
    assert Report(programs=(program(device_program()),)).complete
    lacking = device_program(unsupported={"fft": ("",)})
    assert not Report(programs=(program(lacking),)).complete


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (7, "7 B"), (7.25, "7.2 B"), (999.96, "1.0 kB"), (1.5e9, "1.5 GB")],
)
def test_counts(value, text):
    assert units.count(value, "B") == text


def test_count_without_unit():
    assert units.count(12) == "12"


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.5 s"), (1e-3, "1.0 ms"), (2e-6, "2.0 us"), (0.0, "0.0 ns")]
)
def test_durations(seconds, text):
    assert units.duration(seconds) == text
