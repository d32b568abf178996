"""`EmbeddedProgram`: a program of another front that one instruction of a program runs."""

from __future__ import annotations

from dataclasses import dataclass

from ipu_tf.machine.superstep import Superstep
from ipu_tf.tile_program.layouts.footprint import Footprint


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedProgram:
    """What a program costs besides its operands and results.

    Attributes:
        supersteps: Its supersteps, in order.
        scratch: Memory in use only while it runs.
        exchange_buffers: The same, for received data.
        always_live: Memory of vertices, constants and state.
        code: Its codelets and their bytes.
        exchange_code_bytes: Bytes of exchange instructions on the busiest tile.
        notes: Caveats for readers of its figures.
    """

    supersteps: tuple[Superstep, ...]
    scratch: tuple[Footprint, ...] = ()
    exchange_buffers: tuple[Footprint, ...] = ()
    always_live: tuple[Footprint, ...] = ()
    code: tuple[tuple[str, int], ...] = ()
    exchange_code_bytes: int = 0
    notes: tuple[str, ...] = ()
