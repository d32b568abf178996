"""Says why a Poplar program does not fit its tiles."""

from __future__ import annotations

from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.errors import largest_on_fullest_tile

_LARGEST = 5


def overflow_text(program: DeviceProgram) -> str:
    """Returns what fills the fullest tile and how to make room; "" if all tiles fit."""
    ipu = program.fullest_ipu
    memory, stage = ipu.memory, program.stages[ipu.stages[0]].program
    if memory.fits:
        return ""
    tile, steps = memory.fullest_tile, stage.steps
    over = sum(int((one.memory.peak_tile_bytes > memory.limit_bytes).sum()) for one in program.ipus)
    tile_categories = [
        (live.tile_bytes, f"{live.tensor.category.replace('_', ' ')} '{live.tensor.name}'")
        for live in largest_on_fullest_tile(stage)
    ]
    for category, tile_bytes in memory.always_live.items():
        if category in ("vertex_state", "vertex_code", "exchange_code", "stack"):
            tile_categories.append((int(tile_bytes[tile]), category.replace("_", " ")))
    largest = sorted((one for one in tile_categories if one[0]), reverse=True)[:_LARGEST]
    while_runs = f" while it runs '{steps[memory.peak_step].name}'" if steps else ""
    number = ipu.ipu * program.target.tiles + tile
    return "\n".join(
        (
            f"Tile {number} is out of memory: it needs {int(memory.peak_tile_bytes[tile]):,} bytes "
            f"of {memory.limit_bytes:,}{while_runs} (tiles over the limit: {over}). The largest "
            "there:",
            *(f"  {size:,} bytes: {owner}" for size, owner in largest),
            "Map variables and vertices to more tiles, or set debug.allowOutOfMemory to true to "
            "see the whole profile.",
        )
    )
