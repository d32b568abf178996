"""Why a benchmark has no result. `python -m benchmarks` prints the message and ends with 1."""

from __future__ import annotations


class BenchmarkError(Exception):
    """A benchmark cannot run here, or did not end."""


class CannotLimitError(BenchmarkError):
    """This processor, or its hypervisor, does not let CPUID fault."""


class WorkerError(BenchmarkError):
    """A process that measures answered that it failed, or ended."""
