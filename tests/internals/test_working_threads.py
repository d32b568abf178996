"""Threads work that run programs or wait for files, networks and processes; others wait."""

import os
import socket
import subprocess
import sys
import threading
import time
import types
from pathlib import Path

import pytest

from ipu_tf.internals import working_threads
from ipu_tf.internals.working_threads import any_works


@pytest.fixture
def others():
    """Identifiers of the threads that are there before, which do not count."""
    return {thread.ident for thread in threading.enumerate()}


def works_during(work, others):
    """Returns whether any thread works while one is in a call that began a moment ago."""
    thread = threading.Thread(target=work)
    thread.start()
    deadline = time.monotonic() + 5
    while (found := any_works(apart_from=others)) is False and time.monotonic() < deadline:
        time.sleep(0.01)
        if thread.is_alive() and working_threads._system_call(thread.native_id):
            break
    return found or any_works(apart_from=others), thread


@pytest.mark.parametrize("kind", ["event", "limited event", "sleep"])
def test_a_thread_that_waits_for_threads_or_sleeps_does_not_work(kind, others):
    event = threading.Event()
    waits = {
        "event": event.wait,
        "limited event": lambda: event.wait(60),
        "sleep": lambda: time.sleep(0.5),
    }
    found, thread = works_during(waits[kind], others)
    event.set()
    thread.join()
    assert not found


def test_a_thread_that_waits_for_a_file_works(others):
    end, begin = os.pipe()
    found, thread = works_during(lambda: os.read(end, 1), others)
    assert found
    assert not any_works(apart_from={*others, thread.ident})
    os.write(begin, b"1")
    thread.join()
    os.close(end)
    os.close(begin)


def test_a_server_does_not_work(others):
    with socket.create_server(("localhost", 0)) as server:
        found, thread = works_during(lambda: server.accept()[0].close(), others)
        socket.create_connection(server.getsockname()).close()
        thread.join()
    assert not found


def test_a_daemon_does_not_work(others):
    end, begin = os.pipe()
    thread = threading.Thread(target=os.read, args=(end, 1), daemon=True)
    thread.start()
    time.sleep(0.05)
    assert not any_works(apart_from=others)
    os.write(begin, b"1")
    thread.join()
    os.close(end)
    os.close(begin)


def test_a_thread_that_waits_for_a_process_works(others):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    found, thread = works_during(process.wait, others)
    process.communicate(b"\n")
    thread.join()
    assert found


def test_a_thread_that_runs_a_program_works(others):
    module = types.ModuleType("tensorflow.python.execute")
    exec("def run(event):\n while not event.is_set(): pause(0.01)", vars(module))
    module.pause = time.sleep
    event = threading.Event()
    found, thread = works_during(lambda: module.run(event), others)
    event.set()
    thread.join()
    assert found


def test_threads_that_the_system_does_not_tell_about_do_not_work(others, monkeypatch):
    def refused(path):
        raise PermissionError(path)

    monkeypatch.setattr(Path, "read_text", refused)
    end, begin = os.pipe()
    thread = threading.Thread(target=os.read, args=(end, 1))
    thread.start()
    assert not any_works(apart_from=others)
    os.write(begin, b"1")
    thread.join()
    os.close(end)
    os.close(begin)
