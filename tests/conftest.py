"""Settings of every test."""

from hypothesis import settings

# The same examples in every run, and no time limit for each: runs are to be repeatable on any
# machine, however loaded.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")
