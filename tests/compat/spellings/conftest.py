"""TensorFlow and NumPy as scripts see them."""

import logging

import pytest

from ipu_tf.compat.spellings.context import spellings_of_tensorflow


@pytest.fixture
def notices(caplog):
    """The notices of spellings since the last look."""
    caplog.set_level(logging.WARNING, logger="ipu_tf.compat.spellings")

    def since():
        texts = [r.getMessage() for r in caplog.records if r.name.startswith("ipu_tf.compat.spell")]
        caplog.clear()
        return texts

    return since


@pytest.fixture
def of_scripts(notices):
    """TensorFlow and NumPy understand their earlier spellings during the test."""
    with spellings_of_tensorflow():
        yield
