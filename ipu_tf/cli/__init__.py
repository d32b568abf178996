"""The command line `ipu-tf`: one file a command, all of them in the table of `commands`.

Only commands that trace a model load TensorFlow. Bad input gives one line on the
error output and exit code 2.
"""

from ipu_tf.cli.entry import main

__all__ = ["main"]
