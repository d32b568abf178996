import pytest

from ipu_tf import config


@pytest.fixture(autouse=True)
def clean_system(monkeypatch):
    """No configuration, no flags, before and after each test."""
    monkeypatch.delenv("TF_POPLAR_FLAGS", raising=False)
    config.reset_ipu_configuration()
    yield
    config.reset_ipu_configuration()


@pytest.fixture
def ipu_model(monkeypatch):
    """Makes the process run on the software model of an IPU."""
    monkeypatch.setenv("TF_POPLAR_FLAGS", "--use_ipu_model")
