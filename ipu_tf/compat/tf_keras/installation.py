"""Keras 2, by tf_keras, for the scripts of a process.

This file is loaded at the start of every Python whose environment has Keras 2 enabled: it imports
little.
"""

from __future__ import annotations

import os
import sys

from ipu_tf.compat import finder, modules
from ipu_tf.compat.tf_keras.finder import EarlierModules
from ipu_tf.compat.tf_keras.imports import redirect_imports

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

_CHOICE = "TF_USE_LEGACY_KERAS"
"""The variable by which TensorFlow, and packages beside it, choose tf_keras."""

_OF_A_KERAS = ("keras.", f"{modules.TF_KERAS}.")
"""Beginnings of the names of modules whose Keras is told by their name."""

_undo: list[Callable[[], None]] = []
"""What takes Keras 2 from scripts again; nothing while they have Keras 3."""


def is_in_force() -> bool:
    """Returns whether scripts find Keras 2."""
    return bool(_undo)


def install() -> None:
    """Gives scripts Keras 2 until `uninstall`; a second call does nothing.

    No Keras is loaded: tf_keras is once a script imports it, which fails if it is not installed. If
    TensorFlow is loaded already, its `tf.keras` becomes tf_keras.
    """
    if is_in_force():
        return
    begins = _choose, _give_vendor_s_layers, EarlierModules(_adapt).install, redirect_imports
    try:
        for begin in begins:
            _undo.append(begin())
    except BaseException:
        uninstall()
        raise


def uninstall() -> None:
    """Gives scripts the Keras of before `install`."""
    while _undo:
        _undo.pop()()


def _choose() -> Callable[[], None]:
    """Sets the variable that chooses tf_keras; returns what takes that back."""
    before = os.environ.get(_CHOICE)
    os.environ[_CHOICE] = "1"
    _choose_keras_again()

    def undo() -> None:
        if before is None:
            os.environ.pop(_CHOICE, None)
        else:
            os.environ[_CHOICE] = before
        _choose_keras_again()

    return undo


def _choose_keras_again() -> None:
    if "tensorflow" in sys.modules:
        from ipu_tf.internals.keras_of_tensorflow import choose_keras_again

        choose_keras_again()


def _give_vendor_s_layers() -> Callable[[], None]:
    """Makes the vendor's layers, optimizers and models those for tf_keras."""
    _choose_layers(2)
    return lambda: _choose_layers(3)


def _choose_layers(keras: int) -> None:
    finder.forget_modules(but=_OF_A_KERAS)
    modules.choose_keras(keras)


def _adapt(tree: ModuleType) -> Callable[[], None]:
    """Adapts the modules that scripts get to Keras 2.6; returns what takes that back."""
    # They load TensorFlow and both Keras.
    import contextlib

    from ipu_tf.compat.spellings.adaptation import adapted_methods
    from ipu_tf.compat.spellings.spelling import Notices
    from ipu_tf.compat.tf_keras.habits import SPELLINGS, legacy_optimizers

    stack = contextlib.ExitStack()
    stack.enter_context(adapted_methods(SPELLINGS, Notices()))
    stack.enter_context(legacy_optimizers(tree))
    return stack.close
