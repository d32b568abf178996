"""The sizes that a batch may have."""

from __future__ import annotations

_LARGEST_BATCH = 2**31 - 1
"""Shapes that a program computes are of 32-bit integers."""


def check_batch_size(batch_size: object) -> None:
    """Raises a ValueError unless a batch size is a positive int that a shape can hold."""
    if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
        raise ValueError(f"`batch_size` must be a positive int. Received: {batch_size!r}.")
    if batch_size > _LARGEST_BATCH:
        raise ValueError(
            f"`batch_size` must be at most {_LARGEST_BATCH:,}, the largest size of a tensor's "
            f"axis. Received: {batch_size!r}."
        )
