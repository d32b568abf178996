"""A transition kernel that carries its seed in its results, so that a chain can go on."""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import tensorflow as tf
import tensorflow_probability as tfp

from ipu_tf.internals.structures import TensorStructure


class SeededResults(NamedTuple):
    """Results of a kernel, and the seed of the chain's next step.

    Attributes:
        inner: The results of the kernel.
        seed: int32[2].
    """

    inner: object
    seed: tf.Tensor


class SeededKernel(tfp.mcmc.TransitionKernel):
    """Steps a kernel with the seeds that `tfp.mcmc.sample_chain` would give its steps.

    Args:
        kernel: The kernel; it is held weakly, as programs are kept for as long as their kernels.
    """

    def __init__(self, kernel: object) -> None:
        self._reference = weakref.ref(kernel)

    @property
    def _kernel(self) -> Any:
        kernel = self._reference()
        if kernel is None:
            raise ReferenceError("The transition kernel of these chains was deleted.")
        return kernel

    @property
    def is_calibrated(self) -> bool:
        """Whether the chain converges to its target."""
        return bool(self._kernel.is_calibrated)

    def one_step(
        self,
        current_state: TensorStructure,
        previous_kernel_results: SeededResults,
        seed: tf.Tensor | None = None,
    ) -> tuple[TensorStructure, SeededResults]:
        """Returns the next state and results; `seed` has no effect."""
        del seed
        step, next_seed = tfp.random.split_seed(previous_kernel_results.seed)
        state, inner = self._kernel.one_step(
            current_state, previous_kernel_results.inner, seed=step
        )
        return state, SeededResults(inner=inner, seed=next_seed)

    def bootstrap_results(self, init_state: TensorStructure) -> SeededResults:
        """Returns the results before the first step; the caller sets the seed."""
        inner = self._kernel.bootstrap_results(init_state)
        return SeededResults(inner=inner, seed=tf.zeros([2], tf.int32))
