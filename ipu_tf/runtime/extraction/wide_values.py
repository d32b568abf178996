"""float64 in a program: refuses it from outside, and notes it elsewhere."""

from __future__ import annotations

from ipu_tf.compiler.hlo import Module
from ipu_tf.compiler.passes.narrowing import wide_instructions

_NAMED_LAYERS = 3


def check_sources(module: Module) -> None:
    """Checks that no variable and no data of a program is float64; captured constants may be.

    Raises:
        TypeError: A variable or data is float64.
    """
    entry = frozenset(module.entry_computation.by_name())
    for instruction in wide_instructions(module):
        if instruction.opcode == "infeed":
            raise _refusal("input", instruction.op_name, instruction.layer, module.name)
        if instruction.opcode != "parameter" or instruction.name not in entry:
            continue
        parameter = module.parameters[instruction.attributes["parameter_number"]]
        if parameter.role != "constant":
            kind = "input" if parameter.role == "input" else "variable"
            raise _refusal(kind, parameter.name, parameter.layer, module.name)


def notes(module: Module) -> tuple[str, ...]:
    """Returns notes about the float64 values that arise in a program."""
    instructions = (i for i in wide_instructions(module) if i.op_type)
    places = list(dict.fromkeys(f"'{i.layer or i.op_name}'" for i in instructions))
    if not places:
        return ()
    more = f" and {len(places) - _NAMED_LAYERS} more" if len(places) > _NAMED_LAYERS else ""
    return (
        f"float64 values arise in {', '.join(places[:_NAMED_LAYERS])}{more}: the IPU has no 64-bit "
        "types, so the figures count them as float32; TensorFlow computes them in float64",
    )


def _refusal(kind: str, name: str, layer: str, program: str) -> TypeError:
    where = f" of layer '{layer}'" if layer else ""
    return TypeError(
        f"Unsupported data type for {kind}: float64 ('{name}'{where} in program '{program}'). The "
        "IPU has no 64-bit types: make it tf.float32."
    )
