"""Calls of host functions, feeds, and custom calls by their targets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ipu_tf.compiler.hlo import Instruction
from ipu_tf.compiler.layouts.placement import Placement
from ipu_tf.compiler.lowering import reflections, rotations
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.lowering.lowering_error import LoweringError
from ipu_tf.compiler.lowering.mapping import arrays, spread
from ipu_tf.compiler.lowering.rules import Rule
from ipu_tf.compiler.lowering.sorting import top_k
from ipu_tf.compiler.lowering.tile_work import HostWork
from ipu_tf.compiler.lowering.views import passed_on
from ipu_tf.machine import host
from ipu_tf.machine.superstep import Superstep
from ipu_tf.machine.system import System


def transfer(
    instruction: Instruction, operands: Sequence[Placement], context: LoweringContext
) -> LoweredInstruction:
    """Lowers a call of a host function or a feed: operands go to the host, results come back.

    Models the transfers; the time of the function itself is the host's.
    """
    results = tuple(spread(array, context) for array in arrays(instruction.type))
    system = _system(instruction, context)
    moved = (sum(p.bytes for p in operands), sum(p.bytes for p in results))
    cycles = sum(host.transfer_cycles(system, bytes_) for bytes_ in moved if bytes_)
    step = Superstep(
        name=instruction.opcode,
        sync_cycles=context.target.sync_cycles,
        host_cycles=cycles,
        exchange_bytes=sum(moved),
        work=HostWork(tiles=context.target.tiles, operands=tuple(operands), results=results),
    )
    return LoweredInstruction(supersteps=(step,), results=results)


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
    """Returns the system of one IPU: only its link to the host matters."""
    try:
        return context.options.system_of()
    except ValueError as error:
        raise LoweringError(instruction, f"no host is known for it. {error}") from None


CUSTOM_CALLS: Mapping[str, Rule] = {
    "Eigh": rotations.eigen,
    "ProductOfElementaryHouseholderReflectors": reflections.orthogonal,
    "Qr": reflections.factor,
    "Sharding": passed_on,
    "TopK": top_k,
}

RULES: Mapping[str, Rule] = {
    "custom-call": custom_call,
    "host-call": transfer,
    "infeed": transfer,
    "outfeed": transfer,
}
