"""Which Keras `tf.keras` is, which TensorFlow decides once, at the first use of the name."""

from __future__ import annotations

import os
import sys

import tensorflow as tf

# What finds the Keras of TF_USE_LEGACY_KERAS at its first use; TensorFlow exports its result alone.
from tensorflow.python.util.lazy_loader import KerasLazyLoader

# Where TensorFlow finds the modules below `tensorflow.keras`.
from tensorflow.python.tools.module_util import get_parent_dir_for_name

_VARIABLE = "TF_USE_LEGACY_KERAS"
_ALIASES = ("initializers", "losses", "metrics", "optimizers")
_MODULE = "tensorflow.keras"


def choose_keras_again() -> None:
    """Makes `tf.keras` and its aliases the Keras that TF_USE_LEGACY_KERAS says now.

    Relies on `KerasLazyLoader`, by which TensorFlow finds them when it is imported, and on the
    first folder of `tensorflow.__path__` being that of the Keras.
    """
    v1, v2 = tf.compat.v1, tf.compat.v2
    for module, mode in ((tf, None), (v1, "v1"), (v2, "v2")):
        module.keras = KerasLazyLoader(vars(module), mode=mode)
    for module, mode in ((tf, None), (v2, "v2")):
        for name in _ALIASES:
            loader = KerasLazyLoader(vars(module), mode=mode, submodule=name, name=name)
            setattr(module, name, loader)
    for owner, name in ((v1, "layers"), (v1.nn, "rnn_cell")):
        below = f"__internal__.legacy.{name}"
        setattr(owner, name, KerasLazyLoader(vars(v1), mode="v1", submodule=below, name=name))
    is_legacy = os.environ.get(_VARIABLE) in ("true", "True", "1")
    tf.__path__[0] = get_parent_dir_for_name(
        "tf_keras.api._v2.keras" if is_legacy else "keras.api._v2.keras"
    )
    for name in [one for one in sys.modules if f"{one}.".startswith(f"{_MODULE}.")]:
        del sys.modules[name]
