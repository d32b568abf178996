"""A module that cannot be imported, for tests of the command line."""

import module_that_is_missing  # noqa: F401


def f():
    """Is never called."""
