"""Spans of the host's time: who gets them, and that they cost nothing without a sink."""

import threading

import pytest

from ipu_tf.base import spans


@pytest.fixture(autouse=True)
def no_sinks(monkeypatch):
    """Leaves out the sinks of other tests' strategies."""
    monkeypatch.setattr(spans, "_sinks", ())


class Seen:
    """A sink that keeps what it gets."""

    def __init__(self):
        self.events = []

    def began(self, name, category, program):
        self.events.append(("began", name, category, program))

    def ended(self, span):
        self.events.append(("ended", span.name))
        self.last = span


def test_without_a_sink_marked_code_shares_one_idle_context():
    assert not spans.are_recorded()
    assert spans.span("a", "trace") is spans.span("b", "user", program="p", steps=3)


def test_a_sink_gets_the_begin_and_the_end_of_a_span():
    seen = Seen()
    with spans.attached(seen):
        assert not spans.are_recorded()  # It keeps none.
        with spans.span("compile", "compile", program="p"), spans.span("emit", "compile"):
            pass
    with spans.span("later", "user"):
        pass
    assert seen.events == [
        ("began", "compile", "compile", "p"),
        ("began", "emit", "compile", ""),
        ("ended", "emit"),
        ("ended", "compile"),
    ]
    assert seen.last.track == threading.current_thread().name
    assert 0 < seen.last.begin_ns <= seen.last.end_ns


def test_recorders_get_no_unrecorded_spans():
    recorder, other = spans.Recorder(), Seen()
    with spans.attached(recorder), spans.attached(other), spans.unrecorded():
        with spans.span("plan", "compile"):
            pass
        spans.record("wait", "infeed", begin_ns=0)
    assert recorder.spans == ()
    assert [event[:2] for event in other.events if event[0] == "ended"] == [
        ("ended", "plan"),
        ("ended", "wait"),
    ]


def test_a_span_ends_with_an_exception():
    seen = Seen()
    with spans.attached(seen), pytest.raises(ZeroDivisionError), spans.span("a", "user"):
        _ = 1 / 0
    assert seen.events[-1] == ("ended", "a")


def test_a_sink_that_sees_a_span_begin_sees_it_end():
    seen = Seen()
    spans.attach(seen)
    with spans.span("a", "user"):
        spans.detach(seen)
    assert seen.events == [("began", "a", "user", ""), ("ended", "a")]


def test_a_recorder_keeps_the_last_spans_and_counts_the_others():
    recorder = spans.Recorder(capacity=3)
    with spans.attached(recorder):
        for name in "abcde":
            with spans.span(name, "user"):
                pass
    assert [span.name for span in recorder.spans] == ["c", "d", "e"]
    assert recorder.dropped == 2
    recorder.clear()
    assert (recorder.spans, recorder.dropped) == ((), 0)


def test_a_cleared_recorder_drops_the_spans_that_are_open():
    recorder = spans.Recorder()
    with spans.attached(recorder), spans.span("a", "user"):
        recorder.clear()
    assert recorder.spans == ()
