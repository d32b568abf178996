"""Keras 3 as scripts see it under `ipu-tf run`."""

import logging

import pytest

from ipu_tf.compat.keras2.context import keras_2_spellings
from ipu_tf.config import reset_ipu_configuration


class Notices:
    """The notices that were logged since the last look."""

    def __init__(self, caplog):
        self._caplog = caplog

    def __call__(self):
        records = [r for r in self._caplog.records if r.name == "ipu_tf.compat.keras2"]
        self._caplog.clear()
        return [record.getMessage() for record in records]

    def once(self, *spellings):
        """Checks that these spellings, given by a part of their names, were logged once each."""
        texts = self()
        assert len(texts) == len(spellings), texts
        for spelling in spellings:
            assert sum(spelling in text for text in texts) == 1, (spelling, texts)


@pytest.fixture(autouse=True)
def configuration():
    """The configuration of the device is that of one IPU before a test, and after it."""
    reset_ipu_configuration()
    yield
    reset_ipu_configuration()


@pytest.fixture
def notices(caplog):
    caplog.set_level(logging.WARNING, logger="ipu_tf.compat.keras2")
    return Notices(caplog)


@pytest.fixture
def keras_2(notices):
    """Keras understands Keras 2 during the test."""
    with keras_2_spellings():
        yield
