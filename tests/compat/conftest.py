"""Fixtures of the tests of the vendor's names."""

import pytest

from ipu_tf import compat


@pytest.fixture(scope="module")
def vendor_names():
    """The vendor's names can be imported."""
    compat.install(keras=3)
    yield
    compat.uninstall()
