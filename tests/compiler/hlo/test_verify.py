"""Modules that are not well formed are refused with the fault."""

import dataclasses

import pytest

from ipu_tf.compiler.hlo import InvalidModule, Parameter, parse, verify

GOOD = """
double {
  p = f32[2] parameter(0)
  ROOT q = f32[2] add(p, p)
}

ENTRY main {
  x = f32[2] parameter(0)
  y = f32[2] call(x), calls={double}
  r = f32[2,1] reshape(y)
  t = (f32[2], f32[2,1]) tuple(y, r)
  ROOT g = f32[2,1] get-tuple-element(t), tuple_index=1
}
"""


def test_a_good_module_passes():
    verify(parse(GOOD))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("q = f32", "x = f32", "'x' \\(parameter\\) of 'main' has the name of another"),
        ("call(x)", "call(r)", "'y' .* reads 'r', which does not come before it"),
        ("calls={double}", "calls={triple}", "calls 'triple', which does not exist"),
        (
            "r = f32[2,1]",
            "r = f32[3,1]",
            "is of type f32\\[3,1\\], but its operands give f32\\[2\\]",
        ),
        ("q = f32[2]", "q = f32[3]", "'q' \\(add\\)"),
        ("tuple_index=1", "tuple_index=0", "operands give f32\\[2\\]"),
        ("tuple_index=1", "tuple_index=2", "takes part 2 of"),
        ("t = (f32[2], f32[2,1])", "t = (f32[2])", "'t' \\(tuple\\)"),
        ("x = f32[2] parameter(0)", "x = f32[2] parameter(1)", "has parameters \\[1\\]"),
    ],
)
def test_what_is_wrong_is_named(old, new, message):
    with pytest.raises(InvalidModule, match=message):
        verify(parse(GOOD.replace(old, new)))


def test_entry_root_and_updates():
    module = parse(GOOD)
    with pytest.raises(InvalidModule, match="entry 'other' is not a computation"):
        verify(module.replace(entry="other"))
    with pytest.raises(InvalidModule, match="'main' has another name, 'other', in the module"):
        verify(module.replace(computations={"other": module.entry_computation}, entry="other"))
    rootless = dataclasses.replace(module.entry_computation, root="lost")
    with pytest.raises(InvalidModule, match="root 'lost' is not in 'main'"):
        verify(module.replace(computations=dict(module.computations, main=rootless)))
    updated = Parameter(name="w", role="weight", updated_by=1)
    with pytest.raises(InvalidModule, match="'w' takes its update from result 1, of 1 results"):
        verify(module.replace(parameters=(updated,)))
