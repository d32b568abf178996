"""The backward pass computes cheap values again, where fewer bytes are kept for it then."""

import pytest

from ipu_tf.compiler.hlo import parse, to_text
from ipu_tf.compiler.passes import recomputation
from tests.compiler.passes.before_after import check, entry

BACK = 'phase="backward", layer="net/norm"'


def module(forward, backward, gradient="f32[8,4]"):
    """A batch x that `forward` makes d of and reads it, and the gradient g of what it leads to."""
    return entry(
        f"""
        x = f32[8,4] parameter(0)
        m = f32[4] parameter(1)
        g = {gradient} parameter(2)
        y = f32[8,4] exponential(x)
        {forward}
        z = f32[8,4] tanh(d)
        kept = f32[8,4] multiply(y, g), {BACK}
        {backward}
        ROOT all = (f32[8,4], f32[8,4], f32[8,4]) tuple(z, kept, b)
        """
    )


CENTRED = "w = f32[8,4] broadcast(m), dimensions={1}\n d = f32[8,4] subtract(y, w)"


def test_a_difference_is_computed_again_with_its_views():
    backward = f"b = f32[8,4] multiply(d, g), {BACK}"
    again = f"""
        d.again.b = f32[8,4] subtract(y, w), {BACK}
        b = f32[8,4] multiply(d.again.b, g), {BACK}
    """
    check(recomputation.run, module(CENTRED, backward), module(CENTRED, again))


def test_every_reader_computes_it_for_itself():
    backward = f"""
        a = f32[8,4] negate(d), {BACK}
        b = f32[8,4] multiply(d, a), {BACK}
    """
    again = f"""
        d.again.a = f32[8,4] subtract(y, w), {BACK}
        a = f32[8,4] negate(d.again.a), {BACK}
        d.again.b = f32[8,4] subtract(y, w), {BACK}
        b = f32[8,4] multiply(d.again.b, a), {BACK}
    """
    check(recomputation.run, module(CENTRED, backward), module(CENTRED, again))


def test_casts_are_computed_again_for_what_is_computed_of_them():
    forward = """
        half = f16[8,4] tanh(x)
        c = f32[8,4] convert(half)
        w = f32[8,4] broadcast(m), dimensions={1}
        d = f32[8,4] subtract(c, w)
        e = f32[8,4] tanh(c)
    """
    backward = f"""
        a = f32[8,4] multiply(c, g), {BACK}
        b = f32[8,4] multiply(d, a), {BACK}
    """
    again = f"""
        c.again.a = f32[8,4] convert(half), {BACK}
        a = f32[8,4] multiply(c.again.a, g), {BACK}
        c.again.b = f32[8,4] convert(half), {BACK}
        d.again.b = f32[8,4] subtract(c.again.b, w), {BACK}
        b = f32[8,4] multiply(d.again.b, a), {BACK}
    """
    check(recomputation.run, module(forward, backward), module(forward, again))


@pytest.mark.parametrize(
    ("forward", "backward"),
    [
        # More would be kept than now.
        ("t = f32[8,4] tanh(x)\n d = f32[8,4] add(t, y)", "d, g"),
        # It takes long to compute.
        ("d = f32[8,4] divide(y, x)", "d, g"),
        # Nothing in the backward pass reads it.
        (CENTRED, "y, g"),
        # A chain would be computed from its beginning.
        (
            "c = f32[8,4] add(y, x)\n n = f32[8,4] tanh(c)\n d = f32[8,4] add(c, x)\n"
            f" k = f32[8,4] multiply(c, g), {BACK}",
            "d, k",
        ),
    ],
    ids=["bytes", "cycles", "readers", "chain"],
)
def test_the_rest_is_kept(forward, backward):
    before = parse(module(forward, f"b = f32[8,4] multiply({backward}), {BACK}"))
    after = to_text(recomputation.run(before))
    assert "d.again" not in after


@pytest.mark.parametrize(("role", "again"), [("weight", True), ("input", False)])
def test_narrow_copies_of_what_stays_are_made_again(role, again):
    """An input of twice the bytes would have to stay for it."""
    text = f"""
        parameter 0 {role} "w"
        ENTRY main {{
          w = f32[8,4] parameter(0)
          d = f16[8,4] convert(w)
          z = f16[8,4] tanh(d)
          b = f16[8,4] negate(d), {BACK}
          ROOT all = (f16[8,4], f16[8,4]) tuple(z, b)
        }}
    """
    assert ("d.again.b" in to_text(recomputation.run(parse(text)))) == again


def test_what_only_the_backward_pass_reads_stays_where_it_is():
    text = module(
        "d = f32[8,4] negate(y)\n e = f32[8,4] negate(x)", f"b = f32[8,4] add(e, g), {BACK}"
    )
    assert to_text(recomputation.run(parse(text))) == to_text(parse(text))
