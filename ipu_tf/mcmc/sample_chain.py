"""`sample_chain`: independent chains on every replica, whose draws come to the host in blocks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.mcmc.arguments import (
    check_positive,
    check_start,
    replicas_of_job,
    strategy_in_force,
)
from ipu_tf.mcmc.block_run import BlockPlan, run_blocks
from ipu_tf.mcmc.block_sampler import TraceFn
from ipu_tf.mcmc.chain_files import chain_files
from ipu_tf.mcmc.chains import ChainStates
from ipu_tf.mcmc.identity import identity_of_run
from ipu_tf.mcmc.job_chains import is_first, of_first
from ipu_tf.mcmc.packing import pack_draws
from ipu_tf.mcmc.samplers import sampler_of
from ipu_tf.mcmc.seeded_kernel import SeededResults
from ipu_tf.mcmc.seeds import seeds_of_replicas

_BLOCK = 100


def _everything(current_state: Any, kernel_results: Any) -> Any:
    del current_state
    return kernel_results


def sample_chain(
    num_results: int,
    current_state: TensorStructure,
    previous_kernel_results: object = None,
    kernel: tfp.mcmc.TransitionKernel = None,
    num_burnin_steps: int = 0,
    num_steps_between_results: int = 0,
    trace_fn: TraceFn | None = _everything,
    return_final_kernel_results: bool = False,
    parallel_iterations: int = 10,
    seed: tf.Tensor | int | Sequence[int] | None = None,
    name: str | None = None,
    *,
    num_replicas: int | None = None,
    block_size: int = _BLOCK,
    directory: str | os.PathLike[str] | None = None,
    blocks_per_checkpoint: int = 1,
    progress: bool = False,
) -> tfp.mcmc.StatesAndTrace | TensorStructure:
    """Samples from Markov chains, independently on every replica of the device.

    The arguments and results are those of `tfp.mcmc.sample_chain`. Each replica runs chains of its
    own from `current_state`, with a seed of its own; replica 0 draws what `tfp.mcmc.sample_chain`
    draws in a function with `jit_compile=True` (without, if `simulator.engine` is "graph"). The
    device runs `block_size` results at a time and holds no more; the host collects them. Call it in
    the scope of an `IPUStrategy`, or of a `PopDistStrategy` in every instance of a job of several
    processes: the chains are then those of all instances' replicas, each instance gets all draws,
    and instance 0 writes them. The draws do not depend on how many instances share the replicas.

    Args:
        num_results: Results of a chain.
        current_state: A tensor or list of tensors, in which the chains of every replica start.
        previous_kernel_results: Results of `kernel` to start with; None lets it make them.
        kernel: A `tfp.mcmc.TransitionKernel` that takes seeds.
        num_burnin_steps: Steps before the first result.
        num_steps_between_results: Steps between results.
        trace_fn: From state and kernel results to what is traced; None traces nothing.
        return_final_kernel_results: Whether the last kernel results are returned, too.
        parallel_iterations: Iterations of a loop that TensorFlow may run at once.
        seed: int32[2], or an integer n for [0, n]; None draws one, which `directory` keeps for the
            next run.
        name: Name of the operations.
        num_replicas: Number of replicas that the job must have; None takes those that it has.
        block_size: Results of a block.
        directory: Where the draws and the state of the chains are written, block by block. A run
            that was killed goes on there; its draws are those of an uninterrupted run.
        blocks_per_checkpoint: Blocks between two states of the chains that are written.
        progress: Whether a bar shows acceptance rate, step size and time left.

    Returns:
        `tfp.mcmc.StatesAndTrace` of NumPy arrays, `CheckpointableStatesAndTrace` with the final
        kernel results, or the states alone without a trace. With several replicas their axis is the
        second, [num_results, num_replicas, ...], as `tfp.mcmc.potential_scale_reduction` takes
        chains.

    Raises:
        ValueError: An argument is out of range, there is no `IPUStrategy`, the device has another
            number of replicas, or the log-density of `current_state` is NaN.
        ChainMismatch: `directory` has the chains of another run.
        ChainsInUse: Another run writes to `directory` at this time.
        DamagedChains: A file of `directory` is not as it was written.
        OSError: A block cannot be written; those before are kept.
    """
    strategy = strategy_in_force(num_replicas)
    check_positive(
        num_results=num_results, block_size=block_size, blocks_per_checkpoint=blocks_per_checkpoint
    )
    if kernel is None:
        raise ValueError("`kernel` has to be a tfp.mcmc.TransitionKernel. Received: kernel=None.")
    replicas = replicas_of_job(strategy)
    state = tf.nest.map_structure(tf.convert_to_tensor, current_state)
    start = (state, previous_kernel_results)
    sampler = sampler_of(kernel, strategy, trace_fn, start, parallel_iterations, name)
    results = previous_kernel_results
    if results is None:
        results = sampler.first_results(state).inner
    check_start(results)
    seeds = of_first(seeds_of_replicas(seed, replicas), "seeds")
    chains = ChainStates(state=state, results=SeededResults(inner=results, seed=seeds[0]))
    sampler.chains = chains
    plan = BlockPlan(
        results=num_results,
        block=min(block_size, num_results),
        burnin=num_burnin_steps,
        between=num_steps_between_results,
    )
    leaves = [np.stack([leaf] * replicas) for leaf in chains.leaves]
    leaves[-1] = seeds
    with contextlib.ExitStack() as stack:
        files = None
        if directory is not None and is_first():
            own_seeds = None if seed is None else seeds
            identity = identity_of_run(kernel, plan, chains, replicas, own_seeds)
            files = stack.enter_context(chain_files(directory, identity))
        draws, leaves = run_blocks(
            sampler,
            plan,
            leaves,
            files,
            directory,
            blocks_per_checkpoint,
            is_shown=progress and is_first(),
        )
    return pack_draws(sampler, draws, leaves, replicas, final=return_final_kernel_results)
