"""Normalisations: statistics by reduction, then vertices that scale and shift channels or rows.

The chain of vertices is that of poplibs' norms (popnn, and Norms.cpp of poplin), in the type of the
data: statistics are sums of elements and of squares. A batch norm applies one factor and one addend
a channel. Norms whose statistics differ between samples whiten (subtract, then scale in place),
then scale and shift. A gradient whitens again, sums up products, and joins gradient, whitened
element and both sums.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Array, Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.elements.elementwise import views_inside
from ipu_tf.compiler.lowering.elements.operand_orders import of_gradient
from ipu_tf.compiler.lowering.elements.reduce import Reduction, reduction_stages
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, like, spread
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.compiler.lowering.transposition import moved
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import Vertex
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import held_extents
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import NOTHING, Traffic, collect, move

_REDUCTIONS = {"batch-norm-training": 2, "batch-norm-inference": 0, "batch-norm-grad": 2}
"""Sums over a feature: of elements and squares, or of gradients and their products."""

_VALUES_OF_FEATURE = 2
"""Values of a feature that its elements need: factor and addend, or their sums."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Norm:
    """The elements of a normalisation on the fullest tile.

    Attributes:
        where: The placement of the tensor.
        array: Its type.
        kept_dimensions: Dimensions along which statistics differ.
        target: The machine.
    """

    where: Placement
    array: Array
    kept_dimensions: tuple[int, ...]
    target: Target

    @property
    def is_by_channels(self) -> bool:
        """Whether each channel, innermost, has statistics over all the rest."""
        return self.kept_dimensions == (len(self.array.dims) - 1,)

    @property
    def _is_by_rows(self) -> bool:
        """Whether statistics are those of whole rows."""
        return self.kept_dimensions == tuple(range(len(self.kept_dimensions)))

    def statistic(self, opcode: str) -> Vertex:
        """Returns the vertex that adds, or multiplies by, a value made of statistics."""
        if self._is_by_rows:
            return vertex_costs.by_rows(
                opcode,
                self.where.tile_elements,
                self._held_from(len(self.kept_dimensions)),
                *self._machine,
            )
        return self.parameter(opcode)

    def parameter(self, opcode: str) -> Vertex:
        """Returns the vertex that adds, or multiplies by, a value of each channel."""
        first = len(self.array.dims) - 1 if self._is_by_rows else self.kept_dimensions[-1]
        return vertex_costs.by_channels(
            opcode, self.where.tile_elements, self._held_from(first), *self._machine
        )

    def pairwise(self, opcode: str) -> Vertex:
        """Returns the vertex of an operation on two tensors."""
        return vertex_costs.elementwise(opcode, self.where.tile_elements, *self._machine)

    def copied(self) -> Vertex:
        """Returns the vertex that copies the tensor."""
        return vertex_costs.copy(self.where.tile_elements, *self._machine)

    def whitened(self) -> list[Vertex]:
        """Returns the vertices that give every element mean 0 and deviation 1."""
        return [self.statistic("add"), self.statistic("multiply in place")]

    def applied(self) -> list[Vertex]:
        """Returns the vertices that normalise, scale and shift every element."""
        if self.is_by_channels:
            return [self.parameter("multiply"), self.parameter("add")]
        return [*self.whitened(), self.parameter("multiply"), self.parameter("add")]

    def gradient(self) -> list[Vertex]:
        """Returns the vertices that make the gradient of every element, its whitened value known.

        The gradient is scaled; the whitened element, scaled by a sum, and another sum are added to
        it; the deviation scales the result.
        """
        return [
            self.parameter("multiply"),
            self.copied(),
            self.statistic("multiply"),
            self.pairwise("add"),
            self.statistic("add"),
            self.statistic("multiply in place"),
        ]

    def temporaries(self, count: int) -> tuple[Footprint, ...]:
        """Returns the memory of so many tensors that last as long as the instruction."""
        footprint = self.where.footprint
        size = count * footprint.tile_bytes
        return (Footprint(first_tile=footprint.first_tile, tiles=footprint.tiles, tile_bytes=size),)

    def stages(self, vertices: Sequence[Vertex], traffic: Traffic = NOTHING) -> list[ComputeStage]:
        """Returns a stage of every vertex, the first of which waits for values of others."""
        return [
            ComputeStage(
                name="normalize",
                where=self.where,
                traffic=NOTHING if number else traffic,
                vertex=each,
            )
            for number, each in enumerate(vertices)
        ]

    def _held_from(self, axis: int) -> int:
        """Returns the elements of the tile along the dimensions from an axis on."""
        return math.prod(held_extents(self.where, self.array.dims)[axis:])

    @property
    def _machine(self) -> tuple[str, Target]:
        return self.array.dtype, self.target


def _norm(instruction: Instruction, where: Placement, context: LoweringContext) -> _Norm:
    return _Norm(
        where=where,
        array=context.operand(instruction, 0).array,
        kept_dimensions=tuple(instruction.attributes["kept_dimensions"]),
        target=context.target,
    )


def norm_sum(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a sum over elements, squares, gradients, or products of gradients with elements.

    The machine adds up squares as fast as elements, while they are loaded. Products are made first,
    with whitened elements.
    """
    norm = _norm(instruction, operands[0].stored, context)
    body = context.computations[instruction.computations[0]]
    root = body.by_name()[body.root]
    reduction = Reduction(operand=norm.array, dimensions=tuple(root.attributes["dimensions"]))
    stages: list[ComputeStage] = []
    scratch: tuple[Footprint, ...] = ()
    if instruction.attributes["term"] == "product":
        views, whitened = list(operands[:2]), list[Vertex]()
        if instruction.attributes["whitens"]:
            views, whitened = views_inside(body, operands, norm.where), norm.whitened()
        transposed = of_gradient(instruction, operands, context)
        traffic = moved(views, norm.where, transposed)
        stages = [one.stage for one in transposed.values()]
        stages += norm.stages([*whitened, norm.pairwise("multiply")], traffic)
        scratch = (*norm.temporaries(2), *(one.copy for one in transposed.values()))
    summed, placement = reduction_stages(reduction, operands[:1], context)
    return lower_stages(
        [*stages, *summed],
        (like(placement, instruction.array),),
        context.target,
        scratch=scratch,
        flops=norm.array.elements * (1 + 3 * bool(stages)),
    )


def norm_apply(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers normalised elements, or their gradients, from statistics and parameters."""
    norm = _norm(instruction, operands[0].stored, context)
    body = context.computations[instruction.computations[0]]
    transposed = of_gradient(instruction, operands, context)
    traffic = moved(views_inside(body, operands, norm.where), norm.where, transposed)
    tensors = sum(operand.elements == norm.array.elements for operand in operands)
    vertices = norm.gradient() if tensors > 1 else norm.applied()
    return lower_stages(
        [*(one.stage for one in transposed.values()), *norm.stages(vertices, traffic)],
        (like(norm.where, instruction.array),),
        context.target,
        scratch=[
            *(norm.temporaries(1) if tensors > 1 else ()),
            *(one.copy for one in transposed.values()),
        ],
        flops=norm.array.elements * (len(vertices) - 1),
    )


def batch_norm(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers XLA's own batch normalisation in training, in inference, or its gradient."""
    feature = instruction.attributes["feature_index"]
    array = context.operand(instruction, 0).array
    norm = _Norm(
        where=operands[0].stored, array=array, kept_dimensions=(feature,), target=context.target
    )
    reduction_axes = tuple(axis for axis in range(len(array.dims)) if axis != feature)
    reduction = Reduction(operand=array, dimensions=reduction_axes)
    is_gradient = instruction.opcode == "batch-norm-grad"
    stages: list[ComputeStage] = []
    if is_gradient:
        vertices = [*norm.whitened(), norm.pairwise("multiply")]
        stages += norm.stages(vertices, move(operands[-1], norm.where))
    per_feature = spread(reduction.result, context)
    for _ in range(_REDUCTIONS[instruction.opcode]):
        sums, per_feature = reduction_stages(reduction, operands[:1], context)
        stages += sums
    features = min(per_feature.elements, norm.where.tile_elements)
    traffic = collect(
        per_feature, received_elements=_VALUES_OF_FEATURE * features, tiles=norm.where.tiles
    )
    vertices = norm.gradient() if is_gradient else norm.applied()
    stages += norm.stages(vertices, traffic)
    results = tuple(
        like(norm.where if result.elements == array.elements else per_feature, result)
        for result in arrays(instruction.type)
    )
    return lower_stages(
        stages,
        results,
        context.target,
        scratch=norm.temporaries(2) if is_gradient else (),
        flops=array.elements * (len(stages) - 1),
    )


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_REDUCTIONS, batch_norm),
    "norm-apply": norm_apply,
    "norm-sum": norm_sum,
}
