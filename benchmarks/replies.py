"""How a worker process answers: a JSON line for each request on its input, until that ends."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, Protocol


class Trainer(Protocol):
    """What answers the requests of a worker."""

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The reply to one request."""
        ...


def serve(make: Callable[[], Trainer]) -> None:
    """Answers the requests of the input until it ends.

    Args:
        make: Makes what answers.
    """
    # Replies get a separate stream: libraries write to the standard output, too.
    replies = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    trainer = make()
    for line in sys.stdin:
        print(json.dumps(trainer.answer(json.loads(line))), file=replies)
