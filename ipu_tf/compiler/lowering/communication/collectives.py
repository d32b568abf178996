"""Collectives: nothing within one IPU, transfers over IPU-Links between several.

The system is that of the options, or the smallest known one with enough IPUs of the chip. Tiles of
all IPUs take part at once, so each tile adds up its share of the tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering import vertex_costs
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays, like, spread
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.machine import link_traffic, links, sync
from ipu_tf.machine.cost import ceil_div
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.system import System
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.tile_work import StageWork

_ADDS = frozenset({"all-reduce", "reduce-scatter"})
_SAME_SHAPE = frozenset({"all-reduce", "all-to-all", "collective-permute"})


def collective(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a collective over the IPUs of its largest group."""
    ipus = _group_size(instruction)
    results = _results(instruction, operands, context)
    if ipus == 1:
        return LoweredInstruction(results=results, view_of=0 if len(results) == 1 else None)
    system = _system(instruction, ipus, context)
    moved_bytes = max(sum(p.bytes for p in operands), sum(p.bytes for p in results))
    seconds = _SECONDS[instruction.opcode](system, ipus, moved_bytes)
    where = results[0]
    compute = 0
    if instruction.opcode in _ADDS:
        dtype = context.operand(instruction, 0).array.dtype
        share = ceil_div(sum(p.elements for p in operands), where.tiles)
        sums = vertex_costs.reduce(ceil_div(share, ipus), ipus, dtype, context.target)
        compute = int(sums.cycles)
    receive_bytes = ceil_div(moved_bytes, context.target.tiles)
    step = Superstep(
        name=instruction.opcode,
        sync_cycles=sync.cross_ipu_cycles(system, ipus),
        exchange_cycles=round(seconds * context.target.clock_hz),
        compute_cycles=compute,
        busy_tile_cycles=compute * where.tiles,
        exchange_bytes=moved_bytes,
        work=StageWork(tiles=context.target.tiles, where=where),
    )
    flops = sum(p.elements for p in operands) * (ipus - 1) if compute else 0
    return LoweredInstruction(
        supersteps=(step,),
        results=results,
        exchange_buffers=(
            Footprint(first_tile=0, tiles=context.target.tiles, tile_bytes=receive_bytes),
        ),
        flops=flops,
    )


def _results(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> tuple[Placement, ...]:
    result_arrays = tuple(arrays(instruction.type))
    if instruction.opcode in _SAME_SHAPE:
        return tuple(
            like(operand, array)
            if operand.elements == array.elements and operand.repeats is None
            else spread(array, context)
            for operand, array in zip(operands, result_arrays, strict=False)
        )
    return tuple(spread(array, context) for array in result_arrays)


def _group_size(instruction: Instruction) -> int:
    """Returns the IPUs that take part.

    Raises:
        LoweringError: The instruction does not say which.
    """
    if instruction.opcode == "collective-permute":
        pairs = instruction.attributes["source_target_pairs"]
        return len({ipu for pair in pairs for ipu in pair}) or 1
    groups = instruction.attributes.get("replica_groups", ())
    if not groups:
        raise LoweringError(
            instruction, "its replica_groups are missing; list the replicas that take part."
        )
    return max(len(group) for group in groups)


def _system(instruction: Instruction, ipus: int, context: LoweringContext) -> System:
    try:
        system = context.options.system_of(ipus)
        system.check_ipus(ipus)
    except ValueError as error:
        raise LoweringError(instruction, f"no system runs it. {error}") from None
    return system


def _shift_seconds(system: System, ipus: int, moved_bytes: float, distance: int = 1) -> float:
    """Returns the time in which every IPU sends its tensor to the one `distance` further."""
    transfers = {(ipu, (ipu + distance) % ipus): (moved_bytes, 1) for ipu in range(ipus)}
    return link_traffic.exchange_seconds(system, transfers)


def _all_to_all_seconds(system: System, ipus: int, moved_bytes: float) -> float:
    """Returns the time in which every IPU sends a share to each other one, distance by distance."""
    share_bytes = moved_bytes / ipus
    return sum(_shift_seconds(system, ipus, share_bytes, distance) for distance in range(1, ipus))


_SECONDS: Mapping[str, Callable[[System, int, float], float]] = {
    "all-gather": links.all_gather_seconds,
    "all-reduce": links.all_reduce_seconds,
    "all-to-all": _all_to_all_seconds,
    "collective-permute": _shift_seconds,
    "reduce-scatter": links.reduce_scatter_seconds,
}

RULES: Mapping[str, Rule] = dict.fromkeys(_SECONDS, collective)
