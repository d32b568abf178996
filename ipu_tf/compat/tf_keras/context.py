"""The context in which scripts find Keras 2, by tf_keras.

This file is loaded at the start of every Python whose environment has Keras 2 enabled: it imports
little.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys

from ipu_tf.compat import finder, modules
from ipu_tf.compat.tf_keras.finder import EarlierModules
from ipu_tf.compat.tf_keras.imports import redirected_imports

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

_CHOICE = "TF_USE_LEGACY_KERAS"
"""The variable by which TensorFlow, and packages beside it, choose tf_keras."""

_OF_A_KERAS = ("keras.", f"{modules.TF_KERAS}.")
"""Beginnings of the names of modules whose Keras is told by their name."""


_installed = contextlib.ExitStack()


def check_installed() -> None:
    """Checks that there is a tf_keras.

    Raises:
        ImportError: It is not installed.
    """
    if importlib.util.find_spec("tf_keras") is None:
        raise ImportError(
            "Keras 2 for scripts is the package tf_keras, which is not installed. Install it: "
            "pip install ipu_tf[keras2]"
        )


def is_in_force() -> bool:
    """Returns whether scripts find Keras 2."""
    return any(isinstance(one, EarlierModules) for one in sys.meta_path)


@contextlib.contextmanager
def keras_2_for_scripts() -> Iterator[None]:
    """Gives scripts and the packages that they import Keras 2; afterwards all is as before.

    No Keras is loaded: tf_keras is once a script imports it. If TensorFlow is loaded already, its
    `tf.keras` becomes tf_keras. A context within another one does nothing.

    Raises:
        ImportError: tf_keras is not installed.
    """
    check_installed()
    if is_in_force():
        yield
        return
    with contextlib.ExitStack() as stack:
        # It runs last, and reads the variable of before.
        stack.callback(_choose_keras_again)
        stack.enter_context(_chosen())
        _choose_keras_again()
        stack.enter_context(_vendor_s_layers())
        stack.enter_context(EarlierModules(_adapt).installed())
        stack.enter_context(redirected_imports())
        yield


def install() -> None:
    """Gives scripts Keras 2 until `uninstall`; see `keras_2_for_scripts`."""
    _installed.enter_context(keras_2_for_scripts())


def uninstall() -> None:
    """Gives scripts the Keras of before `install`."""
    _installed.close()


@contextlib.contextmanager
def _chosen() -> Iterator[None]:
    """Sets the variable that chooses tf_keras."""
    before = os.environ.get(_CHOICE)
    os.environ[_CHOICE] = "1"
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(_CHOICE, None)
        else:
            os.environ[_CHOICE] = before


def _choose_keras_again() -> None:
    if "tensorflow" in sys.modules:
        from ipu_tf.internals.keras_of_tensorflow import choose_keras_again

        choose_keras_again()


@contextlib.contextmanager
def _vendor_s_layers() -> Iterator[None]:
    """Makes the vendor's layers, optimizers and models those for tf_keras."""
    finder.forget_modules(but=_OF_A_KERAS)
    modules.choose_keras(2)
    try:
        yield
    finally:
        finder.forget_modules(but=_OF_A_KERAS)
        modules.choose_keras(3)


def _adapt(tree: ModuleType) -> Callable[[], None]:
    """Adapts the modules that scripts get to Keras 2.6; returns what takes that back."""
    # They load TensorFlow and both Keras.
    from ipu_tf.compat.spellings.adaptation import adapted_methods
    from ipu_tf.compat.spellings.spelling import Notices
    from ipu_tf.compat.tf_keras.habits import SPELLINGS, legacy_optimizers

    stack = contextlib.ExitStack()
    stack.enter_context(adapted_methods(SPELLINGS, Notices()))
    stack.enter_context(legacy_optimizers(tree))
    return stack.close
