"""The contexts in which scripts find Keras 2, by tf_keras, or Keras 3."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ipu_tf.compat.tf_keras.installation import install, is_in_force, uninstall


@contextlib.contextmanager
def keras_2_for_scripts() -> Iterator[None]:
    """Gives scripts and the packages that they import Keras 2; afterwards all is as before.

    A context within another one does nothing.
    """
    was_in_force = is_in_force()
    install()
    try:
        yield
    finally:
        if not was_in_force:
            uninstall()


@contextlib.contextmanager
def keras_3_for_scripts() -> Iterator[None]:
    """Leaves scripts Keras 3, also where they had Keras 2, which they have again afterwards."""
    was_in_force = is_in_force()
    uninstall()
    try:
        yield
    finally:
        if was_in_force:
            install()
