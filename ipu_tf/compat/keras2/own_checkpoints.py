"""Reads the checkpoints of weights that `save_weights` writes under `ipu-tf run`.

They have the weights of a model, and the variables of its optimizer, in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals.keras_layers import layers_within, set_variable

OWN_WEIGHTS, OWN_STATE = "weights", "optimizer"
"""The lists in a checkpoint."""

_KEY = "{}/{}/.ATTRIBUTES/VARIABLE_VALUE"


class OwnCheckpoint:
    """The variables of a checkpoint.

    Args:
        path: The checkpoint, without the ending of its files.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._reader = tf.train.load_checkpoint(path)
        self._shapes: dict[str, list[int]] = self._reader.get_variable_to_shape_map()
        self._is_set = False

    @property
    def is_own(self) -> bool:
        """Whether `save_weights` wrote the checkpoint under `ipu-tf run`."""
        return _KEY.format(OWN_WEIGHTS, 0) in self._shapes

    def set_weights(self, model: keras.Model) -> list[keras.Variable]:
        """Sets the weights of a model once all exist; returns those that are set.

        Raises:
            ValueError: They are not those of the checkpoint.
        """
        weights, shapes = model.weights, self._shapes_of(OWN_WEIGHTS)
        is_whole = len(weights) >= len(shapes) or all(
            layer.built for layer in (model, *layers_within(model))
        )
        if not is_whole or self._is_set:
            return weights if self._is_set else []
        if shapes != [list(weight.shape) for weight in weights]:
            raise ValueError(
                f"The checkpoint {self._path!r} does not hold the weights of model "
                f"'{model.name}', of shapes {[list(weight.shape) for weight in weights]}. "
                f"Received: {sorted(self._shapes)[:5]}..."
            )
        self._set_all(weights, OWN_WEIGHTS)
        self._is_set = True
        return weights

    def set_optimizer(self, optimizer: Any, model: keras.Model) -> None:
        """Sets the variables of a built optimizer if the checkpoint has those."""
        del model
        if self._shapes_of(OWN_STATE) == [list(part.shape) for part in optimizer.variables]:
            self._set_all(optimizer.variables, OWN_STATE)

    def _shapes_of(self, part: str) -> list[list[int]]:
        count = sum(key.startswith(f"{part}/") for key in self._shapes)
        return [self._shapes[_KEY.format(part, number)] for number in range(count)]

    def _set_all(self, variables: Sequence[keras.Variable], part: str) -> None:
        for number, variable in enumerate(variables):
            set_variable(variable, self._reader.get_tensor(_KEY.format(part, number)))
