"""Modules of TensorFlow that moved since Keras 2."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from ipu_tf.compat.keras2.spelling import Notify, Spelling
from ipu_tf.internals.tensorflow import gen_training_ops, training_package

_TRAINING_OPS = "training_ops"


@contextlib.contextmanager
def _training_ops(notify: Notify) -> Iterator[None]:
    """Makes the updates of variables a module of `tensorflow.python.training`."""
    del notify  # The functions are TensorFlow's own.
    name = f"{training_package.__name__}.{_TRAINING_OPS}"
    if name in sys.modules or hasattr(training_package, _TRAINING_OPS):
        yield
        return
    sys.modules[name] = gen_training_ops
    setattr(training_package, _TRAINING_OPS, gen_training_ops)
    try:
        yield
    finally:
        del sys.modules[name]
        delattr(training_package, _TRAINING_OPS)


SPELLINGS = (
    Spelling(
        name="`tensorflow.python.training.training_ops`",
        keras_2="The operations that update variables, for optimizers of scripts.",
        here="It is `tensorflow.python.ops.gen_training_ops`, which has the same functions.",
        context=_training_ops,
    ),
)
