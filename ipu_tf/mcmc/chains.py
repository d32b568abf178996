"""The chains of a replica between two blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from ipu_tf.internals.structures import TensorStructure
from ipu_tf.mcmc.chain_files import Arrays
from ipu_tf.mcmc.seeded_kernel import SeededResults


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainStates:
    """The chains of one replica between two blocks; the seed is their last leaf."""

    state: TensorStructure
    results: SeededResults

    @property
    def structure(self) -> tuple[TensorStructure, SeededResults]:
        """State and results, as TensorFlow Probability nests them."""
        return (self.state, self.results)

    @property
    def leaves(self) -> Arrays:
        """The arrays of the structure, in a row."""
        return [np.asarray(leaf) for leaf in tf.nest.flatten(self.structure)]
