"""The table of spellings of earlier releases of TensorFlow and NumPy."""

from __future__ import annotations

from ipu_tf.compat.spellings import norms, numpy_names, tensorflow_modules
from ipu_tf.compat.spellings.spelling import Spelling

SPELLINGS: tuple[Spelling, ...] = (
    *tensorflow_modules.SPELLINGS,
    *norms.SPELLINGS,
    *numpy_names.SPELLINGS,
)
"""Every spelling. It adapts both libraries, and is a section of docs/compatibility.md."""
