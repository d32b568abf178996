"""Settings of every test."""

import gc

from hypothesis import settings

pytest_plugins = ["tests.cpu_budget"]

# The same examples in every run, and no time limit for each: runs are to be repeatable on any
# machine, however loaded.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")


def pytest_collection_finish():
    """Excludes the modules' objects, which live as long as the process, from garbage collection.

    Graphs are full of cycles: the collector would go through these objects hundreds of times.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
