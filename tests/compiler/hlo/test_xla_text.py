"""HLO text as XLA prints it gives the modules of the protos."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import UnsupportedType, from_proto, verify
from ipu_tf.compiler.hlo.text import ParseError
from ipu_tf.compiler.hlo.xla_text import parse_xla
from ipu_tf.internals.tensorflow import HloModuleProto

X = tf.ones((2, 8, 8, 3))


def train(x, w):
    with tf.GradientTape() as tape:
        tape.watch(w)
        y = tf.nn.relu(tf.nn.conv2d(x, w, [1, 2, 2, 1], "SAME", dilations=1))
        y = tf.nn.max_pool2d(y, 2, 2, "VALID")
        loss = tf.reduce_mean(tf.nn.softmax(tf.reshape(y, (2, -1))) ** 2)
    return w - 0.1 * tape.gradient(loss, w)


def gathered(table, rows):
    table = tf.tensor_scatter_nd_update(table, rows[:, None], tf.gather(table, rows) * 2)
    return tf.sort(table[1:5:2], axis=0), tf.pad(table, [[1, 2], [0, 0]]), table[::-1]


def looped(x):
    return tf.while_loop(lambda n, _: n < 5, lambda n, y: (n + 1, tf.matmul(y, y)), (0, x))[1]


def branched(x, flag):
    return tf.cond(flag[0] > 0, lambda: tf.sin(x), lambda: tf.cos(x) + tf.constant([1.5, -2.0]))


def solved(x):
    chol = tf.linalg.cholesky(x + 4.0 * tf.eye(4))
    return tf.linalg.triangular_solve(chol, x, adjoint=True), tf.range(4), tf.concat([x, x], 0)


CASES = {
    "training": (train, (X, tf.ones((3, 3, 3, 4)))),
    "gather and scatter": (gathered, (tf.ones((6, 3)), tf.constant([1, 2]))),
    "loop": (looped, (tf.ones((4, 4)),)),
    "conditional": (branched, (tf.ones((2,)), tf.constant([1]))),
    "linear algebra": (solved, (tf.ones((4, 4)),)),
    "float16": (lambda x: tf.einsum("bij,bjk->bik", x, x), (tf.ones((2, 4, 4), tf.float16),)),
    "norm": (
        lambda x: tf.compat.v1.nn.fused_batch_norm(x, tf.ones(3), tf.zeros(3), is_training=True)[0],
        (X,),
    ),
}


def compiled(name):
    function, arguments = CASES[name]
    ir = tf.function(function, jit_compile=True).experimental_get_compiler_ir(*arguments)
    return ir(stage="hlo"), HloModuleProto.FromString(ir(stage="hlo_serialized"))


def plain(module, known=None):
    """A module as values that compare; the order of its instructions does not matter.

    Literals are lists, and left out where `known`, the module of a text, has none: XLA prints
    "{...}" for large ones.
    """

    def attributes(computation, instruction):
        found = dict(instruction.attributes)
        if isinstance(found.get("literal"), np.ndarray):
            literal = found.pop("literal")
            other = known and known.computations[computation].by_name()[instruction.name]
            if other is None or "literal" in other.attributes:
                found["literal"] = literal.dtype.str, literal.tolist()
        return found

    return (
        module.name,
        module.entry,
        module.parameters,
        {
            c.name: (
                c.root,
                {i.name: dataclasses.replace(i, attributes=attributes(c.name, i)) for i in c},
            )
            for c in module.computations.values()
        },
    )


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("name", CASES)
def test_the_text_gives_the_module_of_the_proto(name):
    text, proto = compiled(name)
    module = parse_xla(text)
    verify(module)
    assert plain(module) == plain(from_proto(proto), known=module)


JAX = """\
HloModule jit_step, input_output_alias={ {0}: (1, {}, may-alias), {1}: (2, {}, must-alias) }, \
entry_computation_layout={(f32[4,8]{1,0}, f32[8,2]{1,0}, f32[2]{0})->(f32[8,2]{1,0}, f32[2]{0})}

%fused (p: f32[4,2], q: f32[2]) -> f32[4,2] {
  %p = f32[4,2]{1,0:T(8,128)} parameter(0)
  %q = f32[2]{0} parameter(1)
  %b = f32[4,2]{1,0} broadcast(%q), dimensions={1}
  ROOT %add = f32[4,2]{1,0} add(%p, %b)
}

add_region {
  p = f32[] parameter(0)
  q = f32[] parameter(1)
  ROOT s = f32[] add(p, q)
}

ENTRY main.9 {
  x.1 = f32[4,8]{1,0} parameter(0), sharding={replicated}
  w.2 = f32[8,2]{1,0} parameter(1)
  b.3 = f32[2]{0} parameter(2)
  dot.4 = f32[4,2]{1,0} dot(x.1, w.2), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(step)/jit(main)/Dense_0/dot_general" source_file="a \\"b\\".py"}
  f = f32[4,2]{1,0} fusion(dot.4, b.3), kind=kLoop, calls=%fused
  zero = f32[] constant(0)
  sum = f32[2]{0} reduce(f, zero), dimensions={0}, to_apply=add_region
  g = f32[8,2]{1,0} dot(x.1, f), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  ROOT t = (f32[8,2]{1,0}, /*index=1*/f32[2]{0}) tuple(g, sum)
}
"""


def test_a_dump_of_jax_is_read_and_costed():
    module = parse_xla(JAX)
    verify(module)
    assert [p.updated_by for p in module.parameters] == [None, 0, 1]
    by_name = module.entry_computation.by_name()
    assert by_name["f"].opcode == "call"
    assert by_name["f"].computations == ("fused",)
    assert by_name["dot.4"].op_name == "jit(step)/jit(main)/Dense_0/dot_general"
    assert [i.name for i in module.computations["add_region"]] == ["p.1", "q.1", "s"]
    program = compile_program(module, CompilerOptions(), samples_per_run=4)
    assert [step.opcode for step in program.steps].count("dot") == 2
    assert program.cycles > 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "A module in HLO text begins with 'HloModule' and has a computation marked ENTRY."),
        ("HloModule a\n", "as_text"),
        ("HloModule \n", "Line 1 is no line of a module in HLO text: A module has a name"),
        ("HloModule a\nf {\n}\n", "Line 3 is no line .*: Computation 'f' is empty"),
        (
            JAX[: JAX.index("  f = ")],
            "ends at line 20, inside of computation 'main.9'. It is incom",
        ),
        (JAX.replace("dot(x.1", "dot(y.1"), "Line 20 is no line of a module in HLO text: 'y.1'"),
        (JAX.replace("f32[] constant(0)", "f32{} constant(0)"), "'f32{}' is no type such as f32"),
        (JAX.replace("sum = ", "sum "), "An instruction is `name = type opcode.operands."),
        (JAX.replace("constant(0)", "constant(0"), "A parenthesis is not closed."),
    ],
)
def test_what_is_no_module_says_the_line(text, message):
    with pytest.raises(ParseError, match=message):
        parse_xla(text)


def test_types_that_the_machine_lacks_are_named():
    message = r"'zero' \(constant, from op 'unknown'\) has .* Received: XLA element type s4\."
    with pytest.raises(UnsupportedType, match=message):
        parse_xla(JAX.replace("zero = f32[]", "zero = s4[]"))
