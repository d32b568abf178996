"""Decides whether a program's transfers with the host use the chip's I/O tiles."""

from __future__ import annotations

import dataclasses

from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.parameters import STREAMED
from ipu_tf.machine import io_tiles

_FEEDS = frozenset({"infeed", "outfeed"})


def with_room(module: Module, options: CompilerOptions) -> tuple[CompilerOptions, str]:
    """Returns the options for a program's transfers with the host, and a note about them.

    I/O tiles hold two buffers of what a step moves. If these are too small, the options have no I/O
    tiles, and the note says why; else it is "".

    Args:
        module: The program.
        options: The options of its compilation.
    """
    step_bytes = host_bytes(module)
    tiles, share = options.io_tiles, options.io_tile_share
    if not tiles or io_tiles.holds(step_bytes, tiles, share, options.target):
        return options, ""
    note = (
        f"The {tiles} I/O tiles do not hold two buffers of the {step_bytes:,} bytes that a step "
        f"moves from and to the host in {share:.0%} of their memory; these transfers do not "
        "overlap with the computation. Set more I/O tiles, or use smaller batches."
    )
    return dataclasses.replace(options, io_tiles=0), note


def host_bytes(module: Module) -> int:
    """Returns the bytes that one run of a module moves from and to the host."""
    entry = module.entry_computation
    by_name = entry.by_name()
    inside = sum(
        instruction.type.bytes
        for computation in module.computations.values()
        for instruction in computation
        if instruction.opcode in _FEEDS
    )
    input_bytes = sum(
        instruction.type.bytes
        for instruction in entry
        if instruction.opcode == "parameter"
        and module.parameters[instruction.attributes["parameter_number"]].role in STREAMED
    )
    root = by_name[entry.root]
    results = root.operands if root.opcode == "tuple" else (root.name,)
    stays = {parameter.updated_by for parameter in module.parameters} | module.links
    output_bytes = sum(
        by_name[name].type.bytes for number, name in enumerate(results) if number not in stays
    )
    return inside + input_bytes + output_bytes
