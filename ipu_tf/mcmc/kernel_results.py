"""Fields of the results of kernels within kernels, and the statistics of a step."""

from __future__ import annotations

import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure

DIVERGENCE = 1000.0
"""A trajectory whose energy rises by more diverged: `max_energy_diff` of
`tfp.mcmc.NoUTurnSampler`, and the threshold of Stan (Betancourt, 2017)."""

_FIELDS = {
    "lp": ("target_log_prob",),
    "accepted": ("is_accepted",),
    "step_size": ("new_step_size", "step_size"),
    "n_steps": ("leapfrogs_taken",),
    "energy": ("energy",),
    "diverging": ("has_divergence",),
    "reached_max_treedepth": ("reach_max_depth",),
}
"""The fields of kernel results, first choice first, that hold each statistic of ArviZ."""


def statistics(current_state: TensorStructure, kernel_results: object) -> dict[str, tf.Tensor]:
    """Returns the statistics of a step under ArviZ's names; a `trace_fn` of `sample_chain`.

    Args:
        current_state: The state of the chains, without effect.
        kernel_results: Results of a `tfp.mcmc.TransitionKernel`, which may hold an inner kernel's.

    Returns:
        Those of "lp", "acceptance_rate", "accepted", "step_size", "n_steps", "energy", "diverging"
        and "reached_max_treedepth" that the results tell, each of the shape of the log-density. A
        step size is left out if the parts of the state have one each.
    """
    del current_state
    values_by_name = {}
    for name, fields in _FIELDS.items():
        values = next(filter(None, (parts(find(kernel_results, field)) for field in fields)), [])
        if len(values) == 1:
            values_by_name[name] = tf.convert_to_tensor(values[0])
    ratio = find(kernel_results, "log_accept_ratio")
    if ratio is not None:
        values_by_name["acceptance_rate"] = tf.exp(tf.minimum(ratio, tf.zeros_like(ratio)))
        if "diverging" not in values_by_name and find(kernel_results, "final_momentum") is not None:
            # NaN compares as false: a trajectory without a number diverged, too.
            values_by_name["diverging"] = tf.logical_not(ratio >= -DIVERGENCE)
    if "lp" not in values_by_name:
        return values_by_name
    shape = values_by_name["lp"].shape
    sizes = {name: value.shape.num_elements() for name, value in values_by_name.items()}
    return {
        name: tf.reshape(value, shape) if sizes[name] == sizes["lp"] else tf.fill(shape, value)
        for name, value in values_by_name.items()
        if sizes[name] == sizes["lp"] or value.shape.rank == 0
    }


def find(results: object, name: str) -> tf.Tensor | None:
    """Returns the first field of this name in results within results, None if there is none."""
    fields = getattr(results, "_fields", ())
    if name in fields:
        return getattr(results, name)
    for field in fields:
        value = find(getattr(results, field), name)
        if value is not None:
            return value
    return None


def parts(value: tf.Tensor | None) -> list[tf.Tensor]:
    """Returns the parts of a field that has one value for each part of the state."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
