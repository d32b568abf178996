"""Train steps of real networks, from what Keras traced to device programs."""

import time

import pytest

from ipu_tf.compiler import ordering
from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.task_schedule import peak_bytes, schedule
from ipu_tf.machine import target
from tests.compiler import modules
from tests.grids import mostly_slow

OPTIONS = CompilerOptions(target=target("bow"))
VARIABLES = ("weights", "optimizer_state", "state")


def program_of(name):
    return compile_program(modules.module(name), OPTIONS)


@pytest.mark.parametrize("name", mostly_slow(modules.NAMES, modules.FAST))
def test_every_network_compiles_and_fits(name):
    program = program_of(name)
    assert program.complete
    assert program.memory.fits
    assert program.cycles > 0
    assert all(0 <= t.first_step <= t.last_step < len(program.steps) for t in program.tensors)
    streamed = [step.opcode for step in program.steps if step.name in ("inputs", "outputs")]
    assert streamed[0] == "infeed"


@pytest.mark.parametrize("name", mostly_slow(modules.NAMES, modules.FAST))
def test_every_variable_is_on_tiles_once(name):
    module = modules.module(name)
    program = program_of(name)
    variables = {t.name: t for t in program.tensors if t.category in VARIABLES}
    kept = [p for p in module.parameters if p.role in ("weight", "optimizer_state", "state")]
    assert sorted(variables) == sorted({p.name for p in kept})
    assert all(tensor.always_live for tensor in variables.values())


@pytest.mark.parametrize("name", ["cifar10", "mixed_precision", "embedding"])
def test_new_values_of_variables_are_made_in_place(name):
    """Also in the branch of a conditional, as the updates under loss scaling are."""
    copies = [step.name for step in program_of(name).steps if step.name.endswith(".update")]
    variables = {p.name for p in modules.module(name).parameters if p.role == "weight"}
    assert [copy for copy in copies if copy.removesuffix(".update") in variables] == []


def test_a_slot_lies_like_its_weight():
    tensors = {tensor.name: tensor for tensor in program_of("cifar10").tensors}
    parameters = modules.module("cifar10").parameters
    slots = [p.name for p in parameters if p.role == "optimizer_state" and "kernel" in p.name]
    weights = {p.name for p in parameters if p.role == "weight"}
    footprints = {tensors[name].footprint for name in weights}
    assert slots
    assert all(tensors[name].footprint in footprints for name in slots)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("name", ["cifar10", "resnet", "transformer"])
def test_the_schedule_beats_the_order_of_the_trace(name, monkeypatch):
    peaks = []

    def recorded(graph):
        order = schedule(graph)
        given = range(len(graph.tasks))
        peaks.append((peak_bytes(graph, order), peak_bytes(graph, given)))
        return order

    monkeypatch.setattr(ordering, "schedule", recorded)
    module = simplify(modules.module(name))
    compile_program(module.replace(name="recorded"), OPTIONS)
    scheduled, given = peaks[-1]
    assert scheduled < given


def test_a_module_that_was_compiled_is_found_again():
    module = modules.module("mlp")
    first = compile_program(module, OPTIONS)
    begin = time.process_time()
    assert compile_program(module.replace(), OPTIONS) is first
    assert time.process_time() - begin < 5e-3
    assert compile_program(module, CompilerOptions(target=target("gc200"))) is not first
