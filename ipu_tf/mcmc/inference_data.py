"""Chains and their statistics as ArviZ holds them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    import arviz


def to_arviz(
    states: ArrayLike | Mapping[str, ArrayLike] | Sequence[ArrayLike],
    sample_stats: Mapping[str, ArrayLike] | None = None,
    *,
    chain_ndims: int = 1,
) -> arviz.InferenceData:
    """Returns chains as the installed ArviZ holds them.

    Args:
        states: The states of `sample_chain`, [num_results, chains..., ...]: an array, a list of
            arrays for the parts of the state, or a mapping or named tuple, which names them.
            Without names a single part is called "x", several "x_0", "x_1", and so on.
        sample_stats: Statistics of the steps, [num_results, chains...], such as the trace of
            `trace_fn=ipu_tf.mcmc.statistics`.
        chain_ndims: How many axes after the first are chains: that of the replicas and those of the
            chains of a replica. They become one axis. With 0 there is one chain.

    Returns:
        `arviz.InferenceData`, or an `xarray.DataTree` from ArviZ 1.0 on, with the groups
        "posterior" and, with statistics, "sample_stats"; arrays are [chain, draw, ...].

    Raises:
        ModuleNotFoundError: ArviZ is not installed.
        ValueError: An array has too few axes, or its chains differ from those of others.
    """
    arviz = _arviz()
    groups = {"posterior": _chains_by_name(_by_name(states), chain_ndims)}
    if sample_stats is not None:
        groups["sample_stats"] = _chains_by_name(dict(sample_stats), chain_ndims)
    _check_sizes({f"{group}.{name}": a for group in groups for name, a in groups[group].items()})
    if hasattr(arviz, "InferenceData"):
        return arviz.from_dict(**groups)
    return arviz.from_dict(groups)


def _arviz() -> Any:
    try:
        import arviz
    except ModuleNotFoundError:
        raise ModuleNotFoundError(
            "`ipu_tf.mcmc.to_arviz` needs ArviZ. Install it: pip install arviz"
        ) from None
    return arviz


def _by_name(states: Any) -> dict[str, Any]:
    if hasattr(states, "_asdict"):
        states = states._asdict()
    if isinstance(states, Mapping):
        return dict(states)
    if isinstance(states, list | tuple):
        return {f"x_{index}": part for index, part in enumerate(states)}
    return {"x": states}


def _chains_by_name(arrays: Mapping[str, Any], chain_ndims: int) -> dict[str, NDArray[Any]]:
    """Returns arrays, [draw, chains..., ...], as [chain, draw, ...]."""
    return {name: _chains_first(name, np.asarray(a), chain_ndims) for name, a in arrays.items()}


def _chains_first(name: str, array: NDArray[Any], chain_ndims: int) -> NDArray[Any]:
    if array.ndim < 1 + chain_ndims:
        raise ValueError(
            f"'{name}' needs an axis of results and {chain_ndims} of chains, as `chain_ndims` "
            f"says. Received: shape {array.shape}."
        )
    draws, *sizes = array.shape
    chains = math.prod(sizes[:chain_ndims])
    return np.swapaxes(array.reshape(draws, chains, *sizes[chain_ndims:]), 0, 1)


def _check_sizes(arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raises ValueError if arrays have other numbers of chains or draws than the first."""
    first, *later_names = arrays
    for name in later_names:
        if arrays[name].shape[:2] != arrays[first].shape[:2]:
            raise ValueError(
                f"'{first}' has {_counts(arrays[first])} and '{name}' has {_counts(arrays[name])}. "
                "Give arrays of one run, and the number of its axes of chains as `chain_ndims`."
            )


def _counts(array: NDArray[Any]) -> str:
    chains, draws = array.shape[:2]
    return f"{chains} chains of {draws} draws"
