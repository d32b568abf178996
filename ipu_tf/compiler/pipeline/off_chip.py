"""Variables in streaming memory, or shared out over replicas, and the time to move them.

Each variable is a separate transfer, while the tiles wait. With I/O tiles the next variable is
fetched, and the last one stored, while the tiles work: only the exchange with the I/O tiles takes
time of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.pipeline.deployment import Offload
from ipu_tf.compiler.pipeline.fifo import Fifo
from ipu_tf.compiler.pipeline.residence import (
    Part,
    Residence,
    Share,
    StageVariable,
    variables,
    with_shares,
)
from ipu_tf.compiler.pipeline.timeline import ReplicaGroup, Wiring
from ipu_tf.machine.cost import ceil_div
from ipu_tf.tile_program.moves import NO_MOVES, Moves
from ipu_tf.tile_program.program import TileProgram

LEAST_BYTES = 128
"""Bytes from which tensors leave the tiles: the default of the machine's option
`optimizations.minimum_remote_tensor_size`."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OffChip:
    """A stage without its offloaded variables, and the cost to move them.

    Attributes:
        program: The program of the stage, without them.
        streamed: Cycles in which the tiles take part in transfers from and to streaming memory.
        overlapped: Cycles of these transfers that run beside the work of the tiles.
        gathered: Cycles in which replicas gather weights that they share out.
        streaming_bytes: Bytes in streaming memory, of one replica.
    """

    program: TileProgram
    streamed: Moves
    overlapped: Moves
    gathered: Moves
    streaming_bytes: int


class _Transfers:
    """Adds up the cycles of transfers from and to streaming memory.

    Args:
        wiring: The IPUs.

    Attributes:
        streamed: Cycles in which the tiles take part.
        overlapped: Cycles that run beside their work.
    """

    def __init__(self, wiring: Wiring) -> None:
        self._wiring = wiring
        self.streamed = self.overlapped = NO_MOVES

    def add(self, transfer_bytes: int, times: Moves) -> None:
        """Adds a transfer that each pass makes some times."""
        cycles = self._wiring.streaming_cycles(transfer_bytes)
        if self._wiring.io_tiles:
            self.overlapped += times.times(cycles)
            cycles = self._wiring.io_tile_cycles(transfer_bytes)
        self.streamed += times.times(cycles)


def leaves_tiles(fifo: Fifo, offload: Offload) -> bool:
    """Returns whether the values of a FIFO wait in streaming memory."""
    return offload.activations and fifo.value_bytes >= LEAST_BYTES


def off_chip(
    module: Module,
    program: TileProgram,
    offload: Offload,
    wiring: Wiring,
    *,
    fifos: Sequence[Fifo],
    shared: Collection[str] = (),
) -> OffChip:
    """Returns a stage without the variables that are not on its tiles, and the cost to move them.

    Args:
        module: The module of the stage.
        program: The module, compiled.
        offload: The categories that are not on the tiles.
        wiring: The IPUs.
        fifos: The FIFOs of the stage, those that stay on the tiles included.
        shared: Variables whose updates the module shares out. Their state has the size of a share.
    """
    weight_group = ReplicaGroup(replicas=offload.weight_parts(wiring.replicas))
    shares: dict[str, Share] = {}
    transfers, gathers, streaming_bytes = _Transfers(wiring), NO_MOVES, 0
    for variable in variables(module, program):
        is_share = variable.parameter.name in shared
        where = _where(variable, offload, wiring.replicas, is_share=is_share)
        if where is None:
            continue
        shares[variable.parameter.name] = Share(variable=variable, place=where)
        if where.streams:
            part_bytes = ceil_div(variable.bytes, where.parts)
            streaming_bytes += 0 if variable.parameter.role == "held" else part_bytes
            transfers.add(part_bytes, _transfers(variable))
        if where.parts > 1:
            whole_cycles = wiring.all_gather_cycles(variable.bytes, weight_group)
            gathers += _gathers(variable).times(whole_cycles)
    for fifo in fifos:
        if leaves_tiles(fifo, offload):
            streaming_bytes += fifo.bytes
            transfers.add(fifo.value_bytes, Moves.of(fifo.made_in, 1) + Moves.of(fifo.read_in, 1))
    return OffChip(
        program=with_shares(program, shares),
        streamed=transfers.streamed,
        overlapped=transfers.overlapped,
        gathered=gathers,
        streaming_bytes=streaming_bytes,
    )


def _where(
    variable: StageVariable, offload: Offload, replicas: int, *, is_share: bool
) -> Residence | None:
    """Returns the place of a variable; None if it is whole on the tiles all the time."""
    role = variable.parameter.role
    if variable.bytes < LEAST_BYTES and not is_share:
        return None
    # An update that is computed whole needs the whole state: on the tiles it is never cut.
    cuts_state = offload.optimizer_state and offload.shard_optimizer_state and not is_share
    place = {
        "optimizer_state": Residence(
            streams=offload.optimizer_state,
            parts=offload.update_parts(replicas) if cuts_state else 1,
        ),
        "accumulator": Residence(streams=offload.accumulators),
        "held": Residence(streams=offload.accumulators, elsewhere=not offload.accumulators),
        "weight": Residence(streams=offload.weights, parts=offload.weight_parts(replicas)),
    }.get(role, Residence())
    return None if place == Residence() else place


def _transfers(variable: StageVariable) -> Moves:
    """Returns how often each pass loads and stores a variable."""
    return _moves({part: use.loads + use.stores for part, use in variable.uses.items()})


def _gathers(variable: StageVariable) -> Moves:
    """Returns how often each pass gathers a variable: the update needs only its share."""
    return _moves({part: 1 for part in variable.uses if part != "update"})


def _moves(counts: Mapping[Part, int]) -> Moves:
    """Returns counts by pass: recomputation is part of the backward pass."""
    return Moves(
        forward=counts.get("forward", 0),
        backward=counts.get("backward", 0) + counts.get("recomputed", 0),
        update=counts.get("update", 0),
    )
