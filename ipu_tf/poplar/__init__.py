"""Poplar: where its C++ headers and libraries are, and what is compiled with them.

The C++ is in ops/poplar of the project; an installed package has a copy of it. It is built at first
use. `model` lowers graphs to device programs, for a process beside a running program
(`profile/poplar_helper.py`) and for the compiler of TensorFlow programs with custom ops. This room
needs no TensorFlow, and only `model` needs NumPy.
"""

from ipu_tf.poplar.libraries import Installation, installation
from ipu_tf.poplar.programs import run_program
from ipu_tf.poplar.toolchain import PoplarBuildError

__all__ = ["Installation", "PoplarBuildError", "installation", "run_program"]
