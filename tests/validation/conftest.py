"""Records for tests."""

from tests.calibration.conftest import make

__all__ = ["make"]
