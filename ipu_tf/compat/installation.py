"""The vendor's module names, and the Keras of scripts, for a process.

This file is loaded at the start of every Python whose environment has the aliases enabled: it
imports little.
"""

from __future__ import annotations

import sys

from ipu_tf.compat import finder
from ipu_tf.compat.finder import installed

__all__ = ["install", "installed", "uninstall"]


def install(keras: int | None = None) -> None:
    """Makes the vendor's module names importable, for this process; a second call adds nothing.

    Args:
        keras: 2 to give scripts, and the packages that they import, Keras 2 by tf_keras for `keras`
            and `tf.keras`, from now on; 3 or None to leave Keras as it is.

    Raises:
        ImportError: `keras` is 2, and tf_keras is not installed.
        ValueError: `keras` is neither 2 nor 3.
    """
    if keras not in (None, 2, 3):
        raise ValueError(f"There are Keras 2 and Keras 3. Received: keras={keras!r}.")
    if keras != 2:
        finder.install()
        return
    # Here, since few have it.
    from ipu_tf.compat.tf_keras import context

    context.check_installed()
    finder.install()
    context.install()


def uninstall() -> None:
    """Takes the names away again; modules that a script holds already go on working."""
    if context := sys.modules.get("ipu_tf.compat.tf_keras.context"):
        context.uninstall()
    finder.uninstall()
