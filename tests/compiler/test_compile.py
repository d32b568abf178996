"""Whole programs: every step finds what it reads, tensors add up, large modules take seconds."""

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipu_tf.compiler.assembly import build_program, lower_entry, new_build_state
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module, Parameter, TupleType
from ipu_tf.machine import target
from ipu_tf.tile_program.layouts.footprint import bytes_on_tile
from ipu_tf.tile_program.memory import CATEGORIES

pytestmark = pytest.mark.usefixtures("simple_lowering")

CHIP = target("bow", 8)
OPTIONS = CompilerOptions(target=CHIP)
SHAPES = [Array("f32", (16,)), Array("f32", (40,))]


def module_of(instructions, parameters, root):
    entry = Computation(name="main", instructions=tuple(instructions), root=root)
    return Module(
        name="step", computations={"main": entry}, entry="main", parameters=tuple(parameters)
    )


@st.composite
def modules(draw):
    """Random straight-line functions with variables, some of which get new values."""
    instructions, parameters = [], []
    for number in range(draw(st.integers(1, 4))):
        role = draw(st.sampled_from(["weight", "state", "input"]))
        parameters.append(Parameter(name=f"variable {number}", role=role))
        instructions.append(
            Instruction(
                name=f"p{number}",
                opcode="parameter",
                type=draw(st.sampled_from(SHAPES)),
                attributes={"parameter_number": number},
            )
        )
    for number in range(draw(st.integers(0, 10))):
        operand = draw(st.sampled_from(instructions))
        alike = [i for i in instructions if i.type == operand.type]
        opcode = draw(st.sampled_from(["add", "negate", "reverse", "reshape", "constant"]))
        operands = {
            "add": (operand.name, draw(st.sampled_from(alike)).name),
            "constant": (),
        }.get(opcode, (operand.name,))
        instructions.append(
            Instruction(name=f"i{number}", opcode=opcode, type=operand.type, operands=operands)
        )
    parts = [draw(st.sampled_from(instructions)) for _ in range(draw(st.integers(0, 3)))]
    for number, parameter in enumerate(parameters):
        if parameter.role == "input" or not draw(st.booleans()):
            continue
        alike = [i for i in instructions if i.type == instructions[number].type]
        parts.append(draw(st.sampled_from(alike)))
        parameters[number] = Parameter(
            name=parameter.name, role=parameter.role, updated_by=len(parts) - 1
        )
    root = Instruction(
        name="root",
        opcode="tuple",
        type=TupleType(tuple(part.type for part in parts)),
        operands=tuple(part.name for part in parts),
    )
    return module_of([*instructions, root], parameters, "root")


def symbols_of(module):
    """The value of every instruction, as the name of the instruction that makes it."""
    found = {}
    for instruction in module.entry_computation:
        is_view = instruction.opcode == "reshape"
        found[instruction.name] = found[instruction.operands[0]] if is_view else instruction.name
    return found


@given(modules())
def test_every_step_reads_what_it_should_and_variables_end_with_their_new_values(module):
    """Runs the ordered nodes on memory that holds names of values instead of numbers."""
    entry = module.entry_computation
    build_state = new_build_state(module, OPTIONS, {})
    _, block = lower_entry(build_state, module)
    symbols, find = symbols_of(module), build_state.buffers.find
    root = entry.instructions[-1]
    new = {parameter.updated_by: parameter.name for parameter in module.parameters}
    new.pop(None, None)
    names = {parameter.name: f"p{n}" for n, parameter in enumerate(module.parameters)}
    holds, parameter_buffers = {}, {}
    for number in range(len(build_state.buffers)):
        buffer = build_state.buffers[number]
        if buffer.name in names or buffer.category == "constants":
            holds[find(number)] = names.get(buffer.name, buffer.name)
            parameter_buffers.setdefault(buffer.name, number)
    assert sorted(block.order) == list(range(len(block.nodes)))
    for index in block.order:
        node = block.nodes[index]
        read = {holds[find(buffer)] for buffer in node.reads}
        written = node.instruction.name
        if node.instruction.opcode == "copy":
            (written,) = read
        elif node.instruction.opcode == "outfeed":
            assert read == {symbols[name] for n, name in enumerate(root.operands) if n not in new}
        else:
            assert read == {symbols[name] for name in node.instruction.operands}
        for buffer in (*node.writes, *([] if node.fills is None else [node.fills])):
            holds[find(buffer)] = written
    for number, parameter in new.items():
        place = parameter_buffers[parameter]
        assert holds[find(place)] == symbols[root.operands[number]]


def program_of(module, options=OPTIONS):
    return build_program(module, options=options, plans={})


@given(modules())
def test_tensors_and_code_add_up_to_the_memory_of_every_tile(module):
    program = program_of(module)
    memory, tiles = program.memory, CHIP.tiles
    for category in CATEGORIES:
        kept = [t for t in program.tensors if t.always_live and t.category == category]
        padded = sum(t.footprint.tiles * t.footprint.tile_bytes for t in kept)
        if category in ("vertex_state", "vertex_code", "exchange_code", "stack"):
            assert kept == []
        else:
            assert memory.always_live[category].sum() == padded
        assert padded >= sum(t.bytes for t in kept)
    at_peak = [
        t
        for t in program.tensors
        if not t.always_live and t.first_step <= memory.peak_step <= t.last_step
    ]
    for tile in range(tiles):
        passing = sum(bytes_on_tile(t.footprint, tile, tiles) for t in at_peak)
        always = sum(int(used[tile]) for used in memory.always_live.values())
        assert memory.peak_tile_bytes[tile] == passing + always
    if program.steps:
        assert memory.max_tile_bytes.max() == memory.peak_tile_bytes.max()


@given(modules())
def test_equal_modules_give_equal_programs(module):
    one, other = program_of(module), program_of(module)
    assert one.steps == other.steps
    assert one.tensors == other.tensors
    np.testing.assert_array_equal(one.memory.live_bytes, other.memory.live_bytes)


def layered(layers, width=64):
    """A training step of a chain of layers, with momentum: some 12 instructions a layer."""
    array, state = Array("f32", (width, width)), Array("f32", (width, width))
    instructions, parameters, updates = [], [Parameter(name="x", role="input")], []

    def add(name, opcode, *operands, layer="", phase="forward", **attributes):
        instructions.append(
            Instruction(
                name=name,
                opcode=opcode,
                type=array,
                operands=operands,
                attributes=attributes,
                layer=layer,
                phase=phase,
            )
        )
        return name

    value = add("x", "parameter", parameter_number=0)
    for layer in range(layers):
        for kind, role in (("w", "weight"), ("m", "optimizer_state")):
            add(f"{kind}{layer}", "parameter", parameter_number=len(parameters))
            parameters.append(
                Parameter(name=f"net/{layer}/{kind}", role=role, layer=f"net/{layer}")
            )
    for layer in range(layers):
        dot = add(f"dot{layer}", "dot", value, f"w{layer}", layer=f"net/{layer}")
        value = add(f"act{layer}", "tanh", dot, layer=f"net/{layer}")
    gradient = value
    for layer in reversed(range(layers)):
        where = {"layer": f"net/{layer}", "phase": "backward"}
        square = add(f"sq{layer}", "multiply", f"act{layer}", f"act{layer}", **where)
        inner = add(f"in{layer}", "multiply", gradient, square, **where)
        before = f"act{layer - 1}" if layer else "x"
        change = add(f"dw{layer}", "dot", before, inner, **where)
        gradient = add(f"dx{layer}", "dot", inner, f"w{layer}", **where)
        where["phase"] = "update"
        scaled = add(f"sc{layer}", "multiply", f"m{layer}", f"m{layer}", **where)
        momentum = add(f"mn{layer}", "add", scaled, change, **where)
        updates += [add(f"wn{layer}", "subtract", f"w{layer}", momentum, **where), momentum]
    for layer in range(layers):
        for offset, kind in enumerate("wm"):
            number = 1 + 2 * layer + offset
            place = 2 * (layers - 1 - layer) + offset
            parameters[number] = Parameter(
                name=parameters[number].name,
                role=parameters[number].role,
                layer=parameters[number].layer,
                updated_by=place,
            )
            assert parameters[number].name.endswith(kind)
    root = Instruction(
        name="root",
        opcode="tuple",
        type=TupleType((state,) * len(updates)),
        operands=tuple(updates),
    )
    return module_of([*instructions, root], parameters, "root")


def test_a_training_step_keeps_variables_in_place_and_drops_gradients_early():
    program = program_of(layered(20))
    assert [step.name for step in program.steps if step.opcode == "copy"] == []
    place = {step.name: index for index, step in enumerate(program.steps)}
    for layer in range(20):
        gradient = place[f"dw{layer}"]
        assert place[f"wn{layer}"] - gradient <= 8
    assert program.complete
    assert program.notes == ()


@pytest.mark.slow
def test_a_module_of_twelve_thousand_instructions_compiles_in_seconds():
    module = layered(1000)
    assert len(module.entry_computation.instructions) > 12_000 - 1000
    begin = time.process_time()
    program_of(module, CompilerOptions(target=target("bow")))
    assert time.process_time() - begin < 5.0


@pytest.mark.parametrize("role", ["input", "host"])
def test_what_comes_from_the_host_is_streamed_first_and_given_back(role):
    array = Array("f32", (16,))
    instructions = [
        Instruction(name="x", opcode="parameter", type=array, attributes={"parameter_number": 0}),
        Instruction(name="y", opcode="reverse", type=array, operands=("x",)),
        Instruction(name="z", opcode="reverse", type=array, operands=("y",)),
    ]
    program = program_of(module_of(instructions, [Parameter(name="x", role=role)], "z"))
    assert [step.opcode for step in program.steps] == ["infeed", "reverse", "reverse", "outfeed"]
    (x,) = [tensor for tensor in program.tensors if tensor.name == "x"]
    assert (x.category, x.always_live, x.first_step, x.last_step) == ("inputs", False, 0, 1)


def test_a_captured_tensor_is_a_constant():
    array = Array("f32", (16,))
    instructions = [
        Instruction(name="x", opcode="parameter", type=array, attributes={"parameter_number": 0}),
        Instruction(name="y", opcode="negate", type=array, operands=("x",)),
    ]
    program = program_of(module_of(instructions, [Parameter(name="table", role="constant")], "y"))
    (table,) = [tensor for tensor in program.tensors if tensor.name == "table"]
    assert (table.category, table.always_live) == ("constants", True)
    assert [step.opcode for step in program.steps] == ["negate", "outfeed"]
