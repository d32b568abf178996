"""The one table of Keras 2 spellings."""

from __future__ import annotations

from ipu_tf.compat.keras2 import (
    layers,
    losses,
    optimizer_arguments,
    optimizer_classes,
    optimizer_methods,
    shapes,
    training,
)
from ipu_tf.compat.keras2.spelling import Spelling

SPELLINGS: tuple[Spelling, ...] = (
    *shapes.SPELLINGS,
    *layers.SPELLINGS,
    *optimizer_arguments.SPELLINGS,
    *optimizer_methods.SPELLINGS,
    *optimizer_classes.SPELLINGS,
    *training.SPELLINGS,
    *losses.SPELLINGS,
)
"""Every spelling. It adapts Keras, and is the section on Keras 2 of docs/compatibility.md."""
