"""Batch normalisation as one instruction: statistics by reduction, then one pass over elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.layouts.placement import Placement
from ipu_tf.compiler.lowering import cached
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, like, spread
from ipu_tf.compiler.lowering.reduce import Reduction, reduction_stages
from ipu_tf.compiler.lowering.rules import Rule, operand_array
from ipu_tf.compiler.lowering.steps import Stage, lower_stages
from ipu_tf.compiler.lowering.traffic import collect, move

_APPLY = ("subtract", "multiply", "multiply", "add")
"""An element less its mean, times the inverse deviation, times the scale, plus the offset."""

_GRADIENT = ("subtract", "multiply", "multiply", "subtract", "subtract", "multiply")
"""Operations of an element's gradient besides the two sums of its feature."""

_REDUCTIONS = {"batch-norm-training": 2, "batch-norm-inference": 0, "batch-norm-grad": 2}
"""Sums over a feature: of elements and squares, or of gradients and their products."""

_FEATURES_READ = 4
"""Values of a feature that an element needs: mean, deviation, scale, offset (or their sums)."""


def batch_norm(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers batch normalisation in training, in inference, or its gradient."""
    array = operand_array(instruction, 0, context)
    feature = instruction.attributes["feature_index"]
    others = tuple(axis for axis in range(len(array.dims)) if axis != feature)
    is_gradient = instruction.opcode == "batch-norm-grad"
    where = operands[0].stored
    stages: list[Stage] = []
    per_feature = spread(Reduction(operand=array, dimensions=others).result, context)
    for _ in range(_REDUCTIONS[instruction.opcode]):
        reduction = Reduction(operand=array, dimensions=others)
        added, per_feature = reduction_stages(reduction, operands[:1], context)
        stages += added
    operations = _GRADIENT if is_gradient else _APPLY
    tensors = 2 if is_gradient else 1
    features = min(per_feature.elements, where.tile_elements)
    traffic = collect(per_feature, received_elements=_FEATURES_READ * features, tiles=where.tiles)
    if is_gradient:
        traffic += move(operands[-1], where)
    stages.append(
        Stage(
            name="normalize",
            where=where,
            traffic=traffic,
            vertex=cached.fused(
                tuple((opcode, array.dtype) for opcode in operations),
                where.tile_elements,
                array.dtype,
                context.target,
                operands=tensors,
            ),
        )
    )
    results = tuple(
        like(where if result.elements == array.elements else per_feature, result)
        for result in arrays(instruction.type)
    )
    sums = 2 * _REDUCTIONS[instruction.opcode]
    return lower_stages(
        stages, results, context.target, flops=array.elements * (len(operations) + sums)
    )


RULES: Mapping[str, Rule] = dict.fromkeys(_REDUCTIONS, batch_norm)
