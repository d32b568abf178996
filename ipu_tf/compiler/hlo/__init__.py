"""Functions as the compiler sees them: modules of HLO instructions, without TensorFlow."""

from ipu_tf.compiler.hlo.attributes import (
    ConvolutionDimensions,
    DotDimensions,
    GatherDimensions,
    PaddingDimension,
    ScatterDimensions,
    SliceDimension,
    TriangularSolveOptions,
    Window,
    WindowDimension,
)
from ipu_tf.compiler.hlo.from_proto import UnsupportedType, from_proto
from ipu_tf.compiler.hlo.module import (
    Array,
    Computation,
    Instruction,
    Module,
    NotAnArray,
    Parameter,
    Role,
    TupleType,
    Type,
)
from ipu_tf.compiler.hlo.text import parse, to_text
from ipu_tf.compiler.hlo.verify import InvalidModule, verify
from ipu_tf.tile_program.phase import Phase

__all__ = [
    "Array",
    "Computation",
    "ConvolutionDimensions",
    "DotDimensions",
    "GatherDimensions",
    "Instruction",
    "InvalidModule",
    "Module",
    "NotAnArray",
    "PaddingDimension",
    "Parameter",
    "Phase",
    "Role",
    "ScatterDimensions",
    "SliceDimension",
    "TriangularSolveOptions",
    "TupleType",
    "Type",
    "UnsupportedType",
    "Window",
    "WindowDimension",
    "from_proto",
    "parse",
    "to_text",
    "verify",
]
