"""Statistics of input pipelines, which TensorFlow no longer keeps: scripts find them empty."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from ipu_tf.internals.patches import Patch, installed

_STATISTICS_OPTIONS = Patch(
    tf.data.Options, "experimental_stats", "scripts set an aggregator of statistics", is_new=True
)

_LOG = logging.getLogger(__name__)


class StatsAggregator:
    """Gathers no statistics, and says so."""

    def __init__(self) -> None:
        _LOG.warning(
            "tf.data.experimental.StatsAggregator: TensorFlow keeps no statistics of input "
            "pipelines any more, so its summary is empty. "
            "`ipu.dataset_benchmark.dataset_benchmark` measures the throughput of a data set."
        )

    def get_summary(self) -> tf.Tensor:
        """Returns a string scalar, a `Summary` without values."""
        return tf.constant(b"")


def latency_stats(tag: str) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Returns a function that returns the dataset it gets."""
    del tag
    return lambda dataset: dataset


_NAMES = {
    "StatsAggregator": StatsAggregator,
    "bytes_produced_stats": latency_stats,
    "latency_stats": latency_stats,
}


@contextlib.contextmanager
def statistics_are_empty() -> Iterator[None]:
    """Gives `tf.data.experimental` and `tf.data.Options` the names of statistics."""
    modules = (tf.data.experimental, tf.compat.v1.data.experimental)
    with contextlib.ExitStack() as stack:
        stack.enter_context(installed({_STATISTICS_OPTIONS: _options}))
        for module in modules:
            for name, value in _NAMES.items():
                setattr(module, name, value)
                stack.callback(delattr, module, name)
        yield


def _options(stock: None) -> Any:
    del stock  # Options have none.
    return property(lambda options: SimpleNamespace())
