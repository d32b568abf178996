"""Modules that differ in names alone have programs that differ in names alone."""

import dataclasses

import numpy as np
import pytest

from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.pipeline import equal_stages
from ipu_tf.compiler.pipeline.equal_stages import StageCompiler
from tests.compiler import modules
from tests.compiler.pipeline.cifar10_pipeline import OPTIONS


@pytest.fixture(scope="module")
def module():
    return simplify(modules.text("cifar10"))


def other(name):
    return f"another_{name}" if name else ""


def with_other_names(module):
    """The module with other names of everything."""

    def instruction(one):
        attributes = {
            key: other(value) if value in module.computations else value
            for key, value in one.attributes.items()
            if isinstance(value, str)
        }
        return one.replace(
            name=other(one.name),
            operands=tuple(map(other, one.operands)),
            computations=tuple(map(other, one.computations)),
            attributes={**one.attributes, **attributes},
            op_name=other(one.op_name),
            layer=other(one.layer),
        )

    computations = {
        other(name): dataclasses.replace(
            computation,
            name=other(name),
            instructions=tuple(map(instruction, computation)),
            root=other(computation.root),
        )
        for name, computation in module.computations.items()
    }
    parameters = tuple(
        dataclasses.replace(one, name=other(one.name), layer=other(one.layer))
        for one in module.parameters
    )
    return module.replace(
        name="another",
        entry=other(module.entry),
        computations=computations,
        parameters=parameters,
    )


@pytest.fixture
def built(monkeypatch):
    """Names of the modules that are compiled."""
    names = []

    def build(module, **arguments):
        names.append(module.name)
        return build_program(module, **arguments)

    monkeypatch.setattr(equal_stages, "build_program", build)
    return names


def test_equal_modules_are_compiled_once(module, built):
    compiler, renamed = StageCompiler(OPTIONS, {}), with_other_names(module)
    compiler.program(module)
    found = compiler.program(renamed)
    assert built == [module.name]
    expected = build_program(renamed, options=OPTIONS, plans={})
    assert found.name == expected.name == "another"
    assert found.steps == expected.steps
    assert found.tensors == expected.tensors
    np.testing.assert_array_equal(found.memory.peak_tile_bytes, expected.memory.peak_tile_bytes)


def test_modules_that_differ_in_more_than_names_are_not(module, built):
    compiler = StageCompiler(OPTIONS, {})
    compiler.program(module)
    roles = [dataclasses.replace(one, role="state") for one in module.parameters]
    for changed in (
        module.replace(parameters=tuple(roles)),
        module.replace(parameters=tuple(one for one in module.parameters)),
    ):
        compiler.program(changed)
    assert built == [module.name] * 2  # The last one is equal to the first.


def test_the_plan_of_a_tile_op_counts(module):
    compiler = StageCompiler(OPTIONS, {})
    name = next(one.op_name for one in module.entry_computation if one.op_name)
    names = equal_stages._Names(
        values=equal_stages._Numbers(),
        layers=equal_stages._Numbers(),
        op_names=equal_stages._Numbers(),
    )
    without = list(compiler._parts(module, names))
    planned = StageCompiler(OPTIONS, {name: "a plan"})
    assert list(planned._parts(module, names)) != without


@pytest.mark.parametrize(
    ("name", "expected"),
    [("dot.1", "add.2"), ("dot.1.update", "add.2.update"), ("dot.3", "dot.3"), ("out", "out")],
)
def test_values_named_after_others(name, expected):
    assert equal_stages._counterpart(name, {"dot.1": "add.2"}) == expected
