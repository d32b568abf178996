"""What an instance does in tests of the communicator: `python -m tests.processes.worker CASE`."""

import os
import signal
import sys
import time

import numpy as np

from ipu_tf.processes import collectives
from ipu_tf.processes.calls import CollectiveCall
from ipu_tf.processes.instances import instances
from ipu_tf.processes.job import communicator
from ipu_tf.processes.reduction_tree import nodes, pairs

JOB = instances()


def reduce(value, reduction="add", name="x"):
    """Returns the reduced values of all replicas, one row for each of those here."""
    value, first = np.array(value), JOB.replica_offset
    rows = dict(enumerate(value, first))
    for left, right in pairs(first, len(value), JOB.total_replicas):
        rows[left] = rows[left] + rows.pop(right)
    assert tuple(rows) == nodes(first, len(value), JOB.total_replicas)
    call = CollectiveCall(
        kind="all-reduce",
        name=name,
        dtype=value.dtype.name,
        shape=str(list(value.shape[1:])),
        reduction=reduction,
    )
    return communicator().all_reduce(
        call,
        np.stack(list(rows.values())),
        first=first,
        count=JOB.local_replicas,
        group=JOB.total_replicas,
        join=reduction,
    )


def sums():
    collectives.BLOCK_BYTES = 1 << 16
    for size in (1, 1000, 100_003):
        whole = np.random.default_rng(size).normal(size=(JOB.total_replicas, size))
        whole = whole.astype(np.float32)
        own = whole[JOB.replica_offset : JOB.replica_offset + JOB.local_replicas]
        rows = dict(enumerate(whole))
        for left, right in pairs(0, len(whole), len(whole)):
            rows[left] = rows[left] + rows.pop(right)
        assert reduce(own).tobytes() == rows[0].tobytes()


def reductions():
    own = np.arange(3, dtype=np.int32)[None] + 2 * JOB.index
    assert reduce(own, "mul").tolist() == [0, 3, 8]
    assert reduce(own, "min").tolist() == [0, 1, 2]
    assert reduce(own, "max").tolist() == [2, 3, 4]
    truth = np.array([[JOB.index == 1, True]])
    assert reduce(truth, "logical_and").tolist() == [False, True]
    assert reduce(truth, "logical_or").tolist() == [True, True]


def gathers():
    own = bytes([JOB.index]) * (10 + 50_000 * JOB.index)
    found = communicator().all_gather(CollectiveCall(kind="all-gather", name="x"), own)
    assert [len(one) for one in found] == [10 + 50_000 * index for index in range(JOB.count)]
    assert all(set(one) == {index} for index, one in enumerate(found))
    for root in range(JOB.count):
        for size in (3, 40_000):
            call = CollectiveCall(kind="broadcast", name="x")
            assert communicator().broadcast(call, own[:1] * size, root) == bytes([root]) * size
    communicator().barrier()


def agrees():
    sums()
    gathers()
    if JOB.count == JOB.total_replicas == 2:
        reductions()
    print(f"instance {JOB.index} is done", flush=True)


def differs_in_name():
    reduce([[1.0]])
    reduce([[1.0]], name=f"x{JOB.index}")


def differs_in_shape():
    reduce([[1.0] * (1 + JOB.index)])


def differs_in_kind():
    if JOB.index == 1:
        communicator().barrier("x")
    reduce([[1.0]])


def one_raises():
    communicator().barrier()
    if JOB.index == 1:
        raise ValueError("the data of this instance are gone")
    reduce([[1.0]])


def one_ends():
    communicator().barrier()
    if JOB.index == 0:
        reduce([[1.0]])


def one_never_comes():
    communicator().barrier()
    if JOB.index == 1:
        time.sleep(6)
    reduce([[1.0]])


def one_is_stopped():
    communicator().barrier()
    if JOB.index == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    reduce([[1.0]])


def one_never_starts():
    if JOB.index == 1:
        time.sleep(6)
    communicator()


def times():
    for size in (1, 250_000, 2_500_000, 25_000_000):
        own = np.ones((1, size), np.float32)
        reduce(own)
        begin, count = time.perf_counter(), 200 if size == 1 else 10
        for _ in range(count):
            reduce(own)
        seconds = (time.perf_counter() - begin) / count
        if JOB.index == 0:
            print(f"{4 * size} bytes: {1e3 * seconds:.3f} ms", flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
