"""The generated operations of the vendor's plugin that scripts call by themselves."""

from __future__ import annotations

import logging

import tensorflow as tf

_LOG = logging.getLogger(__name__)


def ipu_event_trace(name: str | None = None) -> tf.Tensor:
    """Returns the events of the device as serialized messages of the vendor's format: none.

    Args:
        name: Name of the operation.

    Returns:
        A string tensor of shape [0].
    """
    _LOG.warning(
        "ipu_event_trace: no events are recorded in the vendor's format. `ipu-tf run --report DIR` "
        "writes a report of the programs."
    )
    return tf.constant([], tf.string, name=name or "IpuEventTrace")
