"""Errors of compilation; their messages say where it failed and what to do next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from ipu_tf.tile_program.device_program import DeviceProgram
from ipu_tf.tile_program.liveness import LiveTensor, live_on_tile
from ipu_tf.tile_program.program import Category, TileProgram

_LARGEST = 5
"""Number of tensors that an out-of-memory message names."""

_DOMINANT = 0.1
"""Share of the tile from which a category gets advice."""

_WHOLE, _HALF = 1.0, 0.5

_SPLIT = "split the model over at least {ipus} IPUs (pipelining)"

_SMALLER_BATCH = "use a smaller batch"

_REMEDIES: Mapping[Category, tuple[tuple[str, float], ...]] = {
    "weights": ((_SPLIT, _WHOLE), ("hold weights in float16", _HALF)),
    "optimizer_state": (
        ("use an optimizer with less state", _WHOLE),
        ("keep its state in streaming memory", _WHOLE),
        ("in float16", _HALF),
    ),
    "accumulators": (
        ("use more pipeline stages", _WHOLE),
        ("accumulate gradients in float16", _HALF),
    ),
    "state": (("keep fewer variables besides the weights", _WHOLE),),
    "inputs": ((_SMALLER_BATCH, _WHOLE), ("feed it in float16", _HALF)),
    "constants": (("pass large constants as inputs", _WHOLE),),
    "activations": (
        (f"{_SMALLER_BATCH} with gradient accumulation", _WHOLE),
        ("recomputation", _WHOLE),
        ("pipelining", _WHOLE),
        ("float16", _HALF),
    ),
    "fifos": (
        ("recompute activations", _WHOLE),
        ("use the Interleaved or Sequential schedule", _WHOLE),
        ("a smaller batch", _WHOLE),
    ),
    "scratch": (
        ("lower `availableMemoryProportion`", _WHOLE),
        ("use float16 partials", _HALF),
    ),
    "exchange_buffers": (
        ("lower `availableMemoryProportion`", _WHOLE),
        (_SMALLER_BATCH, _WHOLE),
    ),
    "vertex_state": (
        ("lower `availableMemoryProportion`", _WHOLE),
        ("use fewer, larger ops", _WHOLE),
    ),
    "vertex_code": (("use fewer kinds of ops in one program", _WHOLE),),
    "exchange_code": (("use fewer, larger ops in one program", _WHOLE),),
    "stack": (("use a chip with more memory in a tile", _WHOLE),),
}
"""Ways to save memory, by the category that takes it, each with the largest share of the category
that it saves."""

_OF_POPLAR: Mapping[Category, tuple[tuple[str, float], ...]] = {
    "state": (("map variables to more tiles", _WHOLE),),
    "constants": (("map constants to more tiles", _WHOLE),),
    "scratch": (("map variables to more tiles", _WHOLE),),
    "exchange_buffers": (("map vertices to the tiles of their operands", _WHOLE),),
    "vertex_state": (("map vertices to more tiles", _WHOLE), ("use fewer, larger ones", _WHOLE)),
    "vertex_code": (("run fewer codelets on a tile", _WHOLE),),
    "exchange_code": (("exchange fewer, longer pieces", _WHOLE),),
    "stack": _REMEDIES["stack"],
}
"""The same for graphs of Poplar, which have no other categories."""

_OF_PREDICTIONS = ((_SMALLER_BATCH, _WHOLE), ("pipelining", _WHOLE), ("float16", _HALF))
"""Ways to save activations without a backward pass."""


class UnsupportedOpcodeError(NotImplementedError):
    """Instructions of a function have no cost on the machine.

    Attributes:
        reasons: The reason for each opcode, by opcode and layer.
    """

    def __init__(self, program: str, reasons: Mapping[str, Mapping[str, str]]) -> None:
        self.reasons = reasons
        lines = "".join(
            f"\n  {opcode} in {', '.join(repr(layer) for layer in layers)}: "
            f"{' '.join(dict.fromkeys(layers.values()))}"
            for opcode, layers in reasons.items()
        )
        super().__init__(
            f"Program '{program}' has opcodes without a cost on the machine.{lines}\nReplace "
            'them, run them on the host, or set `cfg.simulator.unsupported = "warn"` to go on '
            "with an incomplete report."
        )


class IPUOutOfMemoryError(MemoryError):
    """A program needs more memory than a tile has.

    Attributes:
        program: Name of the program.
        chip: The chip it is compiled for.
        tile: Number of the fullest tile; None if no plan of a single op fits.
        overflow_bytes: Bytes over the limit of that tile.
        largest: The largest tensors and categories of that tile, the largest first.
        ipu: Number of the IPU that it does not fit on; None if there is only one.
        compiled: The program; None if no plan of a single op fits.
    """

    compiled: DeviceProgram | None = None

    def __init__(
        self,
        message: str,
        *,
        program: str,
        chip: str,
        tile: int | None = None,
        overflow_bytes: int = 0,
        largest: Sequence[LiveTensor] = (),
        ipu: int | None = None,
    ) -> None:
        super().__init__(message)
        self.program = program
        self.chip = chip
        self.tile = tile
        self.overflow_bytes = overflow_bytes
        self.largest = tuple(largest)
        self.ipu = ipu


def out_of_memory(program: TileProgram, *, ipu: int | None = None) -> IPUOutOfMemoryError:
    """Returns the error that says why a program does not fit, to raise or to log.

    Args:
        program: The program.
        ipu: Number of its IPU if there are several; None otherwise.
    """
    memory, tile = program.memory, program.memory.fullest_tile
    largest = largest_on_fullest_tile(program)
    chip = program.target.chip
    where = f"a {chip} IPU" if ipu is None else f"IPU {ipu} ({chip})"
    lines = [
        f"Program '{program.name}' does not fit on {where}: tile {tile} is "
        f"{memory.overflow_bytes:,} bytes over its {memory.limit_bytes:,} bytes while it runs "
        f"{_step_text(program)}. The largest tensors there:",
        *(f"  {_tensor_text(live)}" for live in largest),
        f"To make room: {'; '.join(advice(program))}.",
    ]
    return IPUOutOfMemoryError(
        "\n".join(lines),
        program=program.name,
        chip=chip,
        tile=tile,
        overflow_bytes=memory.overflow_bytes,
        largest=largest,
        ipu=ipu,
    )


def out_of_streaming_memory(program: DeviceProgram) -> IPUOutOfMemoryError:
    """Returns the error of offloaded values that do not fit in streaming memory."""
    return IPUOutOfMemoryError(
        f"Program '{program.name}': its offloaded tensors exceed the streaming memory of "
        f"{program.system}. Use a larger system, or keep more on the tiles. Received: "
        f"{program.streaming_bytes:,} bytes of {program.replicas} replicas, of "
        f"{program.streaming_limit_bytes:,} available.",
        program=program.name,
        chip=program.target.chip,
    )


def op_out_of_memory(
    program: str, chip: str, *, layer: str, op_name: str, reason: str
) -> IPUOutOfMemoryError:
    """Returns the error of an op without a plan that fits a tile."""
    where = f" of layer '{layer}'" if layer else ""
    return IPUOutOfMemoryError(
        f"Program '{program}' does not fit on a {chip} IPU: no plan of op '{op_name}'{where} "
        f"fits. {reason} To make room: {_choice(_REMEDIES['activations'], 1, 0)}.",
        program=program,
        chip=chip,
    )


def _step_text(program: TileProgram) -> str:
    if not program.steps:
        return "nothing: its variables alone are too large"
    step = program.steps[program.memory.peak_step]
    where = f" of layer '{step.layer}' ({step.phase})" if step.layer else ""
    return f"'{step.name}'{where}"


def _tensor_text(live: LiveTensor) -> str:
    tensor = live.tensor
    where = f" of layer '{tensor.layer}'" if tensor.layer else ""
    kind = tensor.category.replace("_", " ")
    return (
        f"{live.tile_bytes:,} bytes: {kind} '{tensor.name}'{where}, {tensor.bytes:,} bytes on "
        f"{tensor.footprint.tiles} tiles"
    )


def largest_on_fullest_tile(program: TileProgram) -> tuple[LiveTensor, ...]:
    """Returns the five tensors that take most of the fullest tile at the peak."""
    memory, tiles = program.memory, program.target.tiles
    tile = memory.fullest_tile
    live = live_on_tile(program.tensors, step=memory.peak_step, tile=tile, tiles=tiles)
    return live[:_LARGEST]


def advice(program: TileProgram) -> list[str]:
    """Returns advice on the categories that take most of the fullest tile, the largest first.

    What saves too little to make room, even if it saves as much as it can, is left out.
    """
    memory, tile = program.memory, program.memory.fullest_tile
    sizes: Counter[Category] = Counter()
    for parts in (memory.always_live, memory.not_always_live_peak):
        for category, tile_bytes in parts.items():
            sizes[category] += int(tile_bytes[tile])
    categories = sizes.most_common()
    matter = [category for category, count in categories if count >= _DOMINANT * sizes.total()]
    ipus = max(2, -(-sizes.total() // memory.limit_bytes))
    lines: list[str] = []
    for category in matter:
        remedies = (_OF_POPLAR if program.front == "poplar" else _REMEDIES)[category]
        if category == "activations" and not any(s.phase == "backward" for s in program.steps):
            remedies = _OF_PREDICTIONS
        lines.append(_choice(remedies, sizes[category], memory.overflow_bytes).format(ipus=ipus))
    return lines


def _choice(remedies: Sequence[tuple[str, float]], whole: int, over: int) -> str:
    """Returns the remedies of a category that make room, or else those that save all of it."""
    enough = [text for text, share in remedies if share == _WHOLE or share * whole >= over]
    *first, last = enough
    return f"{', '.join(first)}, or {last}" if first else last
