"""The shares that TensorFlow's ops have in the time of a run, by TensorFlow's profiler."""

from __future__ import annotations

import collections
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

_PRODUCTS = re.compile("Conv2[Dd]|MatMul|Einsum")
_OTHERS = re.compile("^ *__|PartitionedCall|While|Iterator|Dataset")
"""Calls of functions, which last as long as the ops in them, and the input pipeline."""


def seconds_by_type(run: Callable[[], object]) -> dict[str, float]:
    """Runs a function; returns the seconds of all ops of each type.

    Ops that share the processor's cores count for as long as they take, so that the seconds may add
    up to more than those of the run.
    """
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            run()
        (path,) = Path(folder).rglob("*.xplane.pb")
        return _durations(xplane_pb2.XSpace.FromString(path.read_bytes()))


def products_share(run: Callable[[], object]) -> float:
    """Returns the share of products (matmuls, convolutions, einsums) in the ops' seconds of a run.

    Raises:
        ValueError: No op ran.
    """
    seconds = seconds_by_type(run)
    if not seconds:
        raise ValueError("No op was seen while the function ran.")
    return sum(each for name, each in seconds.items() if _PRODUCTS.search(name)) / sum(
        seconds.values()
    )


def _durations(space: Any) -> dict[str, float]:
    """The seconds of each type: events of ops are called NAME:TYPE."""
    seconds: dict[str, float] = collections.defaultdict(float)
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name, colon, kind = plane.event_metadata[event.metadata_id].name.rpartition(":")
                if colon and kind and not name.endswith(":") and not _OTHERS.search(kind):
                    seconds[kind] += event.duration_ps / 1e12
    return dict(seconds)
