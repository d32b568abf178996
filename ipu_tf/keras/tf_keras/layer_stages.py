"""The pipeline stages in which layers of tf_keras are made and called."""

from __future__ import annotations

from collections.abc import Callable

from ipu_tf.internals.tf_keras import CALLS_IN_STAGES, LAYER_CREATION
from ipu_tf.keras.adapters.graphs import Layer
from ipu_tf.keras.pipeline.scope import note_creation, noting_calls, replace_in_stages


def _layer_creation(stock: Callable[..., None]) -> Callable[..., None]:
    """Makes layers keep the stage scope in which they are made."""

    def init(layer: Layer, *args: object, **kwargs: object) -> None:
        note_creation(layer)
        stock(layer, *args, **kwargs)

    return init


replace_in_stages(LAYER_CREATION, _layer_creation)
replace_in_stages(CALLS_IN_STAGES, noting_calls)
