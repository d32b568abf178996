"""The host timeline of a report: what it holds, and how it is stored."""

import dataclasses
import gc
import json
import re

import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.base import spans
from ipu_tf.profile.data.json_format import ReportFileError
from ipu_tf.profile.figures.host_timeline import device_seconds, timeline_of
from ipu_tf.profile.html.host_data import host_data
from ipu_tf.profile.report import Report
from ipu_tf.profile.text.host_text import host_lines
from ipu_tf.programs.program import Program
from tests.profile import programs


def recorded(*rows):
    """A recorder with spans of name, track, begin and end."""
    recorder = spans.Recorder()
    for name, track, begin, end in rows:
        start = recorder.began_ns
        recorder.ended(
            spans.Span(
                name=name, category="user", track=track, begin_ns=start + begin, end_ns=start + end
            )
        )
    return recorder


def nests(timeline):
    """Whether the spans of each track lie one in another or one after another."""
    open_until = {}
    for span in timeline.spans:
        ends = open_until.setdefault(span.track, [])
        while ends and ends[-1] <= span.begin_ns:
            ends.pop()
        if ends and span.end_ns > ends[-1]:
            return False
        ends.append(span.end_ns)
    return True


def test_spans_come_in_the_order_in_which_they_begin():
    timeline = timeline_of(recorded(("in", "t", 2, 3), ("out", "t", 1, 5), ("next", "t", 5, 9)))
    found = [(span.name, span.begin_ns, span.end_ns) for span in timeline.spans]
    assert found == [("out", 1, 5), ("in", 2, 3), ("next", 5, 9)]
    assert timeline.tracks == ("t",)


def test_spans_that_overlap_have_tracks_of_their_own():
    rows = ("a", "t", 0, 4), ("b", "t", 2, 6), ("c", "t", 3, 4), ("d", "t", 5, 6), ("e", "t", 7, 8)
    timeline = timeline_of(recorded(*rows))
    assert [span.track for span in timeline.spans] == ["t", "t (2)", "t", "t", "t"]
    assert nests(timeline)


@pytest.fixture(scope="module")
def profiled():
    strategy = ipu_tf.IPUStrategy(profile=True)

    @tf.function
    def double(x):
        return tf.matmul(x, x)

    with ipu_tf.profile.trace("mine"):
        strategy.run(double, args=(tf.ones((4, 4)),))
        strategy.run(double, args=(tf.ones((4, 4)),))
    return strategy


def test_tracing_hlo_stages_and_executions_are_spans(profiled):
    timeline = profiled.report().host
    names = [(span.category, span.name, span.program) for span in timeline.spans]
    assert names == [
        ("user", "mine", ""),
        ("execution", "run", "double"),
        ("trace", "trace", "double"),
        ("hlo", "extract HLO", "double"),
        ("compile", "compile", "double"),
        ("compile", "simplify", "double"),
        ("compile", "plan and lower", "double"),
        ("compile", "emit", "double"),
        ("compile", "lay out memory", "double"),
        ("execution", "run", "double"),
    ]
    assert nests(timeline)
    assert [span.steps for span in timeline.spans if span.category == "execution"] == [1, 1]


def test_a_strategy_records_nothing_unless_it_is_asked_to():
    strategy = ipu_tf.IPUStrategy()
    assert strategy.report().host is None
    strategy.record_host()
    assert list(strategy.report().host.spans) == []


def test_the_recorder_ends_with_its_strategy():
    gc.collect()
    before = len(spans._sinks)
    strategy = ipu_tf.IPUStrategy(profile=True)
    assert len(spans._sinks) == before + 1
    del strategy
    gc.collect()
    assert len(spans._sinks) == before


def test_an_estimate_in_the_scope_has_no_host_timeline():
    strategy = ipu_tf.IPUStrategy(profile=True)
    with strategy.programs_apart():
        assert strategy.report().host is None
    assert strategy.report().host is not None


def test_reset_report_empties_the_timeline():
    strategy = ipu_tf.IPUStrategy(profile=True)
    with ipu_tf.profile.trace("mine"):
        pass
    assert [span.name for span in strategy.report().host.spans] == ["mine"]
    strategy.reset_report()
    assert list(strategy.report().host.spans) == []


def test_a_name_has_to_be_a_string():
    message = r"trace` takes the name of a span, a string. Received: 3 of type int\."
    with pytest.raises(TypeError, match=message):
        ipu_tf.profile.trace(3)


def test_a_file_keeps_the_timeline(profiled, tmp_path):
    report = profiled.report()
    report.to_json(tmp_path / "a.json")
    again = Report.from_json(tmp_path / "a.json").host
    assert [*again.spans] == [*report.host.spans]
    assert (again.began_unix_ns, again.dropped) == (report.host.began_unix_ns, 0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"span_kinds": [9]}, "HostTimeline.span_kinds must be from 0 to 0. Received: 9 to 9"),
        ({"span_tracks": [-1]}, "HostTimeline.span_tracks must be from 0 to 0. Received: -1 to -1"),
        ({"begin_ns": [-5]}, "HostTimeline.begin_ns must not be negative. Received: -5"),
        ({"duration_ns": [1, 2]}, "HostTimeline needs lists of one length. Received: "),
    ],
)
def test_a_damaged_timeline_is_refused(changes, message, tmp_path):
    path = tmp_path / "a.json"
    report = Report(host=timeline_of(recorded(("a", "t", 0, 1))))
    report.to_json(path)
    plain = json.loads(path.read_text())
    plain["report"]["host"] |= changes
    path.write_text(json.dumps(plain))
    with pytest.raises(ReportFileError, match=f"a.json is damaged: report.host: {message}"):
        Report.from_json(path)
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(report.host, **{k: np.array(v) for k, v in changes.items()})


def test_the_text_has_the_hosts_time_beside_the_devices():
    recorder = spans.Recorder()
    rows = [
        ("execute", "execution", 0, 1000, 6),
        ("wait", "infeed", 100, 400, 0),
        ("on_epoch_end", "callback", 1000, 1500, 0),
    ]
    for name, category, begin, end, steps in rows:
        recorder.ended(
            spans.Span(
                name=name,
                category=category,
                track="t",
                begin_ns=recorder.began_ns + begin,
                end_ns=recorder.began_ns + end,
                program="net.train_step" if steps else "",
                steps=steps,
            )
        )
    one = Program(name="net.train_step", device=programs.device_program())
    report = Report(programs=(one,), host=timeline_of(recorder))
    text = report.summary()
    assert re.search(r"^infeed +1  300.0 ns +20.0%", text, re.MULTILINE)
    assert re.search(r"^execution +1  700.0 ns +46.7%", text, re.MULTILINE)
    assert re.search(r"^callback +1  500.0 ns +33.3%", text, re.MULTILINE)
    # 6 steps of 1,000 cycles at 1.33 GHz.
    assert "the device takes 4.5 us for these executions, modelled" in text


def test_the_text_says_what_is_missing():
    recorder = spans.Recorder(capacity=1)
    for _ in range(3):
        recorder.ended(
            spans.Span(
                name="a",
                category="user",
                track="t",
                begin_ns=recorder.began_ns,
                end_ns=recorder.began_ns + 1,
            )
        )
    one = Program(name="p", device=programs.device_program())
    text = Report(programs=(one,), host=timeline_of(recorder)).summary()
    assert "the oldest 2 spans are missing: there was no room for them" in text
    recorder.clear()
    text = Report(programs=(one,), host=timeline_of(recorder)).summary()
    assert "The host timeline is empty." in text


def test_own_times_are_without_the_spans_inside():
    nested = ("out", "t", 0, 10), ("in", "t", 2, 6), ("deep", "t", 4, 5), ("in", "t", 7, 9)
    timeline = timeline_of(recorded(*nested, ("beside", "u", 3, 8)))
    assert timeline.own_ns.tolist() == [4, 3, 5, 1, 2]  # In the order in which they begin.
    assert host_data(timeline, ())["ownNs"] == timeline.own_ns.tolist()
    text = "\n".join(host_lines(timeline, ()))
    assert re.search(r"user +5 +15.0 ns +100.0%", text)


def test_the_page_has_the_modelled_time_of_the_text(profiled):
    report = profiled.report()
    data, timeline = host_data(report.host, report.programs), report.host
    seconds = sum(data["kindSeconds"][kind] or 0 for kind in timeline.span_kinds)
    assert seconds == device_seconds(timeline, report.programs) > 0


def test_the_work_of_a_report_is_not_recorded():
    strategy = ipu_tf.IPUStrategy(profile=True)

    @tf.function
    def squared(x):
        return tf.matmul(x, x)

    strategy.run(squared, args=(tf.ones((4, 4)),))
    before = len([*strategy.report(insights=False).host.spans])
    strategy.report(insights=True)
    assert any(program.insights_sought for program in strategy.report(insights=False).programs)
    assert len([*strategy.report(insights=False).host.spans]) == before
