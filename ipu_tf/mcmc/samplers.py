"""The samplers of earlier calls, whose programs are compiled."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf import config
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.mcmc.block_sampler import BlockSampler, TraceFn
from ipu_tf.mcmc.value_keys import NoKey, key_of
from ipu_tf.strategy import IPUStrategyV1

_MOST_SAMPLERS = 8
"""Samplers that a strategy keeps; each holds the programs and constants of a call."""

_SAMPLERS: weakref.WeakKeyDictionary[IPUStrategyV1, OrderedDict[Hashable, BlockSampler]] = (
    weakref.WeakKeyDictionary()
)


def sampler_of(
    kernel: object,
    strategy: IPUStrategyV1,
    trace_fn: TraceFn | None,
    start: TensorStructure,
    parallel_iterations: int,
    name: str | None,
) -> BlockSampler:
    """Returns the sampler of an earlier call that computes the same, or a new one.

    Args:
        kernel: The transition kernel.
        strategy: The strategy in force.
        trace_fn: From state and kernel results to what is traced.
        start: The state, and results of the kernel or None; only their types matter.
        parallel_iterations: Of the sampler's loops.
        name: Of its operations.
    """
    sampler = BlockSampler(parallel_iterations=parallel_iterations, name=name)
    try:
        key = (
            config.device_configuration(),
            key_of((tf.nest.map_structure(_type, start), parallel_iterations, name)),
            key_of((kernel, trace_fn)),
        )
    except NoKey:
        pass
    else:
        samplers = _SAMPLERS.setdefault(strategy, OrderedDict())
        sampler = samplers.setdefault(key, sampler)
        samplers.move_to_end(key)
        while len(samplers) > _MOST_SAMPLERS:
            samplers.popitem(last=False)
    # Those of the first call may compute something else by now.
    sampler.begin(strategy, kernel, trace_fn)
    return sampler


def _type(leaf: Any) -> tuple[str, tuple[int, ...]]:
    array = np.asarray(leaf)
    return str(array.dtype), array.shape
