"""Calls of host functions, feeds, and custom calls by their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.lowering import embedding
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays, spread
from ipu_tf.compiler.lowering.rearrangement import reflections, rotations
from ipu_tf.compiler.lowering.rearrangement.sorting import top_k
from ipu_tf.compiler.lowering.rearrangement.views import passed_on
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.machine import host, io_tiles
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.system import System
from ipu_tf.tile_program.layouts.placement import Placement
from ipu_tf.tile_program.tile_work import HostWork

_FEEDS = frozenset({"infeed", "outfeed"})
"""Opcodes of transfers that are known beforehand, so that they can run ahead."""


def transfer(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a call of a host function or a feed: operands go to the host, results come back.

    Models the transfers, which replicas on one machine make at the same time over its connection;
    the time of the function itself is the host's. A feed waits in the gateway of a machine that has
    one. With I/O tiles it moves between those and the host beside the steps of the program.
    """
    results = tuple(spread(array, context) for array in arrays(instruction.type))
    system, target = _system(instruction, context), context.target
    transfers = [size for size in (_bytes(operands), _bytes(results)) if size]
    ipus = context.options.host_ipus
    cycles = sum(host.transfer_cycles(system, ipus * size, ipus) for size in transfers)
    feed, tiles = instruction.opcode in _FEEDS, context.options.io_tiles
    work = HostWork(tiles=target.tiles, operands=tuple(operands), results=results)
    if tiles and feed:
        step = Superstep(
            name=instruction.opcode,
            sync_cycles=len(transfers) * target.sync_cycles,
            exchange_cycles=sum(
                io_tiles.exchange_cycles(size, tiles, target) for size in transfers
            ),
            overlapped_cycles=cycles,
            exchange_bytes=sum(transfers),
            work=work,
        )
    else:
        parts = (
            [host.feed_cycles(system, size, ipus) for size in transfers] if feed else [(cycles, 0)]
        )
        step = Superstep(
            name=instruction.opcode,
            sync_cycles=target.sync_cycles,
            host_cycles=sum(wait for wait, _ in parts),
            ahead_cycles=sum(ahead for _, ahead in parts),
            exchange_bytes=sum(transfers),
            work=work,
        )
    return LoweredInstruction(supersteps=(step,), results=results)


def _bytes(placements: Sequence[Placement]) -> int:
    return sum(placement.bytes for placement in placements)


def custom_call(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a custom call whose target is known.

    Raises:
        LoweringError: The target is unknown.
    """
    name = instruction.attributes.get("custom_call_target", "")
    rule = CUSTOM_CALLS.get(name)
    if rule is None:
        raise LoweringError(
            instruction,
            f"its target {name!r} is unknown; known targets are {', '.join(CUSTOM_CALLS)}.",
        )
    return rule(instruction, operands, context)


def _system(instruction: Instruction, context: LoweringContext) -> System:
    """Returns the system of the IPUs that share a connection to the host: only that matters."""
    try:
        return context.options.system_of(context.options.host_ipus)
    except ValueError as error:
        raise LoweringError(instruction, f"no host is known for it. {error}") from None


CUSTOM_CALLS: Mapping[str, Rule] = {
    "Eigh": rotations.eigen,
    "ProductOfElementaryHouseholderReflectors": reflections.orthogonal,
    "Qr": reflections.factor,
    "SetBound": passed_on,  # Tells XLA the bound of a value, which it passes on.
    "Sharding": passed_on,
    "TopK": top_k,
    embedding.TARGET: embedding.embedded_program,
}

RULES: Mapping[str, Rule] = {
    "custom-call": custom_call,
    "host-call": transfer,
    "infeed": transfer,
    "outfeed": transfer,
}
