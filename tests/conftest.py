"""Settings of every test."""

import gc
import os
import sys

import pytest
from hypothesis import settings

from tests.grids import beyond_fast_cells

pytest_plugins = ["tests.cpu_budget"]

# Reports of tests are made for their figures; tests of insights ask for them.
os.environ.setdefault("IPU_TF_INSIGHTS", "0")

# Without AVX-512, TensorFlow leaves oneDNN off; its own dilated filters have no gradients.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# The same examples in every run, and no time limit for each: runs are to be repeatable on any
# machine, however loaded. Fast runs try a quarter of the examples of each property.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fast", settings.get_profile("repeatable"), max_examples=25)


def pytest_configure(config):
    # Imports make millions of objects, of which next to none are in garbage.
    gc.set_threshold(20_000, 20, 20)
    settings.load_profile("fast" if config.getoption("-m") == "not slow" else "repeatable")


# Before pytest leaves out what is marked.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks the cells of a test slow that `fast_cells` leaves to the slow tests."""
    for item in beyond_fast_cells(items):
        item.add_marker(pytest.mark.slow)


def pytest_collection_finish():
    """Excludes the modules' objects, which live as long as the process, from garbage collection.

    Graphs are full of cycles: the collector would go through these objects hundreds of times.
    """
    gc.freeze()


@pytest.fixture(scope="module", autouse=True)
def _leftovers():
    """Drops the configuration that tests of a module leave: the next one relies on the default.

    What is left of the modules before, in caches of TensorFlow and Keras, is excluded from garbage
    collection: each collection in this module would go through all of it again.
    """
    gc.collect()
    gc.freeze()
    yield
    if "ipu_tf.config" in sys.modules:
        sys.modules["ipu_tf.config"].reset_ipu_configuration()
