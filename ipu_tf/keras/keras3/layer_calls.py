"""The open calls of Keras' layers, for the rooms that trace."""

from __future__ import annotations

from ipu_tf.base import call_path
from ipu_tf.internals.keras_layers import is_in_optimizer, keras_layer_path


@call_path.add_source
def layer_calls() -> call_path.CallPath:
    """Returns the calls of Keras that are open on this thread."""
    path = keras_layer_path()
    return call_path.CallPath(path=path, is_in_optimizer=bool(path) and is_in_optimizer())
