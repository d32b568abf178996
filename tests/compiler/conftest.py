"""Fixtures that tests of the compiler share."""

import pytest

from ipu_tf.compiler import lowering
from tests.compiler import simple_lowering as simple


@pytest.fixture(scope="module")
def simple_lowering():
    """Has the stages after lowering call the simple rules, for all tests of a module."""
    with pytest.MonkeyPatch.context() as patch:
        for rule in simple.RULES:
            patch.setattr(lowering, rule.__name__, rule)
        yield
