"""A run, block by block, from its beginning or from its files."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ipu_tf.mcmc.block_sampler import BlockSampler
from ipu_tf.mcmc.chain_files import Arrays, ChainFiles, ChainMismatch
from ipu_tf.mcmc.chain_progress import progress_bar
from ipu_tf.mcmc.job_chains import of_first
from ipu_tf.mcmc.kernel_results import find

_DENSITY_TOLERANCE = 1e-3
"""How far, relative, a log-density may be off in float32 on another machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockPlan:
    """How a run is cut into blocks."""

    results: int
    block: int
    burnin: int
    between: int

    def sizes(self) -> list[int]:
        """Returns the number of results of each block."""
        blocks, remainder = divmod(self.results, self.block)
        return [self.block] * blocks + ([remainder] if remainder else [])


def run_blocks(
    sampler: BlockSampler,
    plan: BlockPlan,
    leaves: Arrays,
    files: ChainFiles | None,
    directory: str | os.PathLike[str] | None,
    blocks_per_checkpoint: int,
    *,
    is_shown: bool,
) -> tuple[Arrays, Arrays]:
    """Returns the draws of all blocks, one after the other, and the chains after the last.

    Args:
        sampler: Runs a block.
        plan: The blocks.
        leaves: The chains of all replicas before the first.
        files: Those of the run; None without, and at all instances of a job but the first.
        directory: Theirs, for messages.
        blocks_per_checkpoint: Blocks between two states that are written.
        is_shown: Whether there is a bar.
    """
    sizes = plan.sizes()
    blocks_before, leaves, blocks = of_first(_progress(files, leaves), "chains of an earlier run")
    if blocks_before:
        _check_density(sampler, leaves, directory)
    with progress_bar(plan.results, sum(sizes[:blocks_before]), is_shown=is_shown) as advance:
        for index in range(blocks_before, len(sizes)):
            burnin = plan.burnin if index == 0 else plan.between
            draws, leaves = sampler.run(sizes[index], burnin, plan.between, leaves)
            blocks.append(draws)
            if files is not None:
                files.write_block(index, draws)
                if (index + 1) % blocks_per_checkpoint == 0 or index + 1 == len(sizes):
                    files.write_state(index + 1, leaves)
            _, results = tf.nest.pack_sequence_as(sampler.chains.structure, leaves)
            advance(sizes[index], results.inner)
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)], leaves


def _progress(files: ChainFiles | None, leaves: Arrays) -> tuple[int, Arrays, list[Arrays]]:
    """Returns the number of finished blocks, the chains after them, and their draws."""
    state = None if files is None else files.read_state()
    if files is None or state is None:
        return 0, leaves, []
    count, leaves = state
    return count, leaves, [files.read_block(index) for index in range(count)]


def _check_density(
    sampler: BlockSampler, leaves: Arrays, directory: str | os.PathLike[str] | None
) -> None:
    """Raises ChainMismatch if the saved state of replica 0 has another log-density today."""
    state, results = tf.nest.pack_sequence_as(
        sampler.chains.structure, [leaf[0] for leaf in leaves]
    )
    density = find(results.inner, "target_log_prob")
    if density is None:
        return
    state = tf.nest.map_structure(tf.constant, state)
    now = sampler.first_results(state)
    today = np.asarray(find(now.inner, "target_log_prob"))
    if not np.allclose(today, density, rtol=_DENSITY_TOLERANCE, equal_nan=True):
        raise ChainMismatch(
            f"The chains in '{os.fspath(directory or '')}' cannot be resumed: the log-density of "
            f"their last state was {density} and is {today}. The density or its data changed; use "
            "another directory, or those of the first run."
        )
