"""How the text of reports is drawn: its first line, names, tables, bars, widths and colours."""

import dataclasses
import html
import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.profile.report import Report
from ipu_tf.profile.text import rendering
from ipu_tf.profile.text.names import cut_apart, cut_middle
from ipu_tf.profile.text.rendering import Rendering
from ipu_tf.profile.text.table import table, without_zeros
from ipu_tf.profile.text.verdict import limit_of, verdict
from ipu_tf.programs.insight import Insight
from ipu_tf.programs.program import Program
from ipu_tf.tile_program.moves import Moves
from tests.profile.programs import device_program, overflowing, program
from tests.profile.traces.test_trace_slices import deployed

SAMPLER = "mcmc_sample_chain/trace_scan/while/body/leapfrog_{}/mh_one_step/inner_kernel_results"


def drawn(text, **options):
    with rendering.rendering(Rendering(**options)):
        return text()


def with_cycles(**cycles):
    """A program of one step with these cycles."""
    device = device_program()
    step = device.steps[0]
    (superstep,) = step.supersteps
    plain = {f"{kind}_cycles": 0 for kind in ("sync", "exchange", "compute", "host")}
    superstep = dataclasses.replace(superstep, busy_tile_cycles=0, **plain | cycles)
    return device_program(steps=(dataclasses.replace(step, supersteps=(superstep,)),))


@pytest.mark.parametrize(
    ("device", "line"),
    [
        (
            with_cycles(host_cycles=30, sync_cycles=10),
            "host-bound, 75.0% of the time: use larger batches, or send narrower types",
        ),
        (
            with_cycles(exchange_cycles=30, sync_cycles=10),
            "exchange-bound, 75.0% of the time: use larger batches, so that tiles compute more",
        ),
        (
            with_cycles(sync_cycles=10),
            "sync-bound, 100.0% of the time: use larger batches: a supers",
        ),
        (
            with_cycles(compute_cycles=10),
            "compute-bound, 100.0% of the time: use larger batches: 0.0% of the tiles are busy",
        ),
        (
            device_program(),
            "compute-bound, 70.0% of the time: use more replicas: the tiles are bus",
        ),
        (
            device_program(unsupported={"fft": ("",)}),
            "incomplete: 'fft' have no cost, so the figur",
        ),
        (overflowing(), "does not fit by 0.0 KiB on IPU 0: split the model over at least 2 IPUs"),
        (with_cycles(), "it does no work that takes time"),
    ],
)
def test_the_first_line_says_what_limits_a_program_and_what_to_do(device, line):
    made = Program(name="net.train_step", device=device)
    assert verdict(made).startswith(line)
    assert Report(programs=(made,)).summary().splitlines()[0].startswith(line)


@pytest.mark.parametrize(
    "cycles",
    [
        {"host_cycles": 30},
        {"exchange_cycles": 30},
        {"sync_cycles": 10},
        {"compute_cycles": 10},
    ],
)
def test_programs_without_batches_are_not_advised_to_change_them(cycles):
    sampler = Program(name="mcmc_sample_chain", device=with_cycles(**cycles))
    assert verdict(sampler).endswith("-bound, 100.0% of the time")
    sought = Program(name="net.fit.train_step", device=with_cycles(**cycles), insights_sought=True)
    assert "larger batches" not in verdict(sought)


def insight(advice, **figures):
    return Insight(change="batch_size", advice=advice, cycles=1, **figures)


def test_a_checked_change_is_advised_before_others():
    insights = (insight("slower", speedup=0.9), insight("`batch_size=8`", speedup=1.5))
    line = verdict(Program(name="net", device=device_program(), insights=insights))
    assert line == "compute-bound, 70.0% of the time: `batch_size=8` (1.50 x)"
    three = [insight(name, speedup=gain) for name, gain in (("c", 1.1), ("a", 1.4), ("b", 1.2))]
    line = verdict(Program(name="net", device=device_program(), insights=tuple(three)))
    assert line == "compute-bound, 70.0% of the time: a (1.40 x), or b (1.20 x)"
    line = verdict(Program(name="net", device=device_program(), insights=insights[:1]))
    assert "slower" not in line
    fits = (insight("half of it", speedup=0.5, makes_fit=True),)
    line = verdict(Program(name="net", device=overflowing(), insights=fits))
    assert line == "does not fit by 0.0 KiB on IPU 0: half of it"


def test_streaming_memory_that_is_too_small_is_said():
    device = device_program()
    ipus = (dataclasses.replace(device.ipus[0], streaming_bytes=5),)
    line = verdict(Program(name="net", device=dataclasses.replace(device, ipus=ipus)))
    assert line == "does not fit into streaming memory: offload less, or use more machines"


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        (
            {"all_reduce_cycles": 9_000},
            "all-reduce-bound, 90.0% of the time: accumulate more",
        ),
        ({"streamed": 950}, "streaming-bound, 95.0% of the time: offload less to streaming memory"),
    ],
)
def test_transfers_may_limit_a_program(changes, line):
    device = device_program()
    if "streamed" in changes:
        moves = Moves(forward=changes["streamed"])
        changes = {"stages": (dataclasses.replace(device.stages[0], streamed=moves),)}
    made = Program(name="net", device=dataclasses.replace(device, **changes))
    assert verdict(made).startswith(line)


def test_float32_contractions_are_advised_to_be_float16():
    (op, *_) = program().tile_ops
    shape = dataclasses.replace(op.shape, dtype="float32")
    single = dataclasses.replace(op, shape=shape)
    line = verdict(Program(name="net.train_step", device=device_program(), tile_ops=[single]))
    assert line.endswith(
        "use float16 for matmuls and convolutions, such as by keras.mixed_precision"
    )


def test_pipelines_may_be_bound_by_their_bubble():
    device = deployed(micro_batches=1, schedule="sequential")
    assert limit_of(device)[0] == "bubble"
    assert "accumulate more micro-batches" in verdict(Program(name="net", device=device))


def test_a_program_without_figures_says_so():
    assert verdict(Program(name="net")) == "'net' is not compiled for the machine"


def test_training_and_evaluation_are_summarised_together():
    training = Program(name="net.train_step", device=device_program())
    evaluation = Program(name="net.test_step", device=with_cycles(host_cycles=30))
    first, _, header, one, two, *_ = (
        Report(programs=(evaluation, training, Program(name="none"))).summary().splitlines()
    )
    assert first.startswith("'net.train_step': compute-bound, 70.0%")
    assert header.split()[:4] == ["programs", "cycles", "time", "samples/s"]
    assert one.split()[:2] == ["net.test_step", "30"]
    assert two.split()[:2] == ["net.train_step", "1,000"]
    assert one.endswith("host, 100.0%")


def test_names_lose_their_middle():
    assert cut_middle("sequential/dense_1/kernel", 25) == "sequential/dense_1/kernel"
    assert cut_middle("sequential/dense_1/kernel", 15) == "sequen...kernel"


def test_names_that_differ_in_the_middle_stay_apart():
    names = [SAMPLER.format(number) for number in range(3)]
    assert len({cut_middle(name, 40) for name in names}) == 1
    cut = cut_apart(names, 40)
    assert [
        f"leapfrog_{number}" in text or f"g_{number}" in text for number, text in enumerate(cut)
    ]
    assert len({*cut}) == 3
    assert all(text.startswith("mcmc_sampl") and len(text) <= 40 for text in cut)


@given(st.lists(st.text("ab/", max_size=60), max_size=6), st.integers(12, 40))
def test_names_never_become_alike(names, width):
    cut = cut_apart(names, width)
    assert len(cut) == len(names)
    assert len({*cut}) == len({*names})
    assert all(text == name for name, text in zip(names, cut, strict=True) if len(name) <= width)


def test_rows_of_samplers_are_told_apart_in_the_text():
    step = device_program().steps[1]
    steps = tuple(
        dataclasses.replace(step, layer=SAMPLER.format(number), name=f"dot.{number}")
        for number in range(3)
    )
    text = drawn(
        Report(programs=(Program(name="n", device=device_program(steps=steps)),)).summary, width=80
    )
    rows = [line for line in text.splitlines() if line.startswith("  mcmc")]
    assert len({row.split()[0] for row in rows}) == 3


def test_rows_of_zeros_are_left_out():
    rows = [("a", "0", "0.0%"), ("b", "0.0", "7"), ("c", "fits", "0"), ("d", "fits")]
    assert without_zeros(rows) == [rows[1], rows[3]]
    assert without_zeros(rows[:1]) == rows[:1]  # A table of nothing says less than zeros.


def test_layers_without_cycles_are_left_out():
    idle = dataclasses.replace(device_program().steps[0], layer="idle", supersteps=())
    steps = (*device_program().steps, idle)
    text = Report(programs=(Program(name="n", device=device_program(steps=steps)),)).summary()
    (line,) = [line for line in text.splitlines() if "cycles by layer" in line]
    assert "(2 of 3)" in line
    assert not re.search(r"^  idle +0 ", text, re.MULTILINE)


def test_bars_show_shares_in_the_characters_of_the_terminal():
    rows = [("a", "1"), ("b", "2")]

    def bars():
        return [line.split()[-1] for line in table(("t", "n"), rows, [0.3, 1.0])][1:]

    assert drawn(bars) == ["━━━", "━" * 10]
    assert drawn(bars, encoding="latin-1") == ["---", "-" * 10]


def test_tables_follow_the_width():
    rows = [("name/" * 20, "1,000,000", "1.0")]
    header = ("title", "a long title of figures", "another long title")
    wide = drawn(lambda: list(table(header, rows)), width=200)
    assert len(wide) == 2
    narrow = drawn(lambda: list(table(header, rows)), width=60)
    assert len(narrow) > 2
    assert max(map(len, narrow)) <= 60


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_text_follows_the_width(width):
    made = Program(name="net.train_step", device=deployed(micro_batches=4))
    report = Report(programs=(made, Program(name="b", device=device_program())))
    for text in (report.summary, report.timeline):
        lines = drawn(text, width=width).splitlines()[1:]  # The first line stays one.
        assert max(map(len, (line for line in lines if not line.startswith("Program ")))) <= width


class Stream(io.StringIO):
    def __init__(self, terminal):
        super().__init__()
        self.terminal = terminal

    def isatty(self):
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "variables", "colour"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
)
def test_colours_are_for_terminals(terminal, variables, colour, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = rendering.for_stream(Stream(terminal))
    assert found.colour is colour
    text = drawn(Report(programs=(program(device_program()),)).summary, colour=found.colour)
    assert ("\x1b[" in text) is colour


def test_printed_reports_have_colours_on_a_terminal_and_summaries_never(monkeypatch):
    report = Report(programs=(program(device_program()),))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout", terminal := Stream(True))
    print(report)
    assert "\x1b[" in terminal.getvalue()
    assert "\x1b[" not in report.summary()
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in str(report)
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setattr("sys.stdout", Stream(False))
    assert "\x1b[" not in str(report)


def test_the_width_is_that_of_the_terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "77")
    assert rendering.for_stream(Stream(True)).width == 77
    assert rendering.for_stream(Stream(False)).width == 100
    monkeypatch.setenv("COLUMNS", "20")
    assert rendering.for_stream(Stream(True)).width == 60


def test_what_does_not_fit_is_red():
    two = Report(programs=(program(overflowing()), program(device_program())))
    assert re.search(r"\x1b\[1;31m\s*OUT OF MEMORY", drawn(two.summary, colour=True))


def test_colours_change_nothing_else():
    report = Report(programs=(program(device_program()), program(overflowing())))
    coloured = re.sub(r"\x1b\[[\d;]*m", "", drawn(report.summary, colour=True))
    plain = drawn(report.summary)
    # Bars show what is left of the whole, too.
    cells = [
        [re.sub(r"[━╸╺ ]+", " ", line).strip() for line in text.splitlines()]
        for text in (coloured, plain)
    ]
    assert cells[0] == cells[1]


def test_names_cannot_move_the_cursor():
    step = dataclasses.replace(device_program().steps[1], layer="evil\x1b[2J\nname [bold]<b>")
    made = Program(name="n", device=device_program(steps=(step,)))
    text = Report(programs=(made,)).summary()
    assert "\x1b" not in text
    assert "evil?[2J?name [bold]<b>" in text


def test_notebooks_show_the_text_with_colours():
    step = dataclasses.replace(device_program().steps[1], layer="a</pre><script>")
    report = Report(programs=(Program(name="n", device=device_program(steps=(step,))),))
    shown = report._repr_html_()
    assert shown.startswith("<pre style=")
    assert "<span style=" in shown
    assert "<script>" not in shown
    plain = html.unescape(re.sub(r"<[^>]*>", "", shown))
    assert [re.sub(r"[━╸╺ ]+", " ", line).strip() for line in plain.splitlines()] == [
        re.sub(r"[━╸╺ ]+", " ", line).strip() for line in report.summary().splitlines()
    ]
