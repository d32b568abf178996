"""Costs of vertices other than contractions on one tile: cycles, state and code.

Every function takes the work of one tile (pass the busiest tile's share) as integers or NumPy
integer arrays and returns a `Vertex`. Types have HLO's names ("f32", "f16", "s32", "pred", ...),
element-wise operations HLO's opcodes.

Cycles follow the published cycle estimators of poplibs 3.4 (`lib/popops`, `lib/poprand`) where a
module says so; other figures are marked "modelled" (our reading) or "bound" (cannot be faster).
State and code bytes are modelled throughout: pointers and sizes of a word each, and eight bytes an
instruction bundle.
"""

from ipu_tf.machine.vertices.broadcasts import by_channels, by_rows
from ipu_tf.machine.vertices.convert import convert, fill, iota
from ipu_tf.machine.vertices.elementwise import OPCODES, elementwise, fused
from ipu_tf.machine.vertices.movement import (
    copy,
    dynamic_slice,
    dynamic_update,
    rearranged_cycles,
    transpose,
)
from ipu_tf.machine.vertices.random import (
    dropout,
    random_bits,
    random_normal,
    random_truncated_normal,
    random_uniform,
)
from ipu_tf.machine.vertices.reduction import reduce, reduce_passes
from ipu_tf.machine.vertices.rows import multi_slice, multi_update
from ipu_tf.machine.vertices.scan import scan
from ipu_tf.machine.vertices.sorting import compare_exchange, sort, top_k
from ipu_tf.machine.vertices.vertex import Vertex, dtype_bytes, vector_elements
from ipu_tf.machine.vertices.window import select_and_scatter, window_reduce

__all__ = [
    "OPCODES",
    "Vertex",
    "by_channels",
    "by_rows",
    "compare_exchange",
    "convert",
    "copy",
    "dropout",
    "dtype_bytes",
    "dynamic_slice",
    "dynamic_update",
    "elementwise",
    "fill",
    "fused",
    "iota",
    "multi_slice",
    "multi_update",
    "random_bits",
    "random_normal",
    "random_truncated_normal",
    "random_uniform",
    "rearranged_cycles",
    "reduce",
    "reduce_passes",
    "scan",
    "select_and_scatter",
    "sort",
    "top_k",
    "transpose",
    "vector_elements",
    "window_reduce",
]
