"""The vendor's module names, and the Keras of scripts, for a process.

This file is loaded at the start of every Python whose environment has the aliases enabled: it
imports little.
"""

from __future__ import annotations

import sys

from ipu_tf.compat import finder
from ipu_tf.compat.finder import installed

__all__ = ["install", "installed", "uninstall"]


def install(keras: int = 2) -> None:
    """Makes the vendor's module names importable, for this process; a second call adds nothing.

    Args:
        keras: 2 to give scripts, and the packages that they import, Keras 2 by tf_keras for `keras`
            and `tf.keras`, from now on; 3 to leave Keras as it is. Without tf_keras, the import of
            `keras` fails and names the command that installs it.

    Raises:
        ValueError: `keras` is neither 2 nor 3.
    """
    if keras not in (2, 3):
        raise ValueError(f"There are Keras 2 and Keras 3. Received: keras={keras!r}.")
    finder.install()
    if keras == 2:
        # Here, since it is not needed beside Keras 3.
        from ipu_tf.compat.tf_keras import installation as of_keras_2

        of_keras_2.install()


def uninstall() -> None:
    """Takes the names away again; modules that a script holds already go on working."""
    if of_keras_2 := sys.modules.get("ipu_tf.compat.tf_keras.installation"):
        of_keras_2.uninstall()
    finder.uninstall()
