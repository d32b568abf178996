"""Hamiltonian Monte Carlo as TensorFlow Probability for TensorFlow 1 had it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import tensorflow as tf

from ipu_tf.compat.later_finders import call_around, later_spec

_MODULE = "tensorflow_probability.python.mcmc"
_KERNEL = "HamiltonianMonteCarlo"


class _McmcHook:
    """Gives the module of samplers its kernel of TensorFlow 1 once it has run."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        spec = later_spec(cls, name, path, target)
        if spec is not None:
            call_around(spec, cls._execute_and_replace)
        return spec

    @staticmethod
    def _execute_and_replace(execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        execute(module)
        _replace_kernel(module)


@contextlib.contextmanager
def kernels_may_update_step_sizes() -> Iterator[None]:
    """Gives `tfp.mcmc.HamiltonianMonteCarlo` the argument `step_size_update_fn` for a while."""
    sys.meta_path.insert(0, _McmcHook)
    if _MODULE in sys.modules:
        _replace_kernel(sys.modules[_MODULE])
    try:
        yield
    finally:
        sys.meta_path.remove(_McmcHook)
        if _MODULE in sys.modules:
            module = sys.modules[_MODULE]
            setattr(module, _KERNEL, getattr(module, _KERNEL).__base__)


def _replace_kernel(module: ModuleType) -> None:
    setattr(module, _KERNEL, _with_updates(getattr(module, _KERNEL)))


def _with_updates(stock: Any) -> Any:
    """Returns a subclass of the stock kernel with the argument `step_size_update_fn`."""

    class HamiltonianMonteCarlo(stock):
        """The stock kernel, which may update the variable of its step size after each step.

        Args:
            args: As the stock kernel's.
            step_size_update_fn: From the step size and the results of a step, None before the
                first, to the updated step size; it assigns it. The results hold it as
                `extra.step_size_assign`.
            kwargs: As the stock kernel's.
        """

        def __init__(
            self, *args: Any, step_size_update_fn: Callable[..., Any] | None = None, **kwargs: Any
        ) -> None:
            super().__init__(*args, **kwargs)
            self._parameters["step_size_update_fn"] = step_size_update_fn

        @property
        def step_size_update_fn(self) -> Callable[..., Any] | None:
            return self.parameters["step_size_update_fn"]

        def one_step(
            self, current_state: Any, previous_kernel_results: Any, seed: Any = None
        ) -> Any:
            updated = tf.nest.flatten(previous_kernel_results.extra)
            with tf.control_dependencies(updated):
                state, results = super().one_step(current_state, previous_kernel_results, seed=seed)
            return state, self._update(results, results)

        def bootstrap_results(self, init_state: Any) -> Any:
            return self._update(super().bootstrap_results(init_state), None)

        def _update(self, results: Any, of_step: Any) -> Any:
            update = self.step_size_update_fn
            if update is None:
                return results
            extra = hmc.HamiltonianMonteCarloExtraKernelResults(
                step_size_assign=update(self.step_size, of_step)
            )
            return results._replace(extra=extra)

    hmc = sys.modules[stock.__module__]
    HamiltonianMonteCarlo.__module__ = stock.__module__
    return HamiltonianMonteCarlo
