"""The sampling benchmark's program in JAX: TensorFlow Probability on JAX, BlackJAX and NumPyro.

Each draws by Hamiltonian Monte Carlo with a fixed step size and number of leapfrog steps, compiled
whole, with all samples in one `lax.scan` and the chains side by side by `vmap`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Side = Callable[[], np.ndarray]


@dataclass(frozen=True, kw_only=True)
class Posterior:
    """The posterior of the network, and how to sample it.

    Attributes:
        x: Rows, float32[rows, inputs].
        y: Targets, float32[rows].
        shapes: Shapes of the weights, which lie in one vector.
        start: First weights of each chain, float32[chains, weights].
        step_size: Step size.
        leapfrog_steps: Leapfrog steps of a sample.
        samples: Samples of a round.
    """

    x: np.ndarray
    y: np.ndarray
    shapes: Sequence[tuple[int, ...]]
    start: np.ndarray
    step_size: float
    leapfrog_steps: int
    samples: int

    def log_density(self, weights: Any) -> Any:
        """Returns the log-density of the weights of one network, as JAX traces it."""
        import jax.numpy as jnp

        ends = np.cumsum([np.prod(shape) for shape in self.shapes])[:-1]
        parts = zip(jnp.split(weights, ends), self.shapes, strict=True)
        w1, b1, w2, b2, w3, b3 = (part.reshape(shape) for part, shape in parts)
        hidden = jnp.tanh(jnp.tanh(self.x @ w1 + b1) @ w2 + b2)
        errors = (hidden @ w3 + b3)[:, 0] - self.y
        return -50.0 * jnp.sum(errors**2) - 0.5 * jnp.sum(weights**2)


def sides(posterior: Posterior) -> tuple[dict[str, Side], dict[str, str]]:
    """Returns the sides whose packages work here, and why each other does not."""
    samplers, absent = {}, {}
    for name, make in _MAKERS.items():
        try:
            samplers[name] = _side(make(posterior), posterior.start)
        except (ImportError, AttributeError) as error:  # A package of another version of JAX.
            absent[name] = f"{type(error).__name__}: {error}"
    return samplers, absent


def versions(names: Mapping[str, Any]) -> dict[str, str]:
    """Returns the versions of JAX and of the packages of sides."""
    modules = ["jax", *(name for name in names if name in {"blackjax", "numpyro"})] if names else []
    return {name: importlib.import_module(name).__version__ for name in modules}


def _side(sample: Callable[..., Any], start: np.ndarray) -> Side:
    import jax

    program = jax.jit(sample)
    arguments = (jax.numpy.asarray(start), jax.random.key(0))
    return lambda: np.asarray(program(*arguments))


def _tfp_on_jax(posterior: Posterior) -> Callable[..., Any]:
    import jax
    from tensorflow_probability.substrates import jax as tfp

    kernel = tfp.mcmc.HamiltonianMonteCarlo(
        jax.vmap(posterior.log_density),
        step_size=posterior.step_size,
        num_leapfrog_steps=posterior.leapfrog_steps,
    )

    def sample(start: Any, seed: Any) -> Any:
        return tfp.mcmc.sample_chain(
            posterior.samples, start, kernel=kernel, seed=seed, trace_fn=None
        )

    return sample


def _blackjax(posterior: Posterior) -> Callable[..., Any]:
    import blackjax
    import jax

    kernel = blackjax.hmc(
        posterior.log_density,
        step_size=posterior.step_size,
        inverse_mass_matrix=np.ones(posterior.start.shape[-1], "float32"),
        num_integration_steps=posterior.leapfrog_steps,
    )

    def chain(start: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        keys = jax.random.split(key, posterior.samples)
        return jax.lax.scan(step, kernel.init(start), keys)[1]

    def sample(start: Any, seed: Any) -> Any:
        return jax.vmap(chain, out_axes=1)(start, jax.random.split(seed, len(start)))

    return sample


def _numpyro(posterior: Posterior) -> Callable[..., Any]:
    import jax
    from numpyro.infer import HMC

    def chain(start: Any, key: Any) -> Any:
        kernel = HMC(
            potential_fn=lambda weights: -posterior.log_density(weights),
            step_size=posterior.step_size,
            num_steps=posterior.leapfrog_steps,
            trajectory_length=posterior.step_size * posterior.leapfrog_steps,
            adapt_step_size=False,
            adapt_mass_matrix=False,
        )
        state = kernel.init(key, 0, start, model_args=(), model_kwargs={})

        def step(state: Any, _: None) -> Any:
            state = kernel.sample(state, (), {})
            return state, state.z

        return jax.lax.scan(step, state, None, length=posterior.samples)[1]

    def sample(start: Any, seed: Any) -> Any:
        return jax.vmap(chain, out_axes=1)(start, jax.random.split(seed, len(start)))

    return sample


_MAKERS = {"tfp_on_jax": _tfp_on_jax, "blackjax": _blackjax, "numpyro": _numpyro}
