"""Errors of the user's code, apart from errors of a command."""

from __future__ import annotations


class FailedFunction(Exception):
    """The user's function raised; `__cause__` is its error."""
