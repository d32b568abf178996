"""Processes that a script starts anew run under what the script runs under."""

import contextlib
import os
import pickle
from multiprocessing import spawn

import pytest

from ipu_tf import cli
from ipu_tf.compat import children
from ipu_tf.compat.script import vendor_script

SCRIPT = """
import concurrent.futures
import multiprocessing
import os

import popdist

def instances(more):
    return popdist.getNumInstances() + more, __name__

if __name__ == "__main__":
    assert os.path.isdir(os.environ["POPLAR_SDK_ENABLED"])
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=context) as pool:
        print(pool.submit(instances, 2).result(timeout=60))
"""


def test_a_child_finds_the_vendor_s_names(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("POPLAR_SDK_ENABLED", raising=False)
    (tmp_path / "pooled.py").write_text(SCRIPT)
    assert cli.main(["run", str(tmp_path / "pooled.py")]) == 0
    assert capsys.readouterr().out == "(3, '__mp_main__')\n"
    assert "POPLAR_SDK_ENABLED" not in os.environ


def test_a_path_of_the_sdk_that_is_set_stays(monkeypatch):
    monkeypatch.setenv("POPLAR_SDK_ENABLED", "/opt/sdk")
    with vendor_script():
        assert os.environ["POPLAR_SDK_ENABLED"] == "/opt/sdk"
    assert os.environ["POPLAR_SDK_ENABLED"] == "/opt/sdk"


seen = []


@contextlib.contextmanager
def recorded(**options):
    seen.append(options)
    yield
    seen.append("left")


@pytest.fixture
def process(monkeypatch):
    """What this process would run under, if it were a child."""
    with contextlib.ExitStack() as stack:
        monkeypatch.setattr(children, "_of_process", stack)
        yield stack
    seen.clear()


def test_a_child_gets_the_options_before_its_script_and_keeps_them(process):
    stock = spawn.get_preparation_data
    with children.children_enter(recorded, {"max_steps": 3, "tf1": True}):
        sent = spawn.get_preparation_data("child")
    assert spawn.get_preparation_data is stock
    assert next(iter(sent)) == "ipu_tf"
    del sent["authkey"]  # It may be sent to a child alone.
    pickle.loads(pickle.dumps(sent))
    assert seen == [{"max_steps": 3, "tf1": True}]
    process.close()
    assert seen[-1] == "left"
