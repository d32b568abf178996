"""What makes a run the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tf.mcmc.block_run import BlockPlan
from ipu_tf.mcmc.chains import ChainStates


def identity_of_run(
    kernel: object, plan: BlockPlan, chains: ChainStates, replicas: int, seeds: object
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
        "shapes": [[str(leaf.dtype), *leaf.shape] for leaf in chains.leaves],
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
