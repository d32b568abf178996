"""Progress of tracing and compilation: plain lines, or one changing line on a terminal."""

import io
import time

import tensorflow as tf

import ipu_tf
from ipu_tf.base import spans
from ipu_tf.profile.text import progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self):
        return True


def compile_something():
    with spans.span("trace", "trace", program="a [b]"):
        pass
    with spans.span("compile", "compile", program="a [b]"), spans.span("emit", "compile"):
        pass
    with spans.span("execute", "execution", program="a [b]"):
        pass


def test_plain_lines_name_the_program_and_what_is_done():
    stream = io.StringIO()
    with progress.showing_progress(stream):
        compile_something()
    compile_something()
    assert stream.getvalue() == "a [b]: trace\na [b]: compile\nemit\n"


def test_nested_progress_is_shown_once():
    outer, inner = io.StringIO(), io.StringIO()
    with progress.showing_progress(outer), progress.showing_progress(inner):
        compile_something()
    assert inner.getvalue() == ""
    assert outer.getvalue().count("emit") == 1


def test_a_terminal_shows_one_line_and_removes_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    with progress.showing_progress(stream):
        with spans.span("compile", "compile", program="a [b]"):
            until = time.monotonic() + 10  # It is drawn some times a second.
            while "a [b]: compile" not in stream.getvalue() and time.monotonic() < until:
                time.sleep(0.01)
        assert "a [b]: compile" in stream.getvalue()
        assert "\x1b[2K" in stream.getvalue().rpartition("compile")[2]  # The line is erased.


def test_progress_records_nothing():
    with progress.showing_progress(io.StringIO()):
        assert ipu_tf.IPUStrategy().report().host is None


def test_a_strategy_shows_progress_on_a_terminal_alone(monkeypatch):
    shown = []
    monkeypatch.setattr(progress, "showing_progress", shown.append)
    monkeypatch.setattr("sys.stderr", io.StringIO())
    with progress.showing_progress_on_terminal():
        pass
    assert shown == []
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    progress.showing_progress_on_terminal()
    assert shown == [terminal]
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--show_progress_bar=false")
    progress.showing_progress_on_terminal()
    assert shown == [terminal]
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--show_progress_bar=true")
    monkeypatch.setattr("sys.stderr", stream := io.StringIO())
    progress.showing_progress_on_terminal()
    assert shown == [terminal, stream]


def test_cycles_are_logged_if_the_flags_ask_for_them(monkeypatch, caplog):
    strategy = ipu_tf.IPUStrategy()

    def doubled(x):
        return x + x

    strategy.run(tf.function(doubled), (tf.ones(4),))
    assert "cycles a run" not in caplog.text
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--log_cycle_count=0")
    strategy.run(tf.function(doubled), (tf.ones(8),))
    cycles = strategy.report().programs[-1].device.cycles
    assert f"takes {cycles} cycles a run (modelled)." in caplog.text
