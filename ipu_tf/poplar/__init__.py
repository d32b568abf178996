"""Poplar: where its C++ headers and libraries are, and programs compiled with them.

The C++ is in ops/poplar of the project; an installed package has a copy of it. It is built at first
use. `helper` is the process that models cycles and memory of a running program. This room needs no
TensorFlow, and only `helper` and `model` need NumPy.
"""

from ipu_tf.poplar.libraries import Installation, installation
from ipu_tf.poplar.programs import run_program
from ipu_tf.poplar.toolchain import PoplarBuildError

__all__ = ["Installation", "PoplarBuildError", "installation", "run_program"]
