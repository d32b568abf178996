"""Draws and final chains in the structures of TensorFlow Probability."""

from __future__ import annotations

import tensorflow as tf
import tensorflow_probability as tfp

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.mcmc.block_sampler import BlockSampler
from ipu_tf.mcmc.chain_files import Arrays


def pack_draws(
    sampler: BlockSampler, draws: Arrays, leaves: Arrays, replicas: int, *, final: bool
) -> tfp.mcmc.StatesAndTrace | TensorStructure:
    """Returns draws and final chains in the structures of TensorFlow Probability."""
    if replicas == 1:
        draws = [part[:, 0] for part in draws]
        leaves = [part[0] for part in leaves]
    structure = sampler.structure or _structure(sampler)
    states, trace = tf.nest.pack_sequence_as(structure, draws)
    if final:
        _, results = tf.nest.pack_sequence_as(sampler.chains.structure, leaves)
        return tfp.mcmc.CheckpointableStatesAndTrace(
            all_states=states, trace=trace, final_kernel_results=results.inner
        )
    if sampler.trace_fn is None:
        return states
    return tfp.mcmc.StatesAndTrace(all_states=states, trace=trace)


def _structure(sampler: BlockSampler) -> tuple[TensorStructure, TensorStructure]:
    """Returns the structure of states and trace of a run that had finished before."""
    state, results = sampler.chains.structure
    return (state, sampler.trace(state, results))
