"""A reader that waits for elements of cut loops ends only where nothing works."""

import contextlib
import logging
import threading
from types import SimpleNamespace

import pytest

from ipu_tf.base import trial
from ipu_tf.feeds import trial_readers


def test_a_reader_waits_while_another_thread_works(monkeypatch):
    clock = {"monotonic": 0.0, "process_time": 0.0, "thread_time": 0.0}
    monkeypatch.setattr(
        trial_readers, "time", SimpleNamespace(**{n: lambda n=n: clock[n] for n in clock})
    )
    monkeypatch.setattr(trial_readers, "_reading_seconds", {})
    at_work = []
    monkeypatch.setattr(
        trial_readers, "any_works", lambda *, apart_from: bool(at_work and apart_from)
    )
    reader = trial_readers.TrialReader()

    def wait(seconds, *, of_others=0.0):
        clock["monotonic"] += seconds
        clock["thread_time"] += seconds
        clock["process_time"] += seconds + of_others
        reader.check(is_empty=True)

    with trial.steps_limited_to(3):
        wait(99.0)  # No loop was cut.
        wait(99.0)
        trial.note_cut(logging.getLogger(__name__), "A loop runs 3 of 9 iterations", 3)
        wait(1.0)
        wait(11.0, of_others=2.0)
        wait(9.0)
        reader.check(is_empty=False)  # An element: it waits anew.
        wait(9.0)
        at_work.append("reads a file")
        wait(11.0)
        at_work.clear()
        wait(9.0)
        with pytest.raises(RuntimeError, match="no element for 11 s, and no program runs that"):
            wait(2.0)


@pytest.mark.parametrize("serves", [False, True])
def test_a_reader_does_not_wait_for_threads_that_serve_calls(monkeypatch, serves):
    monkeypatch.setattr(trial_readers, "_PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(trial_readers, "_IDLE_SHARE", 99.0)
    monkeypatch.setattr(trial_readers, "any_works", lambda *, apart_from: bool(known - apart_from))
    begun, ends, known = threading.Event(), threading.Event(), set()

    def serve():
        known.add(threading.get_ident())
        with trial_readers.unread() if serves else contextlib.nullcontext():
            begun.set()
            ends.wait(30)

    thread = threading.Thread(target=serve)
    thread.start()
    begun.wait(30)
    reader = trial_readers.TrialReader()
    wait = pytest.raises(RuntimeError) if serves else contextlib.nullcontext()
    with trial.steps_limited_to(3):
        trial.note_cut(logging.getLogger(__name__), "A loop runs 3 of 9 iterations", 3)
        with wait:
            reader.check(is_empty=True)
    ends.set()
    thread.join()
    assert not known & trial_readers._serving
