"""The samplers of earlier calls, whose programs are compiled."""

from __future__ import annotations

import weakref
from typing import Any

from ipu_tf import config
from ipu_tf.mcmc.block_sampler import BlockSampler, TraceFn
from ipu_tf.mcmc.chains import Chains
from ipu_tf.mcmc.seeded_kernel import SeededKernel
from ipu_tf.strategy import IPUStrategyV1

_SAMPLERS: weakref.WeakKeyDictionary[Any, dict[Any, BlockSampler]] = weakref.WeakKeyDictionary()
"""The samplers of each kernel, whose programs are compiled: a next window starts at once."""


def sampler_of(
    kernel: Any,
    strategy: IPUStrategyV1,
    trace_fn: TraceFn | None,
    chains: Chains,
    parallel_iterations: int,
    name: str | None,
) -> BlockSampler:
    """Returns the sampler of earlier calls alike, or a new one."""
    code = getattr(trace_fn, "__code__", trace_fn)
    closure = tuple(id(cell) for cell in getattr(trace_fn, "__closure__", None) or ())
    specs = tuple((leaf.shape, str(leaf.dtype)) for leaf in chains.leaves)
    device = config.device_configuration()
    key = (id(strategy), device, code, closure, specs, parallel_iterations, name)
    known = _SAMPLERS.setdefault(kernel, {})
    if key not in known:
        known[key] = BlockSampler(
            strategy=strategy,
            kernel=SeededKernel(kernel),
            trace_fn=trace_fn,
            chains=chains,
            parallel_iterations=parallel_iterations,
            name=name,
        )
    return known[key]
