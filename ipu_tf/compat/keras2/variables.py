"""Variables of Keras where TensorFlow takes its own alone."""

from __future__ import annotations

from types import MappingProxyType

import keras

from ipu_tf.compat.keras2.spelling import Call, Spelling
from ipu_tf.internals import patches


def _watched(call: Call) -> bool:
    """Gives a tape the variables of TensorFlow that variables of Keras hold."""
    leaves = keras.tree.flatten((call.args, call.kwargs))
    if not any(isinstance(leaf, keras.Variable) for leaf in leaves):
        return False
    call.args, call.kwargs = keras.tree.map_structure(
        lambda leaf: leaf.value if isinstance(leaf, keras.Variable) else leaf,
        (call.args, call.kwargs),
    )
    return True


SPELLINGS = (
    Spelling(
        name="`tape.watch(layer.kernel)`",
        keras_2="The weights of a layer were variables of TensorFlow.",
        here="The tape watches the variable of TensorFlow that the weight holds.",
        rewrites=MappingProxyType({patches.WATCHED_VARIABLES: _watched}),
    ),
)
