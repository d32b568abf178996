"""What a prediction makes of statistics and weights alone is loaded in their place."""

import dataclasses

import keras
import pytest

import ipu_tf
from ipu_tf.compiler.hlo import Parameter, parse, verify
from ipu_tf.compiler.passes.recognition import statistics_folding
from tests.compiler.passes.before_after import entry

TEXT = entry("""
 v = f16[4] parameter(0)
 x = f16[4] parameter(1)
 w = f16[4] parameter(2)
 b = f16[4] parameter(3)
 scale = f16[4] rsqrt(v)
 filter = f16[4] multiply(w, scale)
 product = f16[4] multiply(x, filter)
 sum = f16[4] add(product, b)
 ROOT y = (f16[4], f16[4]) tuple(sum, w)
""")
ROLES = {"v": "state", "x": "input", "w": "weight", "b": "weight"}


def module(updated_by=None, **roles):
    found = {**ROLES, **roles}
    named = [Parameter(name=name, role=role) for name, role in found.items()]
    named[2] = dataclasses.replace(named[2], updated_by=updated_by)
    return parse(TEXT).replace(parameters=tuple(named))


def test_results_of_variables_alone_become_parameters():
    before = module()
    after = statistics_folding.run(before)
    verify(after)
    assert [(one.name, one.role) for one in after.parameters] == [
        ("x", "input"),
        ("w", "weight"),  # It is a result, too.
        ("b", "weight"),
        ("filter", "weight"),
    ]
    opcodes = {instruction.name: instruction.opcode for instruction in after.entry_computation}
    assert "scale" not in opcodes
    assert opcodes["filter"] == "parameter"
    assert opcodes["product"] == "multiply"
    assert statistics_folding.run(after) is after


@pytest.mark.parametrize("changes", [{"updated_by": 1}, {"v": "weight"}, {"w": "input"}])
def test_steps_that_update_variables_and_results_of_inputs_stay(changes):
    before = module(**changes)
    opcodes = [one.opcode for one in statistics_folding.run(before).entry_computation]
    assert opcodes.count("multiply") == 2


@pytest.mark.slow
def test_calls_of_a_prediction_do_not_scale_filters():
    def model():
        inputs = keras.Input((8, 8, 16))
        x = keras.layers.Conv2D(32, 3, use_bias=False)(inputs)
        return keras.Model(inputs, keras.layers.BatchNormalization()(x))

    (program,) = ipu_tf.estimate(model, batch_size=2, training=False, insights=False).programs
    names = [step.name for step in program.device.steps]
    assert not [name for name in names if "folded.filter" in name]
    assert len([name for name in names if name.startswith("convolution")]) == 1
