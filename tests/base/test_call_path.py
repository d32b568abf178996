"""The layers that are being called, as the rooms that trace ask for them."""

import pytest

from ipu_tf.base import call_path


@pytest.fixture
def calls(monkeypatch):
    """The open calls of two sources, which a test may set."""
    calls = {"first": call_path.CallPath(), "second": call_path.CallPath()}
    sources = [lambda: calls["first"], lambda: calls["second"]]
    monkeypatch.setattr(call_path, "_sources", sources)
    return calls


def test_no_call_is_open_outside_of_layers(calls):
    assert call_path.current() == call_path.CallPath(path="", is_in_optimizer=False)


def test_the_source_with_an_open_call_tells_it(calls):
    calls["second"] = call_path.CallPath(path="model/dense")
    assert call_path.current().path == "model/dense"
    calls["first"] = call_path.CallPath(path="sgd", is_in_optimizer=True)
    assert call_path.current().is_in_optimizer
