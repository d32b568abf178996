"""The programs of custom ops, as the compiler takes them."""

from __future__ import annotations

import functools

from ipu_tf.compiler.hlo import Module
from ipu_tf.ops.kernels import user_op
from ipu_tf.poplar.model.embedding import embedded_program
from ipu_tf.poplar.model.graph import PoplarGraph
from ipu_tf.poplar.model.records import read_records
from ipu_tf.tile_program.embedded_program import EmbeddedProgram


@functools.cache
def of_key(key: str) -> EmbeddedProgram:
    """Returns the program of a custom op, by the key that its op has in graphs."""
    return embedded_program(PoplarGraph.of(read_records(user_op.program_of(key).records())))


def notes(module: Module) -> tuple[str, ...]:
    """Returns caveats about the figures of the custom ops of a module."""
    program_notes = {
        f"custom op '{instruction.op_name.rpartition('/')[2]}': {note}": None
        for computation in module.computations.values()
        for instruction in computation
        if "program" in instruction.attributes
        for note in instruction.attributes["program"].notes
    }
    return tuple(program_notes)
