"""Checks that a module is well formed, as every pass expects and guarantees."""

from __future__ import annotations

from ipu_tf.compiler.hlo.module import Array, Computation, Instruction, Module, TupleType

SAME_SHAPE = frozenset(
    {
        "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "and",
        "or", "xor", "compare", "shift-left", "shift-right-logical", "shift-right-arithmetic",
        "atan2", "complex", "negate", "abs", "exponential", "log", "log-plus-one", "tanh", "sqrt",
        "exponential-minus-one", "rsqrt", "logistic", "sine", "cosine", "sign", "floor", "ceil",
        "round-nearest-even", "round-nearest-afz", "not", "convert", "is-finite", "copy", "cbrt",
        "erf", "popcnt", "count-leading-zeros", "tan",
    }
)  # fmt: skip
_SAME_ELEMENTS = frozenset({"reshape", "bitcast", "transpose", "reverse"})


class InvalidModule(ValueError):
    """A module is not well formed."""


def verify(module: Module) -> None:
    """Checks names, order, calls and the shapes that follow from operands.

    Raises:
        InvalidModule: A name is used twice, an operand is missing or comes later, a called
            computation does not exist, a root or parameter is missing, or shapes disagree.
    """
    if module.entry not in module.computations:
        raise InvalidModule(f"The entry '{module.entry}' is not a computation of the module.")
    instruction_names: set[str] = set()
    for name, computation in module.computations.items():
        if name != computation.name:
            raise InvalidModule(
                f"Computation '{computation.name}' has another name, '{name}', in the module."
            )
        _verify_computation(module, computation, instruction_names)
    _verify_parameters(module)


def _verify_computation(
    module: Module, computation: Computation, instruction_names: set[str]
) -> None:
    by_name: dict[str, Instruction] = {}
    for instruction in computation:
        where = f"'{instruction.name}' ({instruction.opcode}) of '{computation.name}'"
        if instruction.name in instruction_names:
            raise InvalidModule(f"{where} has the name of another instruction.")
        for operand in instruction.operands:
            if operand not in by_name:
                raise InvalidModule(f"{where} reads '{operand}', which does not come before it.")
        for callee in instruction.computations:
            if callee not in module.computations:
                raise InvalidModule(f"{where} calls '{callee}', which does not exist.")
        _verify_shape(instruction, [by_name[name] for name in instruction.operands], where)
        instruction_names.add(instruction.name)
        by_name[instruction.name] = instruction
    if computation.root not in by_name:
        raise InvalidModule(f"The root '{computation.root}' is not in '{computation.name}'.")


def _verify_shape(instruction: Instruction, operands: list[Instruction], where: str) -> None:
    opcode, type_ = instruction.opcode, instruction.type
    types = [operand.type for operand in operands]
    shape_of_operands: object = type_
    if opcode == "tuple":
        shape_of_operands = TupleType(tuple(types))
    elif opcode == "get-tuple-element":
        source = types[0]
        index = instruction.attributes["tuple_index"]
        if not isinstance(source, TupleType) or index >= len(source.parts):
            raise InvalidModule(f"{where} takes part {index} of {source}.")
        shape_of_operands = source.parts[index]
    elif opcode in SAME_SHAPE and isinstance(type_, Array):
        for operand in types:
            if isinstance(operand, Array) and operand.dims != type_.dims:
                shape_of_operands = operand
    elif opcode in _SAME_ELEMENTS and isinstance(type_, Array):
        source = types[0]
        if isinstance(source, Array) and source.elements != type_.elements:
            shape_of_operands = source
    if shape_of_operands != type_:
        raise InvalidModule(
            f"{where} is of type {type_}, but its operands give {shape_of_operands}."
        )


def _verify_parameters(module: Module) -> None:
    numbers = sorted(
        i.attributes["parameter_number"]
        for i in module.entry_computation
        if i.opcode == "parameter"
    )
    if numbers != list(range(len(module.parameters))):
        raise InvalidModule(
            f"The entry has parameters {numbers}, the module describes {len(module.parameters)}."
        )
    root = module.entry_computation.by_name()[module.entry_computation.root].type
    parts = len(root.parts) if isinstance(root, TupleType) else 1
    for parameter in module.parameters:
        if parameter.updated_by is not None and parameter.updated_by >= parts:
            raise InvalidModule(
                f"'{parameter.name}' takes its update from result {parameter.updated_by}, of "
                f"{parts} results."
            )
