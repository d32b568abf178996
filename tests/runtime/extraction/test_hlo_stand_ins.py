"""Stand-ins for slow ops: XLA makes the same HLO of them."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.internals.tensorflow import NodeDef
from ipu_tf.runtime.extraction import hlo_stand_ins
from ipu_tf.runtime.extraction.hlo import extract
from ipu_tf.runtime.programs import device_programs

X = tf.constant(np.linspace(-2, 8, 24).reshape(2, 3, 4))
RAW = tf.raw_ops

OPS = {
    "BiasAddGrad": lambda x: RAW.BiasAddGrad(out_backprop=x),
    "Exp": tf.exp,
    "Rsqrt": tf.math.rsqrt,
    "Sqrt": tf.sqrt,
    "Relu": tf.nn.relu,
    "Relu6": tf.nn.relu6,
    "ReluGrad": lambda x: RAW.ReluGrad(gradients=x, features=x + 1),
    "Sigmoid": tf.sigmoid,
    "Tanh": tf.tanh,
}


def module_of(monkeypatch, function, *arguments):
    """Returns the simplified module of a function that a strategy runs."""
    modules = []

    def extracting(*args, **kwargs):
        modules.append(extract(*args, **kwargs))
        return modules[-1]

    with monkeypatch.context() as patch:
        patch.setattr(device_programs, "extract", extracting)
        IPUStrategy(enable_keras_extensions=False).run(tf.function(function), arguments)
    return simplify(modules[0])


def meaning(module, computation=None, name=None):
    """Returns what an instruction computes, and for which op, without names of instructions."""
    computation = computation or module.entry_computation
    instruction = {i.name: i for i in computation}[name or computation.root]
    op = instruction.op_name, instruction.op_type, instruction.layer
    return (
        instruction.opcode,
        str(instruction.type),
        op if computation is module.entry_computation else "part of another",
        {key: np.asarray(value).tolist() for key, value in instruction.attributes.items()},
        [meaning(module, computation, operand) for operand in instruction.operands],
        [meaning(module, module.computations[name]) for name in instruction.computations],
    )


def in_a_layer(op):
    def function(x):
        with tf.name_scope("layer"):
            return tf.function(op)(x + 1)

    return function


def test_every_stand_in_is_tested():
    assert OPS.keys() == hlo_stand_ins._STAND_INS.keys()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float16], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("op_type", OPS)
def test_xla_makes_the_same_of_a_stand_in(op_type, dtype, monkeypatch):
    function, x = in_a_layer(OPS[op_type]), tf.cast(X, dtype)
    stood_for = module_of(monkeypatch, function, x)
    monkeypatch.setattr(hlo_stand_ins, "has_stand_in", lambda node: False)
    own = module_of(monkeypatch, function, x)
    assert op_type in str(meaning(own))
    assert meaning(stood_for) == meaning(own)


def test_stand_ins_are_of_floats_alone():
    def node(op, dtype, **attributes):
        made = NodeDef(name="node", op=op)
        made.attr["T"].type = dtype.as_datatype_enum
        for name, value in attributes.items():
            made.attr[name].s = value
        return made

    assert hlo_stand_ins.has_stand_in(node("Relu", tf.float16))
    assert not hlo_stand_ins.has_stand_in(node("Relu", tf.int32))
    assert not hlo_stand_ins.has_stand_in(node("Exp", tf.complex64))
    assert hlo_stand_ins.has_stand_in(node("BiasAddGrad", tf.float32, data_format=b"NHWC"))
    assert not hlo_stand_ins.has_stand_in(node("BiasAddGrad", tf.float32, data_format=b"NCHW"))


def test_a_size_may_be_computed_with_an_op_that_is_stood_for(monkeypatch):
    def function(x):
        return x[0, 0, :2] + tf.range(0.0, tf.sqrt(tf.constant(4.0)))

    module = module_of(monkeypatch, function, tf.cast(X, tf.float32))
    assert "f32[2]" in str(meaning(module))
