"""Each layer casts a value that several of them read; casts to narrower types stay one."""

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes import local_casts
from tests.compiler.passes.before_after import check, entry

ONE, OTHER = 'phase="backward", layer="net/one"', 'phase="backward", layer="net/other"'
TYPES = "(f32[8,4], f32[8,4], f32[8,4])"


def module(cast, in_other="g", source="f16[8,4]", copy=""):
    """A gradient x that layers `one` and `other` read, cast by `one`."""
    return entry(
        f"""
        x = {source} parameter(0)
        g = {cast}, {ONE}
        a = f32[8,4] negate(g), {ONE}
        {copy}
        b = f32[8,4] multiply({in_other}, {in_other}), {OTHER}
        c = f32[8,4] add(b, {in_other}), {OTHER}
        ROOT all = {TYPES} tuple(a, b, c)
        """
    )


def test_a_layer_that_reads_a_wider_cast_has_its_own():
    cast = "f32[8,4] convert(x)"
    own = f"g.cast1 = f32[8,4] convert(x), {OTHER}"
    check(local_casts.run, module(cast), module(cast, "g.cast1", copy=own))


def test_casts_to_the_same_width_or_of_integers_stay():
    for source in ("s32[8,4]", "f32[8,4]"):
        same = module("f32[8,4] convert(x)", source=source)
        check(local_casts.run, same, same)


def test_the_result_of_the_module_reads_the_first_cast():
    text = entry(
        f"""
        x = f16[8] parameter(0)
        g = f32[8] convert(x), {ONE}
        ROOT r = (f32[8]) tuple(g)
        """
    )
    assert [i.name for i in local_casts.run(parse(text)).entry_computation] == ["x", "g", "r"]
