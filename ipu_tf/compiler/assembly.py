"""Compiles a module to the program of one IPU.

Places parameters, lowers instructions, orders nodes, and lays out the outcome in time: steps,
tensors, and the memory of every tile. Models one run: inputs come from the host at its beginning,
results other than new values of variables go back to the host; variables stay on the tiles.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence

from ipu_tf.base import spans
from ipu_tf.compiler.blocks import Block, Node, Value, Values
from ipu_tf.compiler.build import BlockBuilder
from ipu_tf.compiler.build_state import BuildState
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.emit import Emission, program_bytes
from ipu_tf.compiler.hlo import Array, Instruction, Module, TupleType
from ipu_tf.compiler.host_transfers import with_room
from ipu_tf.compiler.lowering.context import LoweringContext, TileBalance
from ipu_tf.compiler.lowering.lowered_instruction import LoweredInstruction
from ipu_tf.compiler.open_block import make_node
from ipu_tf.compiler.outlining import COPY_SHARES, outline
from ipu_tf.compiler.parameters import PASSING, STREAMED, place_parameters
from ipu_tf.planner.plan import OpShape, Plan
from ipu_tf.tile_program.errors import UnsupportedOpcodeError
from ipu_tf.tile_program.memory import tile_memory
from ipu_tf.tile_program.program import TileProgram

_LOG = logging.getLogger(__name__)


def build_program(
    module: Module,
    *,
    options: CompilerOptions,
    plans: Mapping[str, tuple[OpShape, Plan]],
) -> TileProgram:
    """Returns the program of a module as it stands, whether it fits or not.

    Args:
        module: The function, simplified.
        options: The chip, and options of the planner.
        plans: Plans that tile ops run, by the name of their TensorFlow op.

    Raises:
        IPUOutOfMemoryError: A single op does not fit, and `options` makes that an error.
        UnsupportedOpcodeError: Opcodes have no cost, and `options` makes that an error.
    """
    options, note = with_room(module, options)
    build_state = new_build_state(module, options, plans)
    if note:
        build_state.notes[note] = None
    with spans.span("plan and lower", "compile", program=module.name):
        stream_in, block = lower_entry(build_state, module)
    if build_state.unsupported:
        error = UnsupportedOpcodeError(module.name, build_state.unsupported)
        if options.unsupported == "raise":
            raise error
        _LOG.warning("%s", error)
    return _emitted(module, options, build_state, stream_in, block)


def _emitted(
    module: Module,
    options: CompilerOptions,
    build_state: BuildState,
    stream_in: Sequence[Node],
    block: Block,
) -> TileProgram:
    """Returns the steps, the tensors and the memory of a module's nodes.

    If the program does not fit, equal steps share their code at the cost of more copies, as far as
    that is needed.
    """
    in_order = [*stream_in, *(block.nodes[index] for index in block.order)]
    programs: list[TileProgram] = []
    for copy_share in COPY_SHARES if options.share_code else (None,):
        with spans.span("emit", "compile", program=module.name):
            if copy_share is not None:
                outline(in_order, build_state.buffers, options.target, copy_share)
            emission = Emission(build_state.buffers)
            for node in stream_in:
                emission.node(node)
            emission.block(block)
            tensors = emission.all_tensors()
        with spans.span("lay out memory", "compile", program=module.name):
            memory = tile_memory(
                tensors,
                steps=len(emission.steps),
                target=options.target,
                program_bytes=program_bytes(in_order, build_state.buffers, options.target),
            )
        programs.append(
            TileProgram(
                name=module.name,
                target=options.target,
                steps=tuple(emission.steps),
                tensors=tensors,
                memory=memory,
                unsupported={
                    opcode: tuple(layers) for opcode, layers in build_state.unsupported.items()
                },
                notes=tuple(build_state.notes),
                kept_activations=emission.kept_activations,
            )
        )
        if memory.fits:
            break
    return min(programs, key=lambda program: program.memory.overflow_bytes)


def new_build_state(
    module: Module,
    options: CompilerOptions,
    plans: Mapping[str, tuple[OpShape, Plan]],
) -> BuildState:
    """Returns the build state of a module's blocks; arguments as for `build_program`."""
    context = LoweringContext(
        options=options,
        plans=plans,
        computations=module.computations,
        instructions={},
        balance=TileBalance(options.target.tiles),
    )
    return BuildState(
        program=module.name,
        context=context.inside(module.entry_computation),
        updates_last=any(one.role in ("accumulator", "held") for one in module.parameters),
    )


def lower_entry(build_state: BuildState, module: Module) -> tuple[list[Node], Block]:
    """Returns the nodes that fetch the inputs first, and the ordered block of all others."""
    parameters = place_parameters(build_state, module)
    stream_in = [*_receive(module, parameters), *_stream_in(build_state, module, parameters)]
    builder = BlockBuilder(build_state)
    targets = {
        parameter.updated_by: parameters[number][0]
        for number, parameter in enumerate(module.parameters)
        if parameter.updated_by is not None
    }
    results = builder.run(module.entry_computation, parameters, targets)
    stays_on_chip = {*targets, *module.links}
    _add_stream_out(builder, tuple(v for n, v in enumerate(results) if n not in stays_on_chip))
    _add_send(builder, tuple(v for n, v in enumerate(results) if n in module.links))
    stays = [
        value
        for parameter, values in zip(module.parameters, parameters, strict=True)
        if parameter.role not in PASSING
        for value in values
    ]
    updates = sorted(targets)
    block = builder.finish(
        tuple(results[number] for number in updates),
        (*stays, *targets.values()),
        {place: targets[number] for place, number in enumerate(updates)},
    )
    return stream_in, block


def _stream_in(build_state: BuildState, module: Module, parameters: list[Values]) -> list[Node]:
    """Returns the node that brings all inputs from the host, if the module has any."""
    own_parameters = [
        (parameter, value)
        for parameter, values in zip(module.parameters, parameters, strict=True)
        if parameter.role in STREAMED
        for value in values
    ]
    if not own_parameters:
        return []
    types = tuple(_array_of(value) for _, value in own_parameters)
    infeed = Instruction(name="inputs", opcode="infeed", type=TupleType(types))
    lowered = build_state.lower(infeed, (), build_state.context)
    return [make_node(infeed, lowered, (), tuple(value.buffer for _, value in own_parameters))]


def _receive(module: Module, parameters: list[Values]) -> list[Node]:
    """Returns the node that stands for values from other IPUs, if there are any.

    It takes no time: transfers are between the stages of a pipeline, not within one.
    """
    received = [
        value.buffer
        for parameter, values in zip(module.parameters, parameters, strict=True)
        if parameter.role == "link"
        for value in values
    ]
    if not received:
        return []
    instruction = Instruction(name="received", opcode="recv", type=TupleType(()))
    return [make_node(instruction, LoweredInstruction(), (), tuple(received))]


def _add_send(builder: BlockBuilder, outputs: Values) -> None:
    """Adds the node that keeps values for other IPUs until everything has run."""
    if outputs:
        instruction = Instruction(name="sent", opcode="send", type=TupleType(()))
        builder.add(make_node(instruction, LoweredInstruction(), outputs, ()))


def _add_stream_out(builder: BlockBuilder, outputs: Values) -> None:
    """Adds the node that takes all outputs to the host."""
    if not outputs:
        return
    build_state = builder.build_state
    outfeed = Instruction(name="outputs", opcode="outfeed", type=TupleType(()))
    placements = [value.placement for value in outputs]
    lowered = build_state.lower(outfeed, placements, build_state.context)
    builder.add(make_node(outfeed, lowered, outputs, ()))


def _array_of(value: Value) -> Array:
    """Returns the type of an array as the host link sees it: its bytes."""
    return Array("u8", (value.placement.bytes,))
