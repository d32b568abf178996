"""The communicator of a process: what keeps it from starting."""

import sys
import types

import pytest

from ipu_tf.processes import job
from ipu_tf.processes.instances import Instances


@pytest.fixture
def two_instances(monkeypatch):
    found = Instances(count=2, total_replicas=2, launcher="poprun")
    for name, value in (found.variables() | {"PMI_RANK": "0", "PMI_SIZE": "2"}).items():
        monkeypatch.setenv(name, value)


def test_a_process_alone_has_none():
    assert job.communicator() is None


def test_horovod_beside_it_is_refused(two_instances, monkeypatch):
    pytest.importorskip("mpi4py")
    horovod = types.ModuleType("horovod")
    horovod.__file__ = "/site-packages/horovod/__init__.py"
    monkeypatch.setitem(sys.modules, "horovod", horovod)
    message = "imported Horovod from /site-packages/horovod/__init__.py.* Uninstall it"
    with pytest.raises(RuntimeError, match=message):
        job.communicator()


def test_a_missing_mpi4py_is_named(two_instances, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(ImportError, match=r"needs mpi4py and an MPI: `pip install 'ipu_tf\[dist"):
        job.communicator()
