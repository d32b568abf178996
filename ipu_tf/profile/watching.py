"""Passes each new strategy to code that collects the reports of strategies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

Watcher: TypeAlias = Callable[[Any], None]

_watchers: list[Watcher] = []


@contextlib.contextmanager
def watching_strategies(watcher: Watcher) -> Iterator[None]:
    """Calls `watcher` with each strategy that is made inside."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def made(strategy: Any) -> None:
    """Calls the watchers with a new strategy."""
    for watcher in tuple(_watchers):
        watcher(strategy)
