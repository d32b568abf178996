"""Chips as frozen values: how many tiles, how much memory, how fast.

Models one IPU. Does not model IPU-Links, the host connection or streaming memory.

Sources, named in the comments below:
  CIT     Jia et al., "Dissecting the Graphcore IPU Architecture via Microbenchmarking",
          arXiv 1912.03413 (first generation, measured)
  PG      Graphcore, "IPU Programmer's Guide", chapter 2 (hardware overview)
  ISA     Graphcore, "Tile Vertex ISA" 1.2.3 (Mk2)
  DECK    vendor presentations of the second generation and of Bow (chip totals)
  TES     tessellate-ipu, notebook "IPU Peak Flops" (clock printed by a Bow machine)
  derived  arithmetic from the figures above, shown next to the constant
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One IPU as the planner and the cost model see it.

    Attributes:
        chip: Name of the generation, a key of `CHIPS`.
        tiles: Number of tiles.
        clock_hz: Tile clock in Hz.
        tile_bytes: Memory of one tile in bytes, code and stacks included.
        workers: Hardware threads of a tile that run vertices.
        macs_per_cycle_f16: Multiply-accumulates per cycle and tile of the AMP unit, float16 inputs.
        macs_per_cycle_f32: The same for float32 inputs.
        amp_columns: Output channels that one AMP pass computes side by side.
        load_bytes_per_cycle: Bytes that a tile loads from its memory per cycle.
        exchange_bytes_per_cycle: Bytes that a tile receives from other tiles per cycle.
        sync_cycles: Cycles of a synchronisation of all tiles.
        exchange_fixed_cycles: Cycles of an exchange phase beyond its bytes.
    """

    chip: str
    tiles: int
    clock_hz: float
    tile_bytes: int
    workers: int
    macs_per_cycle_f16: int
    macs_per_cycle_f32: int
    amp_columns: int
    load_bytes_per_cycle: int
    exchange_bytes_per_cycle: int
    sync_cycles: int
    exchange_fixed_cycles: int

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "chip" and value <= 0:
                raise ValueError(f"Target.{field.name} must be positive. Received: {value!r}.")

    def macs_per_cycle(self, dtype: str) -> int:
        """Returns the multiply-accumulates per cycle and tile for inputs of `dtype`."""
        return self.macs_per_cycle_f16 if dtype == "float16" else self.macs_per_cycle_f32


_GC2 = Target(
    chip="gc2",
    tiles=1216,  # CIT 1.1
    clock_hz=1.6e9,  # CIT table 1.1
    tile_bytes=256 * _KIB,  # CIT 4.2.2
    workers=6,  # CIT 1.2
    macs_per_cycle_f16=32,  # derived: 124.5e12 flop/s (CIT 1.3) / (1216 * 1.6e9) / 2
    macs_per_cycle_f32=8,  # derived: 31.1e12 flop/s (CIT 1.3) / (1216 * 1.6e9) / 2
    amp_columns=8,  # derived: 32 multiply-accumulates in units that take 4 float16 a cycle
    load_bytes_per_cycle=16,  # CIT 3.1: 30.7 of 31.1 TB/s measured with 128-bit loads
    exchange_bytes_per_cycle=4,  # CIT tables 4.6 and 4.9
    sync_cycles=130,  # derived: 264 cycles loaded with sync (CIT 4.3) less 95-157 without (4.1.2)
    exchange_fixed_cycles=150,  # CIT 4: broadcast of one word to 16 tiles, fits of gather: 118
)

_GC200 = dataclasses.replace(
    _GC2,
    chip="gc200",
    tiles=1472,  # PG 2.3
    clock_hz=1.33e9,  # derived: 250e12 flop/s (DECK) / (1472 * 128)
    tile_bytes=624 * _KIB,  # PG 2.3.1, addresses 0x4C000 to 0xE7FFF
    macs_per_cycle_f16=64,  # PG 2: "up to 64 multiply-accumulates per cycle"
    amp_columns=16,  # ISA 2.9.11, figure 2.31: 2 sets of 8 units
    macs_per_cycle_f32=16,  # derived: 62.5e12 flop/s (DECK) / (1472 * 1.33e9) / 2
)

_BOW = dataclasses.replace(_GC200, chip="bow", clock_hz=1.85e9)  # TES

_C600 = dataclasses.replace(
    _GC200,
    chip="c600",
    clock_hz=1.486e9,  # derived: 280e12 flop/s (board data sheet) / (1472 * 128)
)

CHIPS: dict[str, Target] = {chip.chip: chip for chip in (_GC2, _GC200, _BOW, _C600)}


def target(chip: str, tiles_per_ipu: int = 0) -> Target:
    """Returns the target of a chip, smaller than the real one on request.

    Args:
        chip: A key of `CHIPS`: "gc2", "gc200", "bow" or "c600".
        tiles_per_ipu: Number of tiles; 0 takes all of the chip.

    Raises:
        ValueError: The chip is unknown, or it does not have that many tiles.
    """
    if chip not in CHIPS:
        known = ", ".join(repr(name) for name in CHIPS)
        raise ValueError(f"Unknown chip. Choose one of {known}. Received: {chip!r}.")
    full = CHIPS[chip]
    if not 0 <= tiles_per_ipu <= full.tiles:
        raise ValueError(
            f"A {chip} IPU has {full.tiles} tiles: `tiles_per_ipu` must be between 1 and that, "
            f"or 0 for all of them. Received: {tiles_per_ipu!r}."
        )
    return full if tiles_per_ipu == 0 else dataclasses.replace(full, tiles=tiles_per_ipu)
