"""Deprecated: shapes of planned ops are in `ipu_tf.planner.shapes`."""

from typing import TYPE_CHECKING

from ipu_tf.base.deprecation import deprecated_names
from ipu_tf.planner import shapes

# Type checkers would take this function to mean "any name at all".
if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__, {name: f"{shapes.__name__}.{name}" for name in shapes.__all__}
    )
