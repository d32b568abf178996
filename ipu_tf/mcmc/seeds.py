"""The seeds of a run."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_probability as tfp
from numpy.typing import NDArray


def seeds_of_replicas(
    seed: tf.Tensor | int | Sequence[int] | None, replicas: int
) -> NDArray[np.int32]:
    """Returns the first seed of every replica, int32[replicas, 2]."""
    if isinstance(seed, int):
        seed = [0, seed]  # TensorFlow Probability would draw from a generator with state.
    if seed is not None:
        seed = tf.convert_to_tensor(seed, tf.int32)
    first = tfp.random.sanitize_seed(seed, salt="mcmc.sample_chain")
    own = [first]
    own += [tf.random.experimental.stateless_fold_in(first, index) for index in range(1, replicas)]
    return np.stack([part.numpy() for part in own])
