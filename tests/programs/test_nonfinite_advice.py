"""What to do about a value that is not finite."""

import pytest

from ipu_tf.programs.nonfinite import NonFinite, ValueSummary

LOG = "keep its operand above 0"
STEPS = "its operands grew too large: lower the learning rate"
FLOAT32 = "hold it in float32: the largest float16 is 65,504"
CASES = {
    "log of zero": (("division by zero", "Log"), {}, LOG),
    "log in float16": (("division by zero", "Log"), {"dtype": "float16"}, LOG),
    "division": (("invalid operation", "RealDiv"), {}, "keep what it divides by away from 0"),
    "negative root": (("invalid operation", "Sqrt"), {}, "keep its operand at or above 0"),
    "gradient of a root": (("overflow", "SqrtGrad"), {}, "add an epsilon under the root"),
    "softmax": (("invalid operation", "Softmax"), {}, "mask with a large negative number"),
    "difference": (("invalid operation", "Sub"), {}, "infinities minus infinities"),
    "product": (("invalid operation", "MatMul"), {"infinities": 1}, "infinities minus infinities"),
    "exponential": (("overflow", "Exp"), {}, "subtract the largest value first"),
    "weights": (("overflow", "MatMul"), {"high": 1e30}, STEPS),
    "cast": (("overflow", "Cast"), {"dtype": "float16", "high": 1e5}, FLOAT32),
    "sum of float16": (("overflow", "Sum"), {"dtype": "float16"}, FLOAT32),
    "float16": (("overflow", "MatMul"), {"dtype": "float16"}, "compute this layer in float32"),
    "gradient of float16": (
        ("overflow", "MatMul"),
        {"dtype": "float16", "op": "gradient_tape/net/dense/MatMul"},
        "lower the loss scale",
    ),
    "loss in float16": (
        ("overflow", "Mean"),
        {"dtype": "float16", "layer": "loss"},
        "compute the loss in float32",
    ),
    "outside": (("from outside", ""), {"op": ""}, "look at the data of this run"),
}


def underflow(**values):
    result = ValueSummary(name="result 0", dtype="float16", shape=(9,), low=0.0, high=1.0)
    place = {"op": "gradient_tape/net/Mul", "op_type": "Mul", "results": (result,)}
    numbers = {"position": (3,), "around": (0.0, 1e-9), "lost": 5}
    return NonFinite(program="f", run=2, fault="underflow", **place, **numbers, **values)


def test_a_larger_loss_scale_keeps_small_gradients():
    found = underflow(factor=256.0, kept=4, loss_scale=1024.0)
    assert str(found) == (
        "Program 'f', run 2, loss scale 1,024: the first gradient that flushes to zero is of op "
        "'gradient_tape/net/Mul' (Mul): 5 of its values are 0 and should not be. Operands: none. "
        "Result: result 0 float16[9]: 0 to 1; the first is at [3], where 0, 1e-09 should be. To do:"
        " raise the loss scale: 256 times as large, 262,144, it keeps 4 of them and no gradient of"
        " this run overflows."
    )
    assert "times as large it keeps 4" in underflow(factor=256.0, kept=4).what_to_do
    assert underflow().what_to_do.startswith("compute this layer in float32: with a larger")


def test_what_loss_scaling_handles_needs_nothing():
    operand = ValueSummary(name="x", dtype="float16", shape=(), low=1.0, high=1.0)
    found = NonFinite(
        program="f",
        run=1,
        fault="overflow",
        op="gradients/Mul",
        op_type="Mul",
        results=(operand,),
        handled=True,
        loss_scale=32768.0,
    )
    assert "loss scale 32,768: the first gradient that overflows is of op 'gradients/Mul'" in str(
        found
    )
    assert found.what_to_do.startswith("nothing: loss scaling has skipped the update")


@pytest.mark.parametrize("case", CASES)
def test_advice_fits_the_operation(case):
    (fault, op_type), given, beginning = CASES[case]
    values = {"op": "net/op", "dtype": "float32", "layer": "", "high": 2.0, "infinities": 0} | given
    dtype, high = values["dtype"], values["high"]
    operand = ValueSummary(
        name="x", dtype=dtype, shape=(2,), low=-1.0, high=high, infinities=values["infinities"]
    )
    found = NonFinite(
        program="f",
        run=1,
        fault=fault,
        op=values["op"],
        op_type=op_type,
        layer=values["layer"],
        operands=(operand,),
        results=(operand,),
    )
    assert found.what_to_do.startswith(beginning)
    assert str(found).endswith(f" To do: {found.what_to_do}.")
