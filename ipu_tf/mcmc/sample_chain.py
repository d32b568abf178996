"""`sample_chain`: independent chains on every replica, whose draws come to the host in blocks."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from ipu_tf import config
from ipu_tf.feeds.outfeed_queue import IPUOutfeedQueue
from ipu_tf.mcmc.chain_files import Arrays, ChainFiles, ChainMismatch
from ipu_tf.mcmc.chain_progress import progress_bar
from ipu_tf.mcmc.kernel_results import find
from ipu_tf.mcmc.seeded_kernel import SeededKernel, SeededResults
from ipu_tf.ops import replication_ops
from ipu_tf.strategy import IPUStrategyV1

TraceFn: TypeAlias = Callable[[Any, Any], Any]

_BLOCK = 100

_DENSITY_TOLERANCE = 1e-3
"""How far, relative, a log-density may be off in float32 on another machine."""


def _everything(current_state: Any, kernel_results: Any) -> Any:
    del current_state
    return kernel_results


def sample_chain(
    num_results: int,
    current_state: Any,
    previous_kernel_results: Any = None,
    kernel: Any = None,
    num_burnin_steps: int = 0,
    num_steps_between_results: int = 0,
    trace_fn: TraceFn | None = _everything,
    return_final_kernel_results: bool = False,
    parallel_iterations: int = 10,
    seed: Any = None,
    name: str | None = None,
    *,
    num_replicas: int | None = None,
    block_size: int = _BLOCK,
    directory: str | os.PathLike[str] | None = None,
    blocks_per_checkpoint: int = 1,
    progress: bool = False,
) -> Any:
    """Samples from Markov chains, independently on every replica of the device.

    The arguments and results are those of `tfp.mcmc.sample_chain`. Each replica runs chains of its
    own from `current_state`, with a seed of its own; replica 0 draws what `tfp.mcmc.sample_chain`
    draws in a function with `jit_compile=True` (without, if `simulator.engine` is "graph"). The
    device runs `block_size` results at a time and holds no more; the host collects them. Call it in
    the scope of an `IPUStrategy`.

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
        num_replicas: Number of replicas that the device must have; None takes those that it has.
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
        OSError: A block cannot be written; those before are kept.
    """
    strategy = _strategy(num_replicas)
    _check_positive(
        num_results=num_results, block_size=block_size, blocks_per_checkpoint=blocks_per_checkpoint
    )
    if kernel is None:
        raise ValueError("`kernel` has to be a tfp.mcmc.TransitionKernel. Received: kernel=None.")
    replicas = strategy.num_replicas
    state = tf.nest.map_structure(tf.convert_to_tensor, current_state)
    results = previous_kernel_results
    if results is None:
        results = strategy.run(tf.function(kernel.bootstrap_results), args=(state,))
    _check_start(results)
    seeds = _seeds(seed, replicas)
    chains = _Chains(state=state, results=SeededResults(inner=results, seed=seeds[0]))
    plan = _Plan(
        results=num_results,
        block=min(block_size, num_results),
        burnin=num_burnin_steps,
        between=num_steps_between_results,
    )
    sampler = _sampler(kernel, strategy, trace_fn, chains, parallel_iterations, name)
    files = None
    if directory is not None:
        files = ChainFiles(
            directory, _identity(kernel, plan, chains, replicas, None if seed is None else seeds)
        )
    stacked = [np.stack([leaf] * replicas) for leaf in _leaves(chains)]
    stacked[-1] = seeds
    draws, stacked = _run(sampler, plan, stacked, files, blocks_per_checkpoint, shown=progress)
    return _packed(sampler, draws, stacked, replicas, final=return_final_kernel_results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chains:
    """The chains of one replica between two blocks; the seed is their last leaf."""

    state: Any
    results: SeededResults

    @property
    def structure(self) -> Any:
        return (self.state, self.results)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plan:
    """How a run is cut into blocks."""

    results: int
    block: int
    burnin: int
    between: int

    def sizes(self) -> list[int]:
        whole, rest = divmod(self.results, self.block)
        return [self.block] * whole + ([rest] if rest else [])


@dataclass(kw_only=True)
class _Sampler:
    """Runs blocks on all replicas."""

    strategy: IPUStrategyV1
    kernel: SeededKernel
    trace_fn: TraceFn | None
    chains: _Chains
    parallel_iterations: int
    name: str | None
    structure: Any = None

    def __post_init__(self) -> None:
        self._programs: dict[tuple[int, int, int], tuple[Any, IPUOutfeedQueue]] = {}

    def run(self, size: int, burnin: int, between: int, stacked: Arrays) -> tuple[Arrays, Arrays]:
        """Returns the draws of a block, [size, replicas, ...], and the chains after it."""
        key = (size, burnin, between)
        if key not in self._programs:
            self._programs[key] = self._program(*key)
        program, outfeed = self._programs[key]
        self.strategy.run(program, args=([tf.constant(leaf) for leaf in stacked],))
        found = [np.asarray(part)[0] for part in outfeed.dequeue()]  # One element a block.
        if self.strategy.num_replicas == 1:
            found = [part[np.newaxis] for part in found]
        draws, chains = found[: -len(stacked)], found[-len(stacked) :]
        return [np.swapaxes(part, 0, 1) for part in draws], chains

    def _program(self, size: int, burnin: int, between: int) -> tuple[Any, IPUOutfeedQueue]:
        outfeed = IPUOutfeedQueue()
        engine = config.device_configuration().engine

        @tf.function(jit_compile=None if engine == "graph" else True)
        def sampled(leaves: list[tf.Tensor]) -> list[tf.Tensor]:
            state, results = tf.nest.pack_sequence_as(self.chains.structure, leaves)
            states, trace, final = tfp.mcmc.sample_chain(
                num_results=size,
                current_state=state,
                previous_kernel_results=results,
                kernel=self.kernel,
                num_burnin_steps=burnin,
                num_steps_between_results=between,
                trace_fn=self._trace,
                return_final_kernel_results=True,
                parallel_iterations=self.parallel_iterations,
                seed=tf.zeros([2], tf.int32),  # The kernel has its own.
                name=self.name,
            )
            self.structure = (states, trace)
            last = tf.nest.map_structure(lambda part: part[-1], states)
            return tf.nest.flatten((states, trace, last, final))

        @tf.function
        def block(stacked: list[tf.Tensor]) -> None:
            index = replication_ops.replication_index()
            outfeed.enqueue(sampled([leaf[index] for leaf in stacked]))

        return block, outfeed

    def _trace(self, state: Any, results: SeededResults) -> Any:
        return () if self.trace_fn is None else self.trace_fn(state, results.inner)


_SAMPLERS: weakref.WeakKeyDictionary[Any, dict[Any, _Sampler]] = weakref.WeakKeyDictionary()
"""The samplers of each kernel, whose programs are compiled: a next window starts at once."""


def _sampler(
    kernel: Any,
    strategy: IPUStrategyV1,
    trace_fn: TraceFn | None,
    chains: _Chains,
    parallel_iterations: int,
    name: str | None,
) -> _Sampler:
    """Returns the sampler of earlier calls alike, or a new one."""
    code = getattr(trace_fn, "__code__", trace_fn)
    closure = tuple(id(cell) for cell in getattr(trace_fn, "__closure__", None) or ())
    specs = tuple((leaf.shape, str(leaf.dtype)) for leaf in _leaves(chains))
    device = config.device_configuration()
    key = (id(strategy), device, code, closure, specs, parallel_iterations, name)
    known = _SAMPLERS.setdefault(kernel, {})
    if key not in known:
        known[key] = _Sampler(
            strategy=strategy,
            kernel=SeededKernel(kernel),
            trace_fn=trace_fn,
            chains=chains,
            parallel_iterations=parallel_iterations,
            name=name,
        )
    return known[key]


def _run(
    sampler: _Sampler,
    plan: _Plan,
    stacked: Arrays,
    files: ChainFiles | None,
    blocks_per_checkpoint: int,
    *,
    shown: bool,
) -> tuple[Arrays, Arrays]:
    """Returns the draws of all blocks, one after the other, and the chains after the last."""
    sizes = plan.sizes()
    done, blocks = 0, []
    saved = None if files is None else files.read_state()
    if files is not None and saved is not None:
        done, stacked = saved
        _check_density(sampler, stacked, files)
        blocks = [files.read_block(index) for index in range(done)]
    with progress_bar(plan.results, sum(sizes[:done]), shown=shown) as advance:
        for index in range(done, len(sizes)):
            burnin = plan.burnin if index == 0 else plan.between
            draws, stacked = sampler.run(sizes[index], burnin, plan.between, stacked)
            blocks.append(draws)
            if files is not None:
                files.write_block(index, draws)
                if (index + 1) % blocks_per_checkpoint == 0 or index + 1 == len(sizes):
                    files.write_state(index + 1, stacked)
            _, results = tf.nest.pack_sequence_as(sampler.chains.structure, stacked)
            advance(sizes[index], results.inner)
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)], stacked


def _check_density(sampler: _Sampler, stacked: Arrays, files: ChainFiles) -> None:
    """Raises ChainMismatch if the saved state of replica 0 has another log-density today."""
    state, results = tf.nest.pack_sequence_as(
        sampler.chains.structure, [leaf[0] for leaf in stacked]
    )
    saved = find(results.inner, "target_log_prob")
    if saved is None:
        return
    state = tf.nest.map_structure(tf.constant, state)
    now = sampler.strategy.run(tf.function(sampler.kernel.bootstrap_results), args=(state,))
    found = np.asarray(find(now.inner, "target_log_prob"))
    if not np.allclose(found, saved, rtol=_DENSITY_TOLERANCE, equal_nan=True):
        raise ChainMismatch(
            f"The chains in '{files.directory}' cannot be resumed: the log-density of their last "
            f"state was {saved} and is {found}. The density or its data changed; use another "
            "directory, or those of the first run."
        )


def _packed(
    sampler: _Sampler, draws: Arrays, stacked: Arrays, replicas: int, *, final: bool
) -> Any:
    """Returns draws and final chains in the structures of TensorFlow Probability."""
    if replicas == 1:
        draws = [part[:, 0] for part in draws]
        stacked = [part[0] for part in stacked]
    structure = sampler.structure or _structure(sampler)
    states, trace = tf.nest.pack_sequence_as(structure, draws)
    if final:
        _, results = tf.nest.pack_sequence_as(sampler.chains.structure, stacked)
        return tfp.mcmc.CheckpointableStatesAndTrace(
            all_states=states, trace=trace, final_kernel_results=results.inner
        )
    if sampler.trace_fn is None:
        return states
    return tfp.mcmc.StatesAndTrace(all_states=states, trace=trace)


def _structure(sampler: _Sampler) -> Any:
    """Returns the structure of states and trace of a run that had finished before."""
    state, results = sampler.chains.structure
    return (state, sampler._trace(state, results))


def _strategy(num_replicas: int | None) -> IPUStrategyV1:
    strategy = tf.distribute.get_strategy()
    if not isinstance(strategy, IPUStrategyV1):
        raise ValueError(
            "`ipu_tf.mcmc.sample_chain` runs in the scope of an IPUStrategy. "
            f"Call it in `with strategy.scope():`. Received: {type(strategy).__name__}."
        )
    if num_replicas is not None and num_replicas != strategy.num_replicas:
        raise ValueError(
            f"The device has {strategy.num_replicas} replicas. Received: "
            f"num_replicas={num_replicas!r}. Set `auto_select_ipus` of the configuration to it."
        )
    return strategy


def _check_positive(**arguments: Any) -> None:
    for name, value in arguments.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"`{name}` has to be a positive integer. Received: {name}={value!r}.")


def _check_start(results: Any) -> None:
    """Raises ValueError if a chain could never leave its first state."""
    log_density = find(results, "target_log_prob")
    if log_density is None:
        return
    chains = np.argwhere(np.isnan(np.asarray(log_density)))
    if len(chains):
        first = ", ".join(str(index[0] if len(index) == 1 else index) for index in chains.tolist())
        which = f" in chains {first}" if chains.size else ""
        raise ValueError(
            f"The log-density of `current_state` is NaN{which}: a sampler accepts no step from "
            "there. Start where the density has a value, and check its logarithms, roots and "
            "quotients."
        )


def _seeds(seed: Any, replicas: int) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Returns the first seed of every replica, int32[replicas, 2]."""
    if isinstance(seed, int):
        seed = [0, seed]  # TensorFlow Probability would draw from a generator with state.
    if seed is not None:
        seed = tf.convert_to_tensor(seed, tf.int32)
    first = tfp.random.sanitize_seed(seed, salt="mcmc.sample_chain")
    own = [first]
    own += [tf.random.experimental.stateless_fold_in(first, index) for index in range(1, replicas)]
    return np.stack([part.numpy() for part in own])


def _leaves(chains: _Chains) -> Arrays:
    return [np.asarray(leaf) for leaf in tf.nest.flatten(chains.structure)]


def _identity(
    kernel: Any, plan: _Plan, chains: _Chains, replicas: int, seeds: Any
) -> dict[str, object]:
    """Returns what a run must have in common with one that it resumes."""
    names: list[str] = []
    values: dict[str, object] = {}
    inner = kernel
    while inner is not None:
        names.append(type(inner).__name__)
        parameters = getattr(inner, "parameters", {})
        values |= {
            f"{names[-1]}.{name}": np.asarray(value).tolist()
            for name, value in parameters.items()
            if _is_plain(value)
        }
        inner = getattr(inner, "inner_kernel", None) or parameters.get("inner_kernel")
    return {
        "kernel": names,
        **values,
        "shapes": [[str(leaf.dtype), *leaf.shape] for leaf in _leaves(chains)],
        "num_results": plan.results,
        "block_size": plan.block,
        "num_burnin_steps": plan.burnin,
        "num_steps_between_results": plan.between,
        "num_replicas": replicas,
        "seeds": None if seeds is None else np.asarray(seeds).tolist(),
    }


def _is_plain(value: Any) -> bool:
    """Whether a parameter of a kernel is a number or a tensor; a variable may change in a run."""
    return isinstance(value, int | float | np.number | np.ndarray | tf.Tensor)
