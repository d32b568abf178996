"""Keeps a model's random states in its files, so that a continued run draws the same values.

Stock Keras leaves them out. They have a group of their own in the weights of a model; stock
Keras does not read it, and it may be missing.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Mapping, MutableMapping

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.keras.adapters.models import adapter_of

logger = logging.getLogger(__name__)


class RandomStates(keras.Operation):
    """Writes and reads the states of a model's random generators.

    Keras saves operations that are attributes of a model; this is not a layer, so the model's
    layers stay as they are.

    Args:
        model: The model.
    """

    def __init__(self, model: keras.Model) -> None:
        super().__init__(name="random_states")
        self._model = weakref.ref(model)

    def save_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Writes the states to a part of a file, by their number."""
        for index, state in enumerate(self._states()):
            store[str(index)] = state.numpy()

    def load_own_variables(self, store: Mapping[str, np.ndarray]) -> None:
        """Sets the states from a part of a file, which is empty if the file has no states."""
        states = self._states()
        if len(store.keys()) not in (0, len(states)):
            logger.warning(
                "The states of %d random generators are not loaded, because the model has %d.",
                len(store.keys()),
                len(states),
            )
            return
        for index, state in enumerate(states):
            if str(index) in store:
                state.assign(store[str(index)])

    def _states(self) -> list[tf.Variable]:
        model = self._model()
        return [] if model is None else adapter_of(model).seed_states
