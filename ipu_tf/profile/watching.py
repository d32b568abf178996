"""Passes each new strategy to code that collects the reports of strategies."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from ipu_tf.profile.report import Report


class WatchedStrategy(Protocol):
    """A strategy, as far as reports need it."""

    def record_host(self) -> None:
        """Starts the timeline of the host."""

    def report(self, *, insights: bool | None = None) -> Report:
        """Returns its report."""


Watcher: TypeAlias = Callable[[WatchedStrategy], None]

_watchers: list[Watcher] = []


@contextlib.contextmanager
def watching_strategies(watcher: Watcher) -> Iterator[None]:
    """Calls `watcher` with each strategy that is made inside."""
    _watchers.append(watcher)
    try:
        yield
    finally:
        _watchers.remove(watcher)


def call_watchers(strategy: WatchedStrategy) -> None:
    """Calls the watchers with a new strategy."""
    for watcher in tuple(_watchers):
        watcher(strategy)
