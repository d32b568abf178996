"""Simple lowering rules, for tests of what comes after lowering."""

from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays
from ipu_tf.compiler.opcodes import is_elementwise
from ipu_tf.machine.dtypes import DTYPE_BITS
from ipu_tf.machine.superstep import Superstep
from ipu_tf.planner.plan import PlanDoesNotFit
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement

VIEWS = ("reshape", "bitcast", "transpose")
UNKNOWN = ("fft", "sort")
GRAIN = 4
CONTROL_CYCLES = 10


def spread(array, context):
    """Dealt to as many tiles as there are grains."""
    tiles = max(1, min(context.target.tiles, -(-array.elements // GRAIN)))
    element_bytes = DTYPE_BITS[array.dtype] // 8
    first = context.first_tile(tiles)
    return Placement(
        elements=array.elements, element_bytes=element_bytes, tiles=tiles, first_tile=first
    )


def preferred_placement(instruction, index, context):
    """A dot wants its right operand on all tiles, in a layout of its own."""
    if instruction.opcode != "dot" or index != 1:
        return None
    array = context.operand(instruction, 1).type
    return Placement(
        elements=array.elements,
        element_bytes=DTYPE_BITS[array.dtype] // 8,
        tiles=min(context.target.tiles, array.elements),
        layout="dot",
    )


def relayout(source, destination, context):
    """A cycle a byte of the fullest tile."""
    return (Superstep(name="copy", compute_cycles=source.footprint.tile_bytes),)


def lower(instruction, operands, context):
    """Element-wise results lie like their first operand of the same size; others are spread."""
    opcode = instruction.opcode
    if opcode in UNKNOWN:
        raise LoweringError(instruction, "It is not known.")
    if opcode in ("while", "conditional"):
        return LoweredInstruction(supersteps=(Superstep(name=opcode, sync_cycles=CONTROL_CYCLES),))
    results = [spread(array, context) for array in arrays(instruction.type)]
    if opcode == "constant":
        return LoweredInstruction(results=tuple(results))
    if opcode in VIEWS:
        return LoweredInstruction(results=(operands[0],), view_of=0)
    in_place = None
    if is_elementwise(instruction):
        for index, operand in enumerate(operands):
            same = operand.elements == results[0].elements
            if same and operand.element_bytes == results[0].element_bytes:
                in_place, results[0] = index, operand
                break
    scratch = ()
    if opcode == "dot":
        scratch = (Footprint(first_tile=0, tiles=context.target.tiles, tile_bytes=8),)
        if 8 + results[0].footprint.tile_bytes > context.target.tile_bytes:
            raise PlanDoesNotFit("The dot is too large.")
    cycles = sum(operand.footprint.tile_bytes for operand in operands)
    return LoweredInstruction(
        supersteps=(Superstep(name=opcode, compute_cycles=1 + cycles),),
        results=tuple(results) if opcode != "outfeed" else (),
        in_place=in_place,
        scratch=scratch,
        vertex_state=tuple(
            Footprint(first_tile=r.first_tile, tiles=r.tiles, tile_bytes=2) for r in results[:1]
        ),
        code={f"{opcode} codelet": 100},
        exchange_code_bytes=3,
        flops=results[0].elements if results else 0,
    )


RULES = (lower, preferred_placement, spread, relayout)
