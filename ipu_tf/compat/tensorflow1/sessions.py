"""Sessions whose graphs place operations on an IPU outside of a program."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from ipu_tf.internals.graphs import is_ipu
from ipu_tf.internals.patches import Patch, installed

_SESSIONS = Patch(tf.compat.v1.Session, "__init__", "they run operations that are placed on an IPU")
_INTERACTIVE_SESSIONS = Patch(
    tf.compat.v1.InteractiveSession, "__init__", "they run operations that are placed on an IPU"
)

_LOG = logging.getLogger(__name__)


@contextlib.contextmanager
def sessions_know_ipus() -> Iterator[None]:
    """Makes sessions run operations that are placed on an IPU; logs that they run on the host."""
    with installed({_SESSIONS: _wrap, _INTERACTIVE_SESSIONS: _wrap}):
        yield


def _wrap(stock: Callable[..., None]) -> Callable[..., None]:
    def make(session: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        own = tf.compat.v1.ConfigProto()
        if config is not None:
            own.CopyFrom(config)
        own.allow_soft_placement = True
        stock(session, target, graph, own)
        names = [op.name for op in session.graph.get_operations() if is_ipu(op.device)]
        if names:
            _LOG.warning(
                "%d operations of the session's graph are placed on an IPU, outside of a program: "
                "'%s', ... They run on the host by TensorFlow's own kernels, and no report counts "
                "them. Let ipu_compiler.compile make their program.",
                len(names),
                names[0],
            )

    return make
