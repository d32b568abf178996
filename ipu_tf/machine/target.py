"""Chips as frozen values: how many tiles, how much memory, how fast.

Models one IPU; `system.py` has the connections of several. Does not model power or temperature.

Sources, named in the comments below:
  CIT     Jia et al., "Dissecting the Graphcore IPU Architecture via Microbenchmarking",
          arXiv 1912.03413 (first generation, measured)
  PG      Graphcore, "IPU Programmer's Guide", chapter 2 (hardware overview)
  ISA     Graphcore, "Tile Vertex ISA" 1.2.3 (Mk2)
  DECK    vendor presentations of the second generation and of Bow (chip totals)
  TES     tessellate-ipu, notebook "IPU Peak Flops" (clock printed by a Bow machine)
  C600    data sheet and ByteMLPerf's description of the C600 card
  OSM     osmarks/ipu-stack, an independent compiler for the C600 (tables of its target)
  derived  arithmetic from the figures above, shown next to the constant
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field

from ipu_tf.machine.exchange_timing import ExchangeTiming

_KIB = 1024

AMP_GRAINS = {"float32": 8, "float16": 16, "float8": 32}
"""Reduction elements of one AMP pass, by the type of the inputs (ISA 3.7.3.3; poplibs)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One IPU as the planner and the cost model see it.

    Define another machine by `dataclasses.replace(CHIPS["bow"], tiles=3000)`, or as a `Target`
    from scratch; both work wherever a target does.

    Attributes:
        chip: Name of the generation. A key of `CHIPS` implies the host and the links of that
            chip, too; for another name, give them in a `System`.
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
        exchange_fixed_cycles: Cycles of an exchange phase beyond its bytes, where tiles anywhere
            on the chip both send and receive.
        macs_per_cycle_f8: Multiply-accumulates per cycle and tile, float8 inputs; 0 for none.
        narrow_load_bytes_per_cycle: Bytes loaded per cycle without 128-bit loads.
        store_bytes_per_cycle: Bytes that a tile stores to its memory per cycle.
        load_latency_cycles: Cycles from a load to its value.
        interleaved_share: Share of `tile_bytes` in the interleaved region, the only one that
            128-bit loads read; code lies in the rest.
        system_bytes: Bytes of `tile_bytes` that programs cannot use.
        paired_exchange_bytes_per_cycle: Bytes that a tile receives per cycle where both tiles of
            a pair receive the same data.
        exchange: Cycles of an exchange phase besides its bytes, pattern by pattern.
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
    macs_per_cycle_f8: int = 0
    narrow_load_bytes_per_cycle: int = 8
    store_bytes_per_cycle: int = 8
    load_latency_cycles: int = 6
    interleaved_share: float = 2 / 3
    system_bytes: int = 0
    paired_exchange_bytes_per_cycle: int = 8
    exchange: ExchangeTiming = field(default_factory=ExchangeTiming)

    def __post_init__(self) -> None:
        if not isinstance(self.chip, str) or not self.chip:
            raise ValueError(f"Target.chip must be a name. Received: {self.chip!r}.")
        for name in _NUMBERS:
            value, least = getattr(self, name), _LEAST.get(name, 1)
            kinds = (int, float) if name == "clock_hz" else int
            right = isinstance(value, kinds) and not isinstance(value, bool)
            if not right or not least <= value < math.inf:
                rule = {0: "zero or positive", 1: "positive"}.get(least, f"at least {least}")
                raise ValueError(f"Target.{name} must be {rule}. Received: {value!r}.")
        share = self.interleaved_share
        if not isinstance(share, int | float) or not 0 <= share <= 1:
            raise ValueError(
                "Target.interleaved_share must be between 0 and 1. "
                f"Received: {self.interleaved_share!r}."
            )
        if self.system_bytes >= self.tile_bytes:
            raise ValueError(
                f"Target.system_bytes must be less than the {self.tile_bytes} bytes of a tile. "
                f"Received: {self.system_bytes!r}."
            )
        if self.paired_exchange_bytes_per_cycle < self.exchange_bytes_per_cycle:
            raise ValueError(
                "Target.paired_exchange_bytes_per_cycle must be at least the "
                f"{self.exchange_bytes_per_cycle} of exchange_bytes_per_cycle. "
                f"Received: {self.paired_exchange_bytes_per_cycle!r}."
            )
        if not isinstance(self.exchange, ExchangeTiming):
            raise ValueError(
                f"Target.exchange must be an ExchangeTiming. Received: {self.exchange!r}."
            )
        self._check_amp()

    def _check_amp(self) -> None:
        """Checks that the rates of the AMP unit are those of whole slots a position."""
        for dtype, name in _AMP_RATES.items():
            rate, products = getattr(self, name), AMP_GRAINS[dtype] * self.amp_columns
            if rate and products % rate:
                raise ValueError(
                    f"Target.{name} must divide {products}, the products of a pass ({dtype}: "
                    f"{AMP_GRAINS[dtype]} x {self.amp_columns} columns): a pass takes whole cycles "
                    f"a position. Change it, or amp_columns. Received: {rate!r}."
                )

    def macs_per_cycle(self, dtype: str) -> int:
        """Returns the multiply-accumulates per cycle and tile for inputs of `dtype`.

        Raises:
            ValueError: The chip does not multiply values of that type.
        """
        if dtype.startswith("float8"):
            if not self.macs_per_cycle_f8:
                raise ValueError(
                    f"The {self.chip} target has no float8 arithmetic. Use the c600, or float16. "
                    f"Received: {dtype!r}."
                )
            return self.macs_per_cycle_f8
        return self.macs_per_cycle_f16 if dtype == "float16" else self.macs_per_cycle_f32

    def seconds(self, cycles: float) -> float:
        """Returns the time that cycles of the tile clock take."""
        return cycles / self.clock_hz


_NUMBERS = tuple(
    entry.name
    for entry in dataclasses.fields(Target)
    if entry.name not in ("chip", "interleaved_share", "exchange")
)
_LEAST = {
    "macs_per_cycle_f8": 0,
    "system_bytes": 0,
    "sync_cycles": 0,
    # A slot loads or stores a word of 32 bits at least.
    "narrow_load_bytes_per_cycle": 4,
    "store_bytes_per_cycle": 4,
}
_AMP_RATES = {
    "float32": "macs_per_cycle_f32",
    "float16": "macs_per_cycle_f16",
    "float8": "macs_per_cycle_f8",
}


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
    # derived: 264 cycles of a full exchange with sync (CIT 4.3) less the farthest tile's 157
    # (CIT 4.1.2) and the turnaround of 13
    sync_cycles=94,
    exchange_fixed_cycles=170,  # derived: the farthest tile's 157, the turnaround of 13
    store_bytes_per_cycle=8,  # CIT 3.2: 15.5 TB/s in theory
    interleaved_share=0.5,  # modelled: nothing published
    system_bytes=8 * _KIB,  # CIT 4.2.2: 248 KiB are available to the user
)

_GC200 = dataclasses.replace(
    _GC2,
    chip="gc200",
    tiles=1472,  # PG 2.3
    clock_hz=1.33e9,  # derived: 250e12 flop/s (DECK) / (1472 * 128)
    tile_bytes=624 * _KIB,  # PG 2.3.1, addresses 0x4C000 to 0xE7FFF
    interleaved_share=416 / 624,  # OSM: from address 0x80000 on
    system_bytes=0,  # modelled: nothing published
    # 368 islands in 16 columns, derived from the tiles; latencies are those of the GC2
    exchange=ExchangeTiming(islands_per_column=23),
    exchange_fixed_cycles=178,  # derived as for the GC2, with four islands more in a column
    macs_per_cycle_f16=64,  # PG 2: "up to 64 multiply-accumulates per cycle"
    amp_columns=16,  # ISA 2.9.11, figure 2.31: 2 sets of 8 units
    macs_per_cycle_f32=16,  # derived: 62.5e12 flop/s (DECK) / (1472 * 1.33e9) / 2
)

_BOW = dataclasses.replace(_GC200, chip="bow", clock_hz=1.85e9)  # TES

_C600 = dataclasses.replace(
    _GC200,
    chip="c600",
    macs_per_cycle_f8=128,  # derived: 560e12 flop/s (C600) / (1472 * 1.486e9) / 2
    clock_hz=1.486e9,  # derived: 280e12 flop/s (C600) / (1472 * 128)
)

CHIPS: dict[str, Target] = {chip.chip: chip for chip in (_GC2, _GC200, _BOW, _C600)}


def target(chip: str | Target, tiles_per_ipu: int = 0) -> Target:
    """Returns the target of a chip, smaller than the real one on request.

    Args:
        chip: A key of `CHIPS`: "gc2", "gc200", "bow" or "c600"; or a target.
        tiles_per_ipu: Number of tiles; 0 takes all of the chip.

    Raises:
        ValueError: The chip is unknown, or it does not have that many tiles.
    """
    full = chip if isinstance(chip, Target) else CHIPS.get(chip)
    if full is None:
        names = ", ".join(repr(name) for name in CHIPS)
        raise ValueError(f"Unknown chip. Choose one of {names}. Received: {chip!r}.")
    if not 0 <= tiles_per_ipu <= full.tiles:
        raise ValueError(
            f"A {full.chip} IPU has {full.tiles} tiles: `tiles_per_ipu` must be between 1 and "
            f"{full.tiles}, or 0 for all of them. Received: {tiles_per_ipu!r}."
        )
    return full if tiles_per_ipu == 0 else dataclasses.replace(full, tiles=tiles_per_ipu)
