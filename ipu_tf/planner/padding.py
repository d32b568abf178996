"""Copies of tensors whose channels do not fill the AMP passes of a plan.

An AMP pass sums over a whole group of channels and computes a whole group of features. poplibs
fills up operands with zeros, and takes the surplus features off the result; for each tensor that
this changes, its planner counts a copy to another layout, and an exchange (ConvModel.cpp,
addTransformCycleEstimate: padInChannels, padPartialChannels). An expanded image is copied anyway,
and so are operands that are transposed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ipu_tf.machine.contractions import METHODS, pass_columns
from ipu_tf.machine.cost import Cost, Count, ceil_div
from ipu_tf.machine.exchange import phase_cycles
from ipu_tf.machine.target import Target
from ipu_tf.planner.candidates import Candidates
from ipu_tf.planner.plan import Plan
from ipu_tf.planner.shapes import DTYPE_BYTES, Operands, OpShape

_VECTOR_BYTES = 8
_COPIED_TWELFTHS = 15
_ODD_COPIED_TWELFTHS = 20
"""Twelfths of a cycle in which an element is copied: 5/4 cycles, and 5/3 where no whole vectors
divide the channels (ConvModel.cpp, getScaleFactorForTransform)."""

Arranged = tuple[bool, bool]
"""Whether the left and the right operand reach a plan in copies that are as it needs them."""

NONE_ARRANGED: Arranged = (False, False)


def padding_cost(
    shape: OpShape, plans: Candidates, target: Target, arranged: Arranged = NONE_ARRANGED
) -> Cost:
    """Returns the cost of the copies of operands, before the products, and of their result.

    Args:
        shape: The op.
        plans: Its plans.
        target: The machine.
        arranged: The operands that are copied anyway, and charged elsewhere.
    """
    filling = _Filling.of(shape, plans, target)
    copied = [
        needs_copy and not is_turned and not is_arranged
        for needs_copy, is_turned, is_arranged in zip(
            filling.copies, shape.rearranged, arranged, strict=True
        )
    ]
    operands = copied[0] * filling.whole.left + copied[1] * filling.whole.right
    result = filling.lacks_features * filling.whole.output
    if not (operands or result):
        return Cost()
    element_bytes = DTYPE_BYTES[shape.dtype]
    vector = _VECTOR_BYTES // element_bytes
    is_even = filling.channels * filling.features % vector == 0
    cycles = _copy_cycles(operands, plans.tiles, in_vectors=is_even)
    cycles += _copy_cycles(result, plans.tiles, in_vectors=filling.features % vector == 0)
    sent_bytes = ceil_div(operands + result, plans.tiles) * element_bytes
    return Cost(
        compute_cycles=cycles,
        exchange_cycles=phase_cycles(sent_bytes, target),
        sync_cycles=target.sync_cycles,
    )


def filled_extents(shape: OpShape, plan: Plan, target: Target) -> Mapping[str, int]:
    """Returns the extents of an op, channels and features filled up to whole AMP passes."""
    return {
        name: int(extent)
        for name, extent in _Filling.of(shape, Candidates.of(plan), target).extents.items()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Filling:
    """What plans fill up.

    Attributes:
        channels: Elements that are summed over.
        features: Features that are computed side by side.
        extents: The extents, filled up.
        whole: Elements of the tensors, filled up.
        copies: Whether the left and the right operand change.
        lacks_features: Whether the result does.
    """

    channels: int
    features: int
    extents: Mapping[str, Count]
    whole: Operands
    copies: tuple[bool, bool] = (False, False)
    lacks_features: bool = False

    @classmethod
    def of(cls, shape: OpShape, plans: Candidates, target: Target) -> _Filling:
        method = METHODS[plans.method]
        feature_split = "rows" if method.swapped else shape.column_split
        channels, features = shape.extents[shape.grained_split], shape.extents[feature_split]
        if not method.padded:
            return cls(
                channels=channels,
                features=features,
                extents=shape.extents,
                whole=shape.operands(shape.extents),
            )
        group = plans.grain // method.filter_rows
        width = pass_columns(shape.dtype, plans.partials, target)
        extents: dict[str, Count] = {
            **shape.extents,
            shape.grained_split: ceil_div(channels, group) * group,
            feature_split: ceil_div(features, width) * width,
        }
        is_direct = method.expanded == "none"
        lacks_channels = is_direct and channels % group != 0
        lacks_features = features % width != 0
        # The operand that waits in the units has the features.
        waits = lacks_channels or (is_direct and lacks_features)
        return cls(
            channels=channels,
            features=features,
            extents=extents,
            whole=shape.operands(extents),
            copies=(waits, lacks_channels) if method.swapped else (lacks_channels, waits),
            lacks_features=lacks_features,
        )


def _copy_cycles(elements: Count, tiles: Count, *, in_vectors: bool) -> Count:
    """Returns the cycles in which tiles copy their even shares of elements."""
    twelfths = _COPIED_TWELFTHS if in_vectors else _ODD_COPIED_TWELFTHS
    return ceil_div(ceil_div(elements, tiles) * twelfths, 12)
