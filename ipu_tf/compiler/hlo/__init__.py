"""Functions as the compiler sees them: modules of HLO instructions, without TensorFlow."""

from ipu_tf.compiler.hlo.module import (
    Array,
    Computation,
    Instruction,
    Module,
    Parameter,
    Phase,
    Role,
    TupleType,
    Type,
)

__all__ = [
    "Array",
    "Computation",
    "Instruction",
    "Module",
    "Parameter",
    "Phase",
    "Role",
    "TupleType",
    "Type",
]
