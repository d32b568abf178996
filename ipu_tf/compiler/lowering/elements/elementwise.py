"""Element-wise operations: aligned operands need no exchange.

The result lies like one of the operands: preferably a variable (its new value must go back there),
else the one on most tiles. Operands that lie elsewhere come by exchange, those in another order
(`operand_orders.py`) are transposed before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Computation, Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.elements.operand_orders import into_order_of
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays, like, spread
from ipu_tf.compiler.lowering.memory_order import LIKE_ACTIVATIONS
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.compiler.lowering.transposition import moved
from ipu_tf.machine import vertices
from ipu_tf.machine.target import Target
from ipu_tf.machine.vertices import Vertex
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.steps import ComputeStage

_NO_ARITHMETIC = frozenset(
    {
        "and", "clamp", "compare", "count-leading-zeros", "is-finite", "not", "or", "popcnt",
        "reduce-precision", "select", "shift-left", "shift-right-arithmetic",
        "shift-right-logical", "xor",
    }
)  # fmt: skip
"""Element-wise opcodes that are not counted as floating point operations."""

_OPERAND_OPCODES = frozenset(
    {"parameter", "constant", "broadcast", "reshape", "bitcast", "bitcast-convert", "transpose"}
)
"""Opcodes that cost nothing within a fusion."""

_FUSED_AS = {"convert": "abs", "iota": "add", "copy": "abs"}
"""Cost of other opcodes within a fusion. Modelled: one instruction on values in registers."""

_FLOATS = frozenset({"f32", "f16", "bf16", "f8e4m3", "f8e5m2"})


def operation(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a single operation."""
    result = instruction.array
    dtype = _operand_dtype(instruction, context)
    placement = result_placement(instruction, operands, context)
    try:
        vertex = vertex_costs.elementwise(
            instruction.opcode,
            placement.tile_elements,
            dtype,
            context.target,
            scalar_operand=any(_is_scalar(operand) for operand in operands),
        )
    except ValueError as error:
        raise LoweringError(instruction, str(error)) from None
    flops = result.elements * _flops_per_element(instruction.opcode, dtype)
    return _lower_pass(instruction, operands, placement, vertex, flops, context)


def convert(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a cast; one between types of the same representation is a view."""
    source, result = _operand_dtype(instruction, context), instruction.array
    if source == result.dtype:
        return LoweredInstruction(results=(operands[0],), view_of=0)
    placement = result_placement(instruction, operands, context)
    try:
        vertex = vertex_costs.convert(placement.tile_elements, source, result.dtype, context.target)
    except ValueError as error:
        raise LoweringError(instruction, str(error)) from None
    return _lower_pass(instruction, operands, placement, vertex, 0, context)


def fusion(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a chain of element-wise operations as one pass over the elements of its result."""
    result = instruction.array
    body = context.computations[instruction.computations[0]]
    placement = result_placement(instruction, operands, context)
    operations, flops_per_element = _operations(body)
    try:
        vertex = _fused(operations, placement.tile_elements, result.dtype, operands, context.target)
    except ValueError as error:
        raise LoweringError(instruction, str(error)) from None
    views = views_inside(body, operands, placement)
    return _lower_pass(
        instruction, views, placement, vertex, result.elements * flops_per_element, context
    )


def result_placement(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> Placement:
    """Returns the placement of the result of an element-wise operation."""
    model = _model(instruction, operands, context)
    result = instruction.array
    return spread(result, context) if model is None else like(operands[model], result)


def _model(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> int | None:
    """Returns the operand that the result lies like; None if there is none of its size."""
    if instruction.opcode in LIKE_ACTIVATIONS and operands[0].repeats is None:
        return 0
    best: tuple[tuple[bool, int, int], int] | None = None
    for index, operand in enumerate(operands):
        if operand.elements != instruction.array.elements or operand.repeats is not None:
            continue
        is_variable = _opcode_of(instruction, index, context) == "parameter"
        key = (is_variable, operand.tiles, operand.bytes)
        if best is None or key > best[0]:
            best = (key, index)
    return None if best is None else best[1]


def _lower_pass(
    instruction: Instruction,
    operands: Sequence[Placement],
    placement: Placement,
    vertex: Vertex,
    flops: int,
    context: LoweringContext,
) -> LoweredInstruction:
    """Returns one superstep: elements from elsewhere come in, then every tile computes.

    Operands in another order are transposed first.
    """
    model = _model(instruction, operands, context)
    transposed = {} if model is None else into_order_of(model, instruction, operands, context)
    traffic = moved(operands, placement, transposed)
    stage = ComputeStage(name=instruction.opcode, where=placement, traffic=traffic, vertex=vertex)
    in_place = next((index for index, operand in enumerate(operands) if operand == placement), None)
    return lower_stages(
        (*(one.stage for one in transposed.values()), stage),
        (placement,),
        context.target,
        in_place=in_place,
        scratch=[one.copy for one in transposed.values()],
        flops=flops,
    )


def _fused(
    operations: tuple[tuple[str, str], ...],
    elements: int,
    dtype: str,
    operands: Sequence[Placement],
    target: Target,
) -> Vertex:
    if not operations:
        return vertex_costs.copy(elements, dtype, target)
    tensors = sum(not _is_scalar(operand) for operand in operands)
    return vertex_costs.fused(operations, elements, dtype, target, operands=tensors)


def _operations(body: Computation) -> tuple[tuple[tuple[str, str], ...], int]:
    """Returns opcode and type of every operation in a fusion, and its flops per element.

    Operations on scalars run once on every worker, not once per element.
    """
    by_name = body.by_name()
    root = next(arrays(by_name[body.root].type))
    operations, flops = [], 0
    for inner in body:
        if inner.opcode in _OPERAND_OPCODES or next(arrays(inner.type)).elements < root.elements:
            continue
        first = inner.operands[-1] if inner.operands else inner.name
        dtype = next(arrays(by_name[first].type)).dtype
        if inner.opcode == "convert":
            dtype = next(arrays(inner.type)).dtype
        operations.append((_FUSED_AS.get(inner.opcode, inner.opcode), dtype))
        flops += _flops_per_element(inner.opcode, dtype)
    return tuple(operations), flops


def views_inside(
    body: Computation, operands: Sequence[Placement], placement: Placement
) -> list[Placement]:
    """Returns the operands of a computation as its chain sees them: broadcast to a placement.

    Args:
        body: The computation of a fusion or a norm.
        operands: Placements of its parameters.
        placement: Placement of the chain's elements.
    """
    views = list(operands)
    by_name = body.by_name()
    for inner in body:
        # A broadcast to fewer elements than the result's (such as of a scalar) is broadcast again.
        if inner.opcode != "broadcast" or inner.array.elements != placement.elements:
            continue
        source = by_name[inner.operands[0]]
        while source.opcode in ("reshape", "bitcast", "convert"):
            source = by_name[source.operands[0]]
        if source.opcode != "parameter":
            continue
        number = source.attributes["parameter_number"]
        views[number] = broadcast_view(inner, operands[number], like(placement, inner.array))
    return [
        view
        if view.repeats is not None or view.elements == placement.elements
        else Placement(
            elements=placement.elements,
            element_bytes=view.element_bytes,
            first_tile=placement.first_tile,
            tiles=placement.tiles,
            repeats=view,
            pattern=_in_runs(view.elements, placement.elements),
        )
        for view in views
    ]


def broadcast_view(instruction: Instruction, operand: Placement, storage: Placement) -> Placement:
    """Returns the placement of a broadcast: a view of the operand, in which elements repeat.

    Args:
        instruction: The broadcast.
        operand: The placement of its operand.
        storage: The placement of its result if it were stored.
    """
    result = instruction.array
    dimensions = instruction.attributes["dimensions"]
    pattern = tuple((extent, axis in dimensions) for axis, extent in enumerate(result.dims))
    return Placement(
        elements=result.elements,
        element_bytes=operand.element_bytes,
        first_tile=storage.first_tile,
        tiles=storage.tiles,
        layout=storage.layout,
        repeats=operand.repeats or operand,
        # A broadcast of a broadcast only knows its distinct elements.
        pattern=pattern if operand.repeats is None else (),
    )


def _in_runs(distinct: int, elements: int) -> tuple[tuple[int, bool], ...]:
    """Returns the pattern of elements that repeat one by one."""
    return ((distinct, True), (max(1, elements // max(1, distinct)), False))


def _operand_dtype(instruction: Instruction, context: LoweringContext) -> str:
    """Returns the type of an operation's arithmetic: that of the values, for a select."""
    index = 1 if instruction.opcode == "select" else 0
    return context.operand(instruction, index).array.dtype


def _opcode_of(instruction: Instruction, index: int, context: LoweringContext) -> str:
    return context.operand(instruction, index).opcode


def _flops_per_element(opcode: str, dtype: str) -> int:
    is_arithmetic = opcode in vertices.OPCODES and opcode not in _NO_ARITHMETIC and dtype in _FLOATS
    return int(is_arithmetic)


def _is_scalar(operand: Placement) -> bool:
    return (operand.repeats or operand).elements == 1


RULES: Mapping[str, Rule] = {
    **dict.fromkeys(sorted(vertices.OPCODES), operation),
    "convert": convert,
    "fusion": fusion,
}
