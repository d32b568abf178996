"""Predicts measurements within tiles: their memory, and reductions."""

from __future__ import annotations

from ipu_tf.calibration.library_reduction import library_reduction_cycles
from ipu_tf.calibration.measurement_units import parse_unit
from ipu_tf.calibration.outcome import PredictionOutcome
from ipu_tf.calibration.params import input_dtype, says, whole
from ipu_tf.calibration.records import MeasuredPoint
from ipu_tf.calibration.routes import route_of
from ipu_tf.machine import links
from ipu_tf.machine import tile_memory as memory
from ipu_tf.machine.system import system_of
from ipu_tf.machine.target import Target

_NEXT_BOARD = links.Route(rail_hops=1, crosses_board=True)
"""More than two IPUs reduce in a tree, whose steps reach the next board."""

_HLO_TYPES = {"float32": "f32", "float16": "f16"}


def tile_memory(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts the size of a memory, the latency of loads, or the rate of loops of them."""
    dimension = parse_unit(record.unit).dimension
    if dimension in ("cycles", "seconds"):
        return PredictionOutcome(seconds=target.seconds(target.load_latency_cycles))
    if dimension == "bytes":
        of_programs = says(record, "user", "available", "usable", "programs")
        one = target.tile_bytes - (target.system_bytes if of_programs else 0)
        return PredictionOutcome(
            bytes=one * (target.tiles if says(record, "chip", "whole ipu") else 1)
        )
    if says(record, "write", "store"):
        bits = whole(record, "store_bits", "bits", default=64)
        return PredictionOutcome(bytes_per_second=memory.write_bytes_per_second(target, bits))
    reads = "load_bits" in record.params or says(record, "read", "load")
    if says(record, "triad", "stream") or not reads:
        # A bandwidth of neither loads nor stores counts both at once.
        dtype = "float32" if record.dtype == "-" else input_dtype(record)
        return PredictionOutcome(
            bytes_per_second=memory.stream_bytes_per_second(target),
            flops_per_second=memory.stream_flops_per_second(target, dtype),
        )
    bits = whole(record, "load_bits", "bits", default=128 if says(record, "asm") else 32)
    return PredictionOutcome(bytes_per_second=memory.read_bytes_per_second(target, bits))


def reduction(record: MeasuredPoint, target: Target) -> PredictionOutcome:
    """Predicts a call of the library's reduction of f32 or f16 operands to one value."""
    tiles = whole(record, "tiles", default=1)
    operands = whole(record, "operands", "operands_per_tile")
    dtype = input_dtype(record) if record.dtype != "-" else "float32"
    on_each = -(-tiles // record.n_ipus)
    seconds = target.seconds(library_reduction_cycles(operands, on_each, _HLO_TYPES[dtype], target))
    if record.n_ipus > 1:
        # Every tile of an IPU sends its part to the tile that adds.
        system = system_of(target.chip, record.n_ipus)
        way = route_of(record) if record.n_ipus == 2 else _NEXT_BOARD
        seconds += links.transfer_seconds(system, way, 4 * on_each, on_each)
    element_bytes = 2 if dtype == "float16" else 4
    return PredictionOutcome(seconds=seconds, bytes=operands * tiles * element_bytes)
