"""Collectives of two processes, and what each process is told when they do not meet."""

import re
import time
import types

import pytest

from ipu_tf.processes import peers
from ipu_tf.processes.calls import CollectiveCall, CollectiveError, check_equal
from ipu_tf.processes.limits import HEARTBEAT, WAIT, Limits
from ipu_tf.processes.peers import Peers
from tests.processes.mpi import run_instances

pytest.importorskip("mpi4py")


def call(**changes):
    told = {"kind": "all-reduce", "name": "loss", "dtype": "float32", "shape": "[3]"}
    return CollectiveCall(**told | {"reduction": "add"} | changes)


def test_a_call_survives_its_way():
    assert CollectiveCall.of(call().packed()) == call()
    check_equal({0: call(), 1: call()})


@pytest.mark.parametrize(
    ("changes", "difference"),
    [
        ({"name": "accuracy"}, "are at different collectives"),
        ({"kind": "all-gather"}, "call different collectives"),
        ({"reduction": "max"}, "reduce values differently"),
        ({"dtype": "float16"}, "have values of different types"),
        ({"shape": "[4]"}, "have values of different shapes"),
        ({"program": "b"}, "run different programs"),
        ({"order": 3}, "have called it a different number of times"),
        ({"replicas": "replicas 0 to 3"}, "join different replicas"),
    ],
)
def test_the_first_instances_that_differ_are_named(changes, difference):
    with pytest.raises(CollectiveError) as caught:
        check_equal({0: call(), 1: call(), 2: call(**changes), 3: call(shape="[7]")})
    assert str(caught.value).startswith(
        f"Instances 0 and 2 {difference}: instance 0 calls {call()}; instance 2 calls "
        f"{call(**changes)}. All instances have to call the same collectives"
    )
    assert str(call()) == "all-reduce (add) 'loss' of float32 [3], call 0"


def test_limits_are_set_by_the_environment():
    assert Limits.of({}) == Limits()
    found = Limits.of({WAIT: "0.5", HEARTBEAT: "7"})
    assert (found.wait_seconds, found.heartbeat_seconds) == (0.5, 7)
    for text in ("-1", "0", "soon", "nan"):
        with pytest.raises(ValueError, match=f"{WAIT} must be .* above 0. Received: '{text}'"):
            Limits.of({WAIT: text})


def test_a_short_wait_does_not_sleep(monkeypatch):
    """The shortest sleep takes as long as an exchange of small values."""
    waiting = Peers.__new__(Peers)
    waiting._ends, waiting._heard, waiting._limits = {}, {1: time.monotonic()}, Limits()
    monkeypatch.setattr(waiting, "listen", lambda: None)
    slept, seconds = [], iter([0.0] * 9 + [1.0] * 9)
    clock = types.SimpleNamespace(monotonic=lambda: next(seconds), sleep=slept.append)
    monkeypatch.setattr(peers, "time", clock)
    looks = iter([1, 1, 1, None])
    waiting._wait(lambda: next(looks), call())
    assert slept == []
    looks = iter([1, 1, 1, None])
    waiting._wait(lambda: next(looks), call())
    assert slept


def run(case, count=2, **changes):
    return run_instances(count, "tests.processes.worker", case, **changes)


def test_two_processes_sum_and_gather():
    ended = run("agrees")
    assert ended.status == 0, ended.text
    assert all(f"instance {index} is done" in ended.text for index in range(2))


@pytest.mark.slow
@pytest.mark.parametrize(("count", "replicas"), [(4, 4), (2, 6), (3, 6), (2, 4), (3, 9)])
def test_processes_of_several_replicas_sum(count, replicas):
    ended = run("agrees", count, replicas=replicas)
    assert ended.status == 0, ended.text


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    ("case", "told"),
    [
        (
            "differs_in_name",
            {
                "Instances 0 and 1 are at different collectives: instance 0 calls all-reduce (add)"
                " 'x0' of float64 [1], call 1; instance 1 calls all-reduce (add) 'x1'": 2
            },
        ),
        (
            "differs_in_shape",
            {
                "have values of different shapes: instance 0 calls all-reduce (add) 'x' of float64"
                " [1], call 0; instance 1 calls all-reduce (add) 'x' of float64 [2], call 0.": 2
            },
        ),
        ("differs_in_kind", {"Instances 0 and 1 call different collectives": 2}),
        (
            "one_raises",
            {
                "ValueError: the data of this instance are gone": 2,
                "instance 1 failed: ValueError: the data": 1,
            },
        ),
        ("one_ends", {"'x' of float64 [1], call 1; instance 1 has ended, and calls it no more": 1}),
    ],
)
def test_every_process_is_told_why_they_did_not_meet(case, told, count):
    begin = time.monotonic()
    ended = run(case, count)
    assert ended.status != 0
    assert time.monotonic() - begin < 40
    for text, times in told.items():
        assert ended.text.count(text) >= times, ended.text


@pytest.mark.slow
def test_an_exception_of_one_of_four_reaches_all():
    ended = run("one_raises", 4)
    assert ended.status != 0
    assert ended.text.count("instance 1 failed: ValueError: the data") == 3, ended.text


@pytest.mark.slow
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize(
    ("case", "limit", "told"),
    [
        (
            "one_never_comes",
            {WAIT: "1.5"},
            "instance 1 runs, but has not come for 1.5 s. All instances have to call it; "
            "IPU_TF_COLLECTIVE_SECONDS sets the limit",
        ),
        (
            "one_is_stopped",
            {HEARTBEAT: "1.5"},
            "instance 1 has given no sign of life for 1.5 s: it is stopped, or its host is gone. "
            "IPU_TF_HEARTBEAT_SECONDS sets the limit",
        ),
        ("one_never_starts", {WAIT: "1.5"}, "Not all instances of the job have started MPI within"),
    ],
)
def test_a_process_that_does_not_come_is_named(case, limit, told, count):
    begin = time.monotonic()
    ended = run(case, count, **limit)
    assert ended.status != 0
    assert told in ended.text, ended.text
    if case != "one_never_starts":  # All but the one that is missing.
        names = {f"Instance {index} waits at" for index in (0, 2, 3)[: count - 1]}
        assert {name for name in names if name in ended.text} == names, ended.text
    if case == "one_never_comes":
        assert re.search(r"instance (\d) failed: Instance \1 waits at", ended.text), ended.text
    assert time.monotonic() - begin < 40
