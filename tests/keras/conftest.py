"""A strategy on a small machine, models of every kind, and data for them."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUConfig, IPUStrategy, config
from tests import over_keras_2
from tests.grids import mostly_slow
from tests.keras.small_models import CLASSES, FEATURES, KINDS


def pytest_collect_file(file_path, parent):
    """Collects the tests of a file a second time, over tf_keras."""
    return over_keras_2.collector(file_path, parent)


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


@pytest.fixture(params=mostly_slow(list(KINDS), fast=["subclass"]))
def build(request):
    """Builds a model of one kind, the same weights at every call."""

    def build_seeded():
        keras.utils.set_random_seed(7)
        return KINDS[request.param]()

    return build_seeded


@pytest.fixture
def data():
    """48 samples: features and class labels."""
    random = np.random.default_rng(11)
    x = random.normal(size=(48, FEATURES)).astype("float32")
    return x, random.integers(0, CLASSES, 48).astype("int32")
