"""Deprecated: plans are in `ipu_tf.planner`."""

from typing import TYPE_CHECKING

from ipu_tf.base.deprecation import deprecated_names

_SHAPES = ("AMP_GRAINS", "ConvPass", "ConvShape", "MatMulShape", "OpShape")
_PLANS = (
    "ConvPlan",
    "MatMulPlan",
    "Plan",
    "PlanDoesNotFit",
    "check_parts",
    "largest_block",
    "partial_dtype",
    "written",
)

# Type checkers would take this function to mean "any name at all".
if not TYPE_CHECKING:
    __getattr__ = deprecated_names(
        __name__,
        {
            **{name: f"ipu_tf.planner.shapes.{name}" for name in _SHAPES},
            **{name: f"ipu_tf.planner.plan.{name}" for name in _PLANS},
            "partition": "ipu_tf.planner.partition.partition",
        },
    )
