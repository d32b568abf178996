"""Arguments of queues that the vendor's earlier releases had."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_WITHOUT_EFFECT = frozenset(
    {"feed_name", "replication_factor", "data_to_prefetch", "io_batch_size"}
)


def without_earlier_arguments(
    *, first: int, values: tuple[str, ...] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that drops a queue's arguments of earlier releases.

    They named the queue, and repeated what a program itself tells: its replicas. The name stood at
    the position `first`, before the arguments of today.

    Args:
        first: Position of the name among the arguments of the initializer, without `self`.
        values: Strings at this position that are no names: values of today's argument there.
    """

    def decorated(init: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(init)
        def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
            name = args[first] if len(args) > first else None
            if isinstance(name, str) and name.lower() not in values:
                args = (*args[:first], *args[first + 1 :])
            today = {name: one for name, one in kwargs.items() if name not in _WITHOUT_EFFECT}
            init(self, *args, **today)

        return initialize

    return decorated
