"""The programs that draw a block of results on all replicas."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, cast

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp

from ipu_tf import config
from ipu_tf.feeds.outfeed_queue import IPUOutfeedQueue
from ipu_tf.internals.structures import TensorStructure
from ipu_tf.mcmc.chain_files import Arrays
from ipu_tf.mcmc.chains import ChainStates
from ipu_tf.mcmc.job_chains import of_all
from ipu_tf.mcmc.seeded_kernel import SeededKernel, SeededResults
from ipu_tf.ops import replication_ops
from ipu_tf.strategy import IPUStrategyV1

TraceFn: TypeAlias = Callable[..., TensorStructure]


@dataclass(kw_only=True)
class BlockSampler:
    """Runs blocks on all replicas.

    Attributes:
        parallel_iterations: Iterations of a loop that TensorFlow may run at once.
        name: Name of the operations.
        trace_fn: From state and kernel results to what is traced; None traces nothing.
        chains: The chains of the call.
        structure: States and trace of a block, once one is traced.
    """

    parallel_iterations: int
    name: str | None
    trace_fn: TraceFn | None = None
    chains: ChainStates = field(init=False)
    structure: tuple[TensorStructure, TensorStructure] | None = None

    def __post_init__(self) -> None:
        self._programs: dict[tuple[int, int, int], tuple[Any, IPUOutfeedQueue]] = {}
        self._bootstrap = tf.function(lambda state: self._kernel.bootstrap_results(state))

    def begin(self, strategy: IPUStrategyV1, kernel: object, trace_fn: TraceFn | None) -> None:
        """Sets whose functions are traced from now on.

        Args:
            strategy: The strategy in force; it is held weakly, as it keeps the programs.
            kernel: The transition kernel; it is held weakly, as by `SeededKernel`.
            trace_fn: What is traced.
        """
        self._strategy = weakref.ref(strategy)
        self._kernel = SeededKernel(kernel)
        self.trace_fn = trace_fn

    @property
    def strategy(self) -> IPUStrategyV1:
        """The strategy of the call."""
        strategy = self._strategy()
        if strategy is None:
            raise ReferenceError("The strategy of these chains was deleted.")
        return strategy

    def first_results(self, state: TensorStructure) -> SeededResults:
        """Returns the results of the kernel before the first step from a state."""
        results: SeededResults = self.strategy.run(self._bootstrap, args=(state,))
        return results

    def run(
        self, size: int, burnin: int, between: int, leaves_before: Arrays
    ) -> tuple[Arrays, Arrays]:
        """Returns the draws of a block, [size, replicas, ...], and the chains after it.

        The replicas are those of all instances of the job.
        """
        key = (size, burnin, between)
        if key not in self._programs:
            self._programs[key] = self._program(*key)
        program, outfeed = self._programs[key]
        self.strategy.run(program, args=([tf.constant(leaf) for leaf in leaves_before],))
        parts = cast("Arrays", outfeed.dequeue())
        values = [np.asarray(part)[0] for part in parts]  # One element a block.
        if self.strategy.num_replicas == 1:
            values = [part[np.newaxis] for part in values]
        values = of_all(values, 0, "draws")
        draws, chains = values[: -len(leaves_before)], values[-len(leaves_before) :]
        return [np.swapaxes(part, 0, 1) for part in draws], chains

    def _program(self, size: int, burnin: int, between: int) -> tuple[Any, IPUOutfeedQueue]:
        outfeed = IPUOutfeedQueue()
        engine = config.device_configuration().engine

        @tf.function(jit_compile=None if engine == "graph" else True)
        def draw(leaves: list[tf.Tensor]) -> list[tf.Tensor]:
            state, results = tf.nest.pack_sequence_as(self.chains.structure, leaves)
            states, trace, final = tfp.mcmc.sample_chain(
                num_results=size,
                current_state=state,
                previous_kernel_results=results,
                kernel=self._kernel,
                num_burnin_steps=burnin,
                num_steps_between_results=between,
                trace_fn=self.trace,
                return_final_kernel_results=True,
                parallel_iterations=self.parallel_iterations,
                seed=tf.zeros([2], tf.int32),  # The kernel has its own.
                name=self.name,
            )
            self.structure = (states, trace)
            last = tf.nest.map_structure(lambda part: part[-1], states)
            return tf.nest.flatten((states, trace, last, final))

        @tf.function
        def block(chain_leaves: list[tf.Tensor]) -> None:
            index = replication_ops.replication_index()
            outfeed.enqueue(draw([leaf[index] for leaf in chain_leaves]))

        return block, outfeed

    def trace(self, state: TensorStructure, results: SeededResults) -> TensorStructure:
        """Returns what is traced of a step."""
        return () if self.trace_fn is None else self.trace_fn(state, results.inner)
