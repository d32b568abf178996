"""Wide values of small sources are computed by each reader."""

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes import fusion, small_sources
from tests.compiler.passes.before_after import check, entry

LOSS = 'layer="loss"'
CLASSES = "classes = s32[4,9] iota(), dimensions={1}"


def module(inside):
    """Logits x and their labels, of which a loss makes `inside`."""
    return entry(
        f"""
        x = f32[4,9] parameter(0)
        labels = s32[4] parameter(1)
        wide = s32[4,9] broadcast(labels), dimensions={{0}}
        {inside}
        ROOT all = (f32[4,9], f32[4,9]) tuple(a, b)
        """
    )


ONE_HOT = f"""
    {CLASSES}
    same = pred[4,9] compare(wide, classes), direction=EQ, {LOSS}
    hot = f32[4,9] convert(same), {LOSS}
"""


def test_every_reader_has_its_own_labels():
    before = f"""
        {ONE_HOT}
        a = f32[4,9] multiply(hot, x), {LOSS}
        b = f32[4,9] subtract(x, hot), {LOSS}
    """
    after = f"""
        classes.vector = s32[9] iota(), dimensions={{0}}
        {ONE_HOT.replace(CLASSES, "classes = s32[4,9] broadcast(classes.vector), dimensions={1}")}
        same.for.a = pred[4,9] compare(wide, classes), direction=EQ, {LOSS}
        hot.for.a = f32[4,9] convert(same.for.a), {LOSS}
        a = f32[4,9] multiply(hot.for.a, x), {LOSS}
        same.for.b = pred[4,9] compare(wide, classes), direction=EQ, {LOSS}
        hot.for.b = f32[4,9] convert(same.for.b), {LOSS}
        b = f32[4,9] subtract(x, hot.for.b), {LOSS}
    """
    check(small_sources.run, module(before), module(after))
    fused = fusion.run(small_sources.run(parse(module(before)))).entry_computation.by_name()
    assert set(fused["a"].operands) == set(fused["b"].operands) == {"labels", "classes.vector", "x"}


def test_values_of_wide_operands_are_computed_once():
    inside = f"""
        hot = f32[4,9] tanh(x), {LOSS}
        a = f32[4,9] multiply(hot, x), {LOSS}
        b = f32[4,9] subtract(x, hot), {LOSS}
    """
    check(small_sources.run, module(inside), module(inside))


def test_other_layers_read_the_value():
    inside = f"""
        {ONE_HOT}
        a = f32[4,9] multiply(hot, x), {LOSS}
        b = f32[4,9] subtract(x, hot), layer="other"
    """
    check(small_sources.run, module(inside), module(inside))
