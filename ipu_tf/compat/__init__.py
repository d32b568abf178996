"""The vendor's module names over `ipu_tf`, so that a script runs as it is.

After `install()`, `from tensorflow.python import ipu`, `keras.ipu`, `ipu_tensorflow_addons`,
`popdist` and `libpvti` import. A module of that name that is really installed comes first.
"""

from ipu_tf.compat.installation import install, installed, uninstall

__all__ = ["install", "installed", "uninstall"]
