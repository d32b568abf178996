"""Builds blocks: lowers the instructions of a computation one by one, operands first.

Calls and maps become part of the block that holds them; loops and conditionals become nodes with
blocks of their own.

Models a loop of unknown length as one iteration, and a conditional as its longest branch; the
program's notes say so. The state of a loop stays in place: every iteration leaves it where it found
it, by a copy if the body makes it elsewhere.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from ipu_tf.compiler import control, in_place
from ipu_tf.compiler.blocks import Block, Node, Value, Values
from ipu_tf.compiler.hlo import Array, Computation, Instruction
from ipu_tf.compiler.lowering.context import LoweringContext
from ipu_tf.compiler.lowering.flow import trips_of
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.opcodes import is_elementwise
from ipu_tf.compiler.open_block import OpenBlock, make_node
from ipu_tf.compiler.ordering import schedule_block
from ipu_tf.tile_program.program import Category

_PASSED_ON = frozenset({"tuple", "opt-barrier"})
"""Opcodes whose result is their operands' arrays, one after the other."""


_CATEGORIES: Mapping[str, Category] = {"constant": "constants", "infeed": "inputs"}
"""Categories of the results of opcodes, where they are not activations."""


class BlockBuilder(OpenBlock):
    """Lowers computations into the nodes of one block.

    Args:
        build_state: The build state that the blocks of the program share.
        layer: The layer of copies; "" gives them to the layer of the memory they fill.
        phase: Their phase of the training step.
    """

    def run(
        self,
        computation: Computation,
        arguments: Sequence[Values],
        targets: Mapping[int, Value],
    ) -> Values:
        """Lowers a computation into this block.

        Args:
            computation: The computation.
            arguments: The arrays of every parameter, by parameter number.
            targets: Targets of the results, by the number of the array in the result.

        Returns:
            The arrays of its root.
        """
        instructions = computation.by_name()
        context = self.build_state.context.inside(computation)
        inner_targets = control.inner_targets(computation, instructions, targets)
        values: dict[str, Values] = {}
        for instruction in computation:
            if instruction.opcode == "parameter":
                results = arguments[instruction.attributes["parameter_number"]]
            else:
                operands = [values[name] for name in instruction.operands]
                inner: Mapping[int, Value] = inner_targets.get(instruction.name, {})
                if instruction.opcode == "conditional":
                    inner = control.reachable_targets(instruction, computation, values, inner)
                first = len(self.nodes)
                results = self._instruction(instruction, operands, context, inner)
                self._run_after(instruction.after, values, first)
            values[instruction.name] = results
        return values[computation.root]

    def _instruction(
        self,
        instruction: Instruction,
        operands: list[Values],
        context: LoweringContext,
        targets: Mapping[int, Value],
    ) -> Values:
        """Returns the arrays of an instruction's result."""
        opcode = instruction.opcode
        if opcode in _PASSED_ON:
            return tuple(value for values in operands for value in values)
        if opcode == "get-tuple-element":
            return _element(instruction, operands[0], context)
        if opcode == "call":
            return self.run(context.computations[instruction.computations[0]], operands, targets)
        if opcode == "map":
            return self.run(control.mapped(instruction, context), operands, {})
        if opcode == "while":
            return _add_loop(self, instruction, operands[0], context)
        if opcode == "conditional":
            return _add_conditional(self, instruction, operands, context, targets)
        return self._lower(instruction, operands, context)

    def _run_after(self, names: Sequence[str], values: Mapping[str, Values], first: int) -> None:
        """Makes the nodes from `first` on run after those that make other values."""
        earlier = {value.made_by for name in names for value in values[name]} - {None}
        for node in self.nodes[first:]:
            node.after |= earlier  # type: ignore[arg-type]

    def _lower(
        self, instruction: Instruction, operands: list[Values], context: LoweringContext
    ) -> Values:
        """Returns the arrays of an instruction that a lowering rule knows."""
        inputs = [value for values in operands for value in values]
        lowered = self.build_state.lower(
            instruction, [value.placement for value in inputs], context
        )
        if lowered.view_of is not None:
            return self._view(instruction, lowered, operands[lowered.view_of][0], inputs)
        is_constant = instruction.opcode == "constant"
        writes = tuple(
            self.build_state.new_buffer(
                placement,
                name=instruction.name,
                layer=instruction.layer,
                category=_CATEGORIES.get(instruction.opcode, "activations"),
                always_live=is_constant,
            )
            for placement in lowered.results
        )
        if is_constant:
            made_by = None
        else:
            node = make_node(instruction, lowered, inputs, writes)
            node.overwritable = self._overwritable(instruction, lowered, operands)
            made_by = self.add(node)
        return tuple(
            Value(placement=placement, buffer=buffer, made_by=made_by)
            for placement, buffer in zip(lowered.results, writes, strict=True)
        )

    def _view(
        self,
        instruction: Instruction,
        lowered: LoweredInstruction,
        source: Value,
        inputs: Sequence[Value],
    ) -> Values:
        """Returns the arrays of a result in an operand's memory."""
        made_by = source.made_by
        if lowered.supersteps:
            made_by = self.add(make_node(instruction, lowered, inputs, ()))
        return tuple(
            Value(placement=placement, buffer=source.buffer, made_by=made_by)
            for placement in lowered.results
        )

    def _overwritable(
        self, instruction: Instruction, lowered: LoweredInstruction, operands: list[Values]
    ) -> tuple[int, ...]:
        """Returns the buffers of operands that the first result may overwrite."""
        if lowered.in_place is None:
            return ()
        candidates = [operands[lowered.in_place]]
        if is_elementwise(instruction):
            candidates += operands
        result = lowered.results[0]
        buffers = self.build_state.buffers
        return tuple(
            dict.fromkeys(
                value.buffer
                for values in candidates
                for value in values
                if value.placement == result and buffers[value.buffer].footprint == result.footprint
            )
        )

    def finish(
        self, results: Values, arguments: Sequence[Value], targets: Mapping[int, Value]
    ) -> Block:
        """Returns the block with its results stored in their targets and its nodes ordered.

        Args:
            results: The arrays of the root.
            arguments: Buffers of the caller.
            targets: Targets of the results, by their number.
        """
        in_targets = in_place.store(self, results, targets)
        block = Block(
            nodes=self.nodes,
            results=in_targets,
            arguments=frozenset(value.buffer for value in arguments),
        )
        schedule_block(block, self.build_state.buffers, updates_last=self.build_state.updates_last)
        return block

    def spawn(self, instruction: Instruction) -> BlockBuilder:
        """Returns the builder of a block that an instruction of this one runs."""
        return BlockBuilder(self.build_state, layer=instruction.layer, phase=instruction.phase)


def _add_loop(
    builder: BlockBuilder, instruction: Instruction, state: Values, context: LoweringContext
) -> Values:
    """Adds a while loop to a block and returns the arrays that it leaves.

    Args:
        builder: The block.
        instruction: The loop.
        state: The arrays that it starts from.
        context: The context of the computation that holds it.
    """
    body, condition = (context.computations[name] for name in instruction.computations)
    trips = trips_of(instruction)
    if trips is None:
        trips = 1
        most = instruction.attributes.get("max_trip_count")
        times = "an unknown number of times" + ("" if most is None else f", at most {most}")
        builder.build_state.notes[
            f"The loop {_where(instruction)} runs {times}; the figures count one iteration."
        ] = None
    invariant_places = control.invariant_numbers(body, len(state))
    state_values = tuple(
        value
        if number in invariant_places
        else builder.copy(value, name=f"{instruction.name}.{number}", caller=instruction)
        for number, value in enumerate(state)
    )
    inside = _outside_values(state_values)
    targets = {n: value for n, value in enumerate(inside) if n not in invariant_places}
    body_block = _block(builder, instruction, body, (inside,), inside, targets)
    condition_block = _block(builder, instruction, condition, (inside,), inside, {})
    node = _control_node(builder, instruction, state_values, context)
    node.bodies = ((condition_block, trips + 1), (body_block, trips))
    index = builder.add(node)
    return tuple(
        value if number in invariant_places else dataclasses.replace(value, made_by=index)
        for number, value in enumerate(state_values)
    )


def _add_conditional(
    builder: BlockBuilder,
    instruction: Instruction,
    operands: Sequence[Values],
    context: LoweringContext,
    targets: Mapping[int, Value],
) -> Values:
    """Adds a conditional to a block and returns the arrays that its longest branch leaves.

    Args:
        builder: The block.
        instruction: The conditional.
        operands: The arrays of the predicate, then of every branch's parameter.
        context: The context of the computation that holds it.
        targets: Targets of the results, by their number.
    """
    outside = _outside_values(tuple(targets.values()))
    branches = [
        _block(
            builder,
            instruction,
            context.computations[name],
            (_outside_values(values),),
            (*_outside_values(values), *outside),
            dict(zip(targets, outside, strict=True)),
            own_results=True,
        )
        for name, values in zip(instruction.computations, operands[1:], strict=True)
    ]
    longest = max(range(len(branches)), key=lambda branch: branches[branch].cycles())
    builder.build_state.notes[
        f"The figures count the longest of the {len(branches)} branches of the conditional "
        f"{_where(instruction)}."
    ] = None
    longest_branch = branches[longest]
    inputs = [value for values in operands for value in values]
    node = _control_node(builder, instruction, inputs, context)
    node.bodies = ((longest_branch, 1),)
    node.idle_bodies = tuple(block for block in branches if block is not longest_branch)
    find = builder.build_state.buffers.find
    shared = {find(value.buffer) for value in outside}
    result_buffers = dict.fromkeys(find(value.buffer) for value in longest_branch.results)
    node.writes = tuple(buffer for buffer in result_buffers if buffer not in shared)
    index = builder.add(node)
    return tuple(dataclasses.replace(value, made_by=index) for value in longest_branch.results)


def _block(
    builder: BlockBuilder,
    caller: Instruction,
    computation: Computation,
    parameters: Sequence[Values],
    arguments: Sequence[Value],
    targets: Mapping[int, Value],
    *,
    own_results: bool = False,
) -> Block:
    """Returns the block of a called computation.

    Args:
        builder: The block that calls it.
        caller: The instruction that calls it.
        computation: The computation.
        parameters: The arrays of every parameter.
        arguments: Buffers of the caller.
        targets: Targets of the results, by their number.
        own_results: Whether the other results need memory of their own.
    """
    inner = builder.spawn(caller)
    results = inner.run(computation, parameters, targets)
    if own_results:
        results = tuple(
            inner.copy(value, name=f"{caller.name}.{number}")
            if value.made_by is None and number not in targets
            else value
            for number, value in enumerate(results)
        )
    return inner.finish(results, arguments, targets)


def _control_node(
    builder: BlockBuilder,
    instruction: Instruction,
    inputs: Sequence[Value],
    context: LoweringContext,
) -> Node:
    """Returns the node of a loop or conditional, with the cost of control itself."""
    placements = [value.placement for value in inputs]
    lowered = builder.build_state.lower(instruction, placements, context)
    return Node(
        instruction=instruction,
        lowered=lowered,
        reads=tuple(dict.fromkeys(value.buffer for value in inputs)),
        after={value.made_by for value in inputs if value.made_by is not None},
    )


def _outside_values(values: Values) -> Values:
    """Returns values as a called computation sees them: none of its nodes makes them."""
    return tuple(dataclasses.replace(value, made_by=None) for value in values)


def _where(instruction: Instruction) -> str:
    """Returns the location of an instruction, for notes."""
    if instruction.layer:
        return f"of layer '{instruction.layer}'"
    return f"'{instruction.op_name or instruction.name}'"


def _element(instruction: Instruction, values: Values, context: LoweringContext) -> Values:
    """Returns the arrays of one part of a tuple."""
    type_ = context.operand(instruction, 0).type
    if isinstance(type_, Array):
        raise ValueError(
            f"'{instruction.name}' takes an element of '{instruction.operands[0]}', which is not "
            f"a tuple. Received: {type_!r}."
        )
    index = instruction.attributes["tuple_index"]
    first = sum(map(control.array_count, type_.parts[:index]))
    return values[first : first + control.array_count(type_.parts[index])]
