"""Fixtures of the tests of exported programs."""

import pytest

from ipu_tf import IPUConfig, IPUStrategy, config


@pytest.fixture(scope="module")
def strategy():
    """A strategy of one IPU with 16 tiles."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()
