"""Measured points for tests."""

import json
from pathlib import Path

import pytest

from ipu_tf.calibration import MeasuredPoint, load_records

MEASURED = Path(__file__).with_name("calibration.json")


@pytest.fixture(scope="session")
def measured():
    """All published points that constants may be fitted on."""
    return load_records(MEASURED)


@pytest.fixture
def write(tmp_path):
    """Writes records to a file and gives its path."""

    def write_(entries):
        path = tmp_path / "records.json"
        path.write_text(entries if isinstance(entries, str) else json.dumps(entries))
        return path

    return write_


@pytest.fixture
def make():
    """Makes a record of a kind from its parameters."""

    def make_(kind, params, unit="us", **others):
        defaults = {"id": "made", "chip": "gc2", "measured": 1.0, "dtype": "-"}
        return MeasuredPoint(kind=kind, params=params, unit=unit, **{**defaults, **others})

    return make_
