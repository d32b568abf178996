"""The device of the tests of operations."""

import pytest

from ipu_tf import IPUConfig, IPUStrategy, config


@pytest.fixture(scope="module")
def strategy():
    """A strategy without Keras, over one IPU of 16 tiles."""
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy(enable_keras_extensions=False)
    config.reset_ipu_configuration()
