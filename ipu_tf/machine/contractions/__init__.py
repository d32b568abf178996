"""Vertices that multiply and add: AMP, SLIC and MAC loops, and the addition of their partials."""

from ipu_tf.machine.contractions.amp import amp_1x1_cycles, amp_nx1_cycles, pass_columns
from ipu_tf.machine.contractions.mac import (
    horizontal_mac_cycles,
    outer_product_cycles,
    vertical_mac_cycles,
)
from ipu_tf.machine.contractions.methods import METHODS, Method
from ipu_tf.machine.contractions.partials import add_in_place_cycles, reduce_cycles
from ipu_tf.machine.contractions.slic import slic_cycles
from ipu_tf.machine.contractions.work import ContractionWork
from ipu_tf.machine.dtypes import INPUT_BYTES
from ipu_tf.machine.target import AMP_GRAINS

__all__ = [
    "AMP_GRAINS",
    "INPUT_BYTES",
    "METHODS",
    "ContractionWork",
    "Method",
    "add_in_place_cycles",
    "amp_1x1_cycles",
    "amp_nx1_cycles",
    "horizontal_mac_cycles",
    "outer_product_cycles",
    "pass_columns",
    "reduce_cycles",
    "slic_cycles",
    "vertical_mac_cycles",
]
