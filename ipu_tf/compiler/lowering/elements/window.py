"""Windows: pooling, its gradient, and cumulative sums (windows over all that came before)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Array, Instruction, Window, WindowDimension
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.mapping import arrays, element_bytes, like, product, spread
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.stages import lower_stages
from ipu_tf.machine import vertices
from ipu_tf.machine.cost import ceil_div
from ipu_tf.planner.windows import window_span
from ipu_tf.tile_program.layouts.layout import LINEAR, BlockLayout, view
from ipu_tf.tile_program.layouts.layout_views import resized
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.messages import held_extents
from ipu_tf.tile_program.steps import ComputeStage
from ipu_tf.tile_program.traffic import Traffic, collect, move


def reduce_window(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a reduction over windows; tiles fetch missing inputs of their windows."""
    operand = context.operand(instruction, 0).array
    results = tuple(arrays(instruction.type))
    window: Window = instruction.attributes["window"]
    axis = _scanned_axis(operand, window)
    if axis is not None:
        return _scan(instruction, operands, axis, context)
    result = _beside(operands[0], operand, results[0])
    vertex = vertices.window_reduce(
        result.tile_elements,
        window.size * len(results),
        operand.dtype,
        context.target,
        channels=_side_by_side(operand, window),
    )
    traffic = _halo(operands[0], operand, results[0], window, result)
    stage = ComputeStage(name="reduce windows", where=result, traffic=traffic, vertex=vertex)
    return lower_stages(
        (stage,),
        tuple(like(result, array) for array in results),
        context.target,
        flops=results[0].elements * (window.size - 1) if _is_float(operand) else 0,
    )


def select_and_scatter(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers the gradient of max pooling: each source goes to the position its window selects."""
    operand = context.operand(instruction, 0).array
    source = context.operand(instruction, 1).array
    window: Window = instruction.attributes["window"]
    result = operands[0].stored
    sources = _beside(result, operand, source)
    vertex = vertices.select_and_scatter(
        sources.tile_elements,
        window.size,
        operand.dtype,
        context.target,
        channels=_side_by_side(operand, window),
    )
    halo = _halo(operands[0], operand, source, window, sources)
    stage = ComputeStage(
        name="select and scatter",
        where=result,
        traffic=halo + move(operands[1], sources),
        vertex=vertex,
    )
    flops = source.elements * window.size if _is_float(operand) else 0
    return lower_stages((stage,), (result,), context.target, flops=flops)


def _scan(
    instruction: Instruction, operands: Sequence[Placement], axis: int, context: LoweringContext
) -> LoweredInstruction:
    """Lowers a cumulative sum: whole rows come to a tile, which scans them."""
    array = instruction.array
    row = array.dims[axis]
    rows = array.elements // row
    result = spread(array, context)
    tiles = max(1, min(result.tiles, rows))
    where = Placement(
        elements=array.elements,
        element_bytes=result.element_bytes,
        first_tile=result.first_tile,
        tiles=tiles,
        layout=LINEAR if product(array.dims[axis + 1 :]) == 1 else f"rows of {axis}",
    )
    vertex = vertices.scan(ceil_div(rows, tiles), row, array.dtype, context.target)
    stage = ComputeStage(name="scan", where=where, traffic=move(operands[0], where), vertex=vertex)
    flops = array.elements if _is_float(array) else 0
    return lower_stages((stage,), (where,), context.target, flops=flops)


def _scanned_axis(operand: Array, window: Window) -> int | None:
    """Returns the axis of a cumulative operation: its windows span it, one for each element."""
    wide = [axis for axis, d in enumerate(window.dimensions) if d.size > 1]
    if len(wide) != 1:
        return None
    axis = wide[0]
    dimension = window.dimensions[axis]
    extent = operand.dims[axis]
    padding = sorted((dimension.padding_low, dimension.padding_high))
    is_scan = dimension.size == extent and padding == [0, extent - 1] and dimension.stride == 1
    return axis if is_scan else None


def _beside(operand: Placement, input_: Array, output: Array) -> Placement:
    """Returns the placement of the results of windows: on the tiles that hold their inputs."""
    layout, tiles = operand.layout, max(1, min(operand.tiles, output.elements))
    if isinstance(layout, BlockLayout):
        blocks = resized(layout, input_.dims, output.dims)
        layout, tiles = blocks or view(layout, "windows"), blocks.tiles if blocks else tiles
    return Placement(
        elements=output.elements,
        element_bytes=element_bytes(output.dtype),
        first_tile=operand.first_tile,
        tiles=tiles,
        layout=layout,
    )


def _halo(
    operand: Placement, input_: Array, output: Array, window: Window, result: Placement
) -> Traffic:
    """Returns the traffic of the inputs that a tile's windows need but the tile does not hold.

    A tile of an operand in blocks holds the inputs of its windows except the halo around them; of
    any other operand, all inputs must come from elsewhere.
    """
    block = held_extents(result, output.dims)
    window_elements = 1
    for extent, windows, dimension in zip(input_.dims, block, window.dimensions, strict=True):
        window_elements *= min(extent, _span(windows, dimension))
    is_beside = operand.blocks is not None and result.blocks is not None
    own_elements = min(window_elements, operand.tile_elements) if is_beside else 0
    return collect(operand, received_elements=window_elements - own_elements, tiles=result.tiles)


def _span(windows: int, dimension: WindowDimension) -> int:
    return int(
        window_span(
            windows,
            dimension.size,
            stride=dimension.stride,
            dilation=dimension.window_dilation,
        )
    )


def _side_by_side(operand: Array, window: Window) -> int:
    """Returns the neighbouring elements that windows treat alike: the extents inside of them."""
    inside = 1
    for extent, dimension in zip(reversed(operand.dims), reversed(window.dimensions), strict=True):
        if dimension.size > 1:
            break
        inside *= extent
    return inside


def _is_float(array: Array) -> bool:
    return array.dtype.startswith(("f", "bf"))


RULES: Mapping[str, Rule] = {
    "reduce-window": reduce_window,
    "select-and-scatter": select_and_scatter,
}
