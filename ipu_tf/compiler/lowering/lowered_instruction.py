"""The result of lowering an instruction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ipu_tf.machine.superstep import Superstep
from ipu_tf.planner.plan import Plan
from ipu_tf.tile_program.layouts.footprint import Footprint
from ipu_tf.tile_program.layouts.placement import Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredInstruction:
    """A lowered instruction: supersteps, memory and placements.

    Attributes:
        supersteps: Its supersteps, in order; empty for a view.
        results: Placements of its result, one for every array of its type.
        view_of: Index of the operand whose memory the result is, for views; else None.
        in_place: Index of an operand that the result may overwrite if nothing reads it later;
            else None.
        scratch: Memory in use only while it runs (partials, rearranged operands), apart from
            exchange buffers.
        exchange_buffers: Memory in use only while it runs, for received data.
        vertex_state: Memory of the state of its vertices, always live.
        code: Codelets it needs, as name -> bytes; a tile holds each once in a program.
        exchange_code_bytes: Bytes of exchange instructions on the busiest tile, always live.
        flops: Floating point operations (2 for a multiply-accumulate).
        plan: The plan of a contraction; else None.
        dtype: Type of the inputs of a contraction; else "".
    """

    supersteps: tuple[Superstep, ...] = ()
    results: tuple[Placement, ...] = ()
    view_of: int | None = None
    in_place: int | None = None
    scratch: tuple[Footprint, ...] = ()
    exchange_buffers: tuple[Footprint, ...] = ()
    vertex_state: tuple[Footprint, ...] = ()
    code: Mapping[str, int] = field(default_factory=dict)
    exchange_code_bytes: int = 0
    flops: int = 0
    plan: Plan | None = None
    dtype: str = ""
