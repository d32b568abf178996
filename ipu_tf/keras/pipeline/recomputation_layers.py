"""Checks the layers after which a model keeps activations while it recomputes others."""

from __future__ import annotations

from collections.abc import Sequence

from ipu_tf.keras.adapters.graphs import GraphModel, graphs_of


def checked_checkpoints(model: GraphModel, checkpoints: Sequence[str]) -> tuple[str, ...]:
    """Returns the names of layers after which activations are kept.

    Args:
        model: The model.
        checkpoints: Names or paths of its layers.

    Raises:
        TypeError: They are no sequence of names.
        ValueError: The model has no such layer.
    """
    is_list = isinstance(checkpoints, Sequence) and not isinstance(checkpoints, str)
    if not is_list or not all(isinstance(name, str) for name in checkpoints):
        raise TypeError(
            f"`checkpoints` must be a sequence of names of layers. Received: {checkpoints!r}."
        )
    layer_names = [layer.name for layer in graphs_of(model).layers_within(model)]
    unknown = [name for name in checkpoints if name.rpartition("/")[2] not in layer_names]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise ValueError(
            f"Model '{model.name}' has no layer {names} to keep activations after. It has "
            f"{', '.join(layer_names)}. Received: checkpoints={list(checkpoints)!r}."
        )
    return tuple(checkpoints)
