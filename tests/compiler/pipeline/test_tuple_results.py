"""A tuple that is a result of a step belongs to the stage that makes its parts."""

from ipu_tf.compiler.hlo import parse, verify
from ipu_tf.compiler.pipeline.assignment import assign
from ipu_tf.compiler.pipeline.split import cut, prepared, stage_module

STEP = """
parameter 0 input "x"
ENTRY main {
  x = f32[4] parameter(0)
  a = f32[4] negate(x), layer="net/a"
  b = f32[4] exponential(a), layer="net/b"
  inner = (f32[4], f32[4]) tuple(a, b), layer="net/b"
  list = (f32[4], (f32[4], f32[4])) tuple(b, inner), layer="net/b"
  ROOT out = (f32[4], (f32[4], (f32[4], f32[4]))) tuple(a, list)
}
"""


def test_its_parts_cross_to_the_stage_that_packs_it():
    module = prepared(parse(STEP))
    assignment = assign(module, {"net/a": 0, "net/b": 1}, 2)
    assert {"a": 0, "b": 1, "inner": 1, "list": 1}.items() <= assignment.stage_of.items()
    found = cut(module, assignment)
    assert [(c.name, c.source, c.destination) for c in found.crossings] == [("a", 0, 1)]
    stages = [stage_module(found, stage, ()) for stage in range(2)]
    for stage in stages:
        verify(stage)
    roots = [s.entry_computation.by_name()[s.entry_computation.root] for s in stages]
    assert [root.operands for root in roots] == [("a",), ("list",)]
