"""The memory of a tile: its regions, how wide loads may be, and how fast it is.

Region 0 holds code and data and is not interleaved. Region 1 holds data alone; even and odd 64-bit
words lie in different banks, so one instruction loads two of them (128 bits). Models rates.
Does not model single banks, nor conflicts between workers.
"""

from __future__ import annotations

from ipu_tf.machine.target import Target

_LOAD_BITS = (32, 64, 128)
SUSTAINED_SHARE = 0.985
"""Share of slots that hold loads in an unrolled loop of loads (fitted: CIT table 3.1, 30.70 of
31.13 TB/s); the loop itself takes the rest."""

STREAM_SHARE = 0.991
"""The same for a hand-written loop that loads twice and stores in one slot (stated for STREAM on a
GC200, WaveEquation-IPU)."""


def load_bytes_per_cycle(target: Target, load_bits: int) -> int:
    """Returns the bytes that a tile loads per cycle with loads of a width.

    A slot holds one load, two banks at most.

    Args:
        target: The machine.
        load_bits: 32, 64 or 128 bits.

    Raises:
        ValueError: There are no loads of that width.
    """
    if load_bits not in _LOAD_BITS:
        widths = ", ".join(map(str, _LOAD_BITS))
        raise ValueError(f"Loads are of {widths} bits. Received: {load_bits!r}.")
    if load_bits == 128:
        return target.load_bytes_per_cycle
    return target.narrow_load_bytes_per_cycle * load_bits // 64


def read_bytes_per_second(target: Target, load_bits: int) -> float:
    """Returns the rate at which all tiles together read, in loops of nothing but loads."""
    rate = load_bytes_per_cycle(target, load_bits) * SUSTAINED_SHARE
    return target.tiles * rate * target.clock_hz


def write_bytes_per_second(target: Target, store_bits: int) -> float:
    """Returns the rate at which all tiles together write, in loops of nothing but stores.

    Raises:
        ValueError: There are no stores of that width.
    """
    if store_bits not in (32, 64):
        raise ValueError(f"Stores are of 32 or 64 bits. Received: {store_bits!r}.")
    rate = target.store_bytes_per_cycle * store_bits // 64 * SUSTAINED_SHARE
    return target.tiles * rate * target.clock_hz


def stream_bytes_per_second(target: Target) -> float:
    """Returns the rate of loops that load two 64-bit words and store one in every slot."""
    words = 2 * target.narrow_load_bytes_per_cycle + target.store_bytes_per_cycle
    return target.tiles * words * STREAM_SHARE * target.clock_hz


def stream_flops_per_second(target: Target, dtype: str) -> float:
    """Returns the arithmetic of a triad `a = b + s * c` at that rate."""
    elements = 8 // (2 if dtype == "float16" else 4)
    return target.tiles * 2 * elements * STREAM_SHARE * target.clock_hz
