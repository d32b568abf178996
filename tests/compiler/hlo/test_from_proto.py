"""Protos become modules. They are read by their fields, so plain namespaces stand in for them."""

import types

import numpy as np
import pytest

from ipu_tf.compiler.hlo import Array, TupleType, UnsupportedType, from_proto, literal, to_text

F32, S32, TUPLE, S4 = 11, 4, 13, 21


class Shape(types.SimpleNamespace):
    def SerializeToString(self):
        return repr(self).encode()


def shape(dtype, *dims, parts=(), order=()):
    layout = types.SimpleNamespace(minor_to_major=order)
    return Shape(element_type=dtype, dimensions=dims, tuple_shapes=parts, layout=layout)


def instruction(id_, name, opcode, shape_, operands=(), **fields):
    return types.SimpleNamespace(
        id=id_,
        name=name,
        opcode=opcode,
        shape=shape_,
        operand_ids=operands,
        called_computation_ids=fields.pop("calls", ()),
        metadata=types.SimpleNamespace(op_name=fields.pop("op_name", ""), op_type=""),
        **fields,
    )


def module(*instructions, aliases=()):
    computation = types.SimpleNamespace(
        id=7, name="main", instructions=instructions, root_id=instructions[-1].id
    )
    return types.SimpleNamespace(
        name="m",
        computations=[computation],
        entry_computation_id=7,
        input_output_alias=types.SimpleNamespace(entries=aliases),
    )


def test_a_module():
    alias = types.SimpleNamespace(parameter_number=1, output_shape_index=[0])
    proto = module(
        instruction(2, "b", "parameter", shape(F32, 2), parameter_number=1),
        instruction(1, "a", "parameter", shape(F32, 2), parameter_number=0),
        instruction(5, "add", "add", shape(F32, 2), (1, 2), op_name="layer/add"),
        instruction(6, "t", "tuple", shape(TUPLE, parts=[shape(F32, 2)]), (5,)),
        aliases=[alias],
    )
    assert to_text(from_proto(proto)) == (
        'module m\n\nparameter 0 input "a"\nparameter 1 input "b" updated_by=0\n\nENTRY main {\n'
        "  b = f32[2] parameter(1)\n"
        "  a = f32[2] parameter(0)\n"
        '  add = f32[2] add(a, b), op_name="layer/add"\n'
        "  ROOT t = (f32[2]) tuple(add)\n}\n"
    )


def test_names_become_unique():
    proto = module(
        instruction(1, "x", "parameter", shape(F32), parameter_number=0),
        instruction(2, "x", "negate", shape(F32), (1,)),
    )
    read = from_proto(proto).entry_computation
    assert [i.name for i in read] == ["x", "x.1"]
    assert read.root == "x.1"
    assert read.instructions[1].operands == ("x",)


def test_an_element_type_that_the_machine_lacks():
    proto = module(instruction(1, "x", "parameter", shape(S4, 2), parameter_number=0, op_name="q"))
    with pytest.raises(UnsupportedType, match="'x' \\(parameter, from op 'q'\\).*Received: .* 21"):
        from_proto(proto)


def test_tuples_nest():
    inner = shape(TUPLE, parts=[shape(F32, 1), shape(S32)])
    proto = module(
        instruction(1, "x", "parameter", shape(TUPLE, parts=[inner]), parameter_number=0)
    )
    expected = TupleType((TupleType((Array("f32", (1,)), Array("s32"))),))
    assert from_proto(proto).entry_computation.instructions[0].type == expected


def test_literals_come_in_row_major_order():
    proto = types.SimpleNamespace(s32s=[1, 3, 5, 2, 4, 6], shape=shape(S32, 3, 2, order=(0, 1)))
    value = literal.from_proto(proto, Array("s32", (3, 2)))
    np.testing.assert_array_equal(value, [[1, 2], [3, 4], [5, 6]])


@pytest.mark.parametrize(
    ("dtype", "field", "stored", "expected"),
    [
        ("f16", "f16s", np.array([1.5, -2.0], "<f2").tobytes(), [1.5, -2.0]),
        ("bf16", "bf16s", b"\x80\x3f\x00\xc0", [1.0, -2.0]),
        ("s8", "s8s", b"\xff\x01", [-1, 1]),
        ("pred", "preds", [True, False], [True, False]),
    ],
)
def test_literals_of_every_storage(dtype, field, stored, expected):
    proto = types.SimpleNamespace(**{field: stored}, shape=shape(0, 2, order=(0,)))
    np.testing.assert_array_equal(literal.from_proto(proto, Array(dtype, (2,))), expected)


def test_large_literals_are_left():
    assert literal.from_proto(None, Array("f32", (257,))) is None
