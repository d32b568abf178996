"""The simulated machine: chips, memory and what each step of a tile program costs.

Nothing in here knows TensorFlow, Keras or a compiler.
"""

from ipu_tf.machine.target import CHIPS, Target, target

__all__ = ["CHIPS", "Target", "target"]
