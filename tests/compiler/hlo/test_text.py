"""Modules as text: what is written reads back; what is not a module is refused."""

import numpy as np
import pytest

from ipu_tf.compiler.hlo import (
    Array,
    ConvolutionDimensions,
    DotDimensions,
    GatherDimensions,
    PaddingDimension,
    ScatterDimensions,
    SliceDimension,
    TriangularSolveOptions,
    TupleType,
    Window,
    WindowDimension,
    parse,
    to_text,
    verify,
)
from ipu_tf.compiler.hlo.attribute_text import parse as parse_attribute
from ipu_tf.compiler.hlo.attribute_text import to_text as attribute_text
from ipu_tf.compiler.hlo.text import ParseError, parse_type

STEP = """\
module step

parameter 0 input "x"
parameter 1 weight "dense/a \\"kernel\\"" layer="dense" updated_by=0

sum {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}

ENTRY main {
  x = f32[4,8] parameter(0)
  w = f32[8,2] parameter(1)
  y = f32[4,2] dot(x, w), dot_dimension_numbers={lhs_contracting={1} rhs_contracting={0} \
lhs_batch={} rhs_batch={}}, layer="dense", op_name="dense/MatMul", op_type="MatMul"
  zero = f32[] constant(0.0)
  rows = s32[3] constant({1, -2, 3})
  total = f32[2] reduce(y, zero), calls={sum}, dimensions={0}, layer="dense", phase=backward
  ROOT out = (f32[2], s32[3]) tuple(total, rows)
}
"""


def test_reads_back_what_it_writes():
    assert to_text(parse(STEP)) == STEP


def test_what_a_text_says():
    module = parse(STEP)
    verify(module)
    instructions = module.entry_computation.by_name()
    assert module.name == "step"
    assert module.entry == "main"
    weight = module.parameters[1]
    assert (weight.name, weight.role, weight.layer) == ('dense/a "kernel"', "weight", "dense")
    assert weight.updated_by == 0
    assert instructions["y"].operands == ("x", "w")
    assert instructions["y"].attributes["dot_dimension_numbers"] == DotDimensions(
        lhs_contracting=(1,), rhs_contracting=(0,)
    )
    assert instructions["total"].computations == ("sum",)
    assert instructions["total"].phase == "backward"
    np.testing.assert_array_equal(instructions["rows"].attributes["literal"], [1, -2, 3])
    assert instructions["out"].type == TupleType((Array("f32", (2,)), Array("s32", (3,))))


def test_reads_hlo_as_xla_prints_it():
    module = parse(
        """
        // A comment.
        ENTRY %main {
          %x = f32[4,8]{1,0} parameter(0)
          ROOT %y = f32[8,4]{0,1} transpose(f32[4,8]{1,0} %x), dimensions={1,0}
        }
        """
    )
    assert to_text(module) == (
        'module module\n\nparameter 0 input "x"\n\nENTRY main {\n  x = f32[4,8] parameter(0)\n'
        "  ROOT y = f32[8,4] transpose(x), dimensions={1,0}\n}\n"
    )


ATTRIBUTES = [
    ("window", Window(dimensions=(WindowDimension(size=3), WindowDimension(size=2)))),
    (
        "window",
        Window(
            dimensions=(
                WindowDimension(
                    size=3,
                    stride=2,
                    padding_low=-1,
                    padding_high=2,
                    window_dilation=3,
                    base_dilation=2,
                    window_reversal=True,
                ),
                WindowDimension(size=1),
            )
        ),
    ),
    ("dot_dimension_numbers", DotDimensions(lhs_contracting=(1, 2), lhs_batch=(0,))),
    (
        "convolution_dimension_numbers",
        ConvolutionDimensions(
            input_batch=3,
            input_feature=0,
            input_spatial=(1, 2),
            kernel_input_feature=2,
            kernel_output_feature=3,
            kernel_spatial=(0, 1),
            output_batch=2,
            output_feature=3,
            output_spatial=(0, 1),
        ),
    ),
    ("gather_dimension_numbers", GatherDimensions(offset_dims=(1,), index_vector_dim=2)),
    ("scatter_dimension_numbers", ScatterDimensions(inserted_window_dims=(0, 1))),
    ("padding_config", (PaddingDimension(low=-1, high=2, interior=3), PaddingDimension())),
    ("slice_dimensions", (SliceDimension(start=1, limit=9, stride=2),)),
    ("triangular_solve_options", TriangularSolveOptions(lower=False, transpose=True)),
    ("comparison_direction", "LT"),
    ("custom_call_target", 'a "quoted, {thing}"'),
    ("dynamic_slice_sizes", (1, 2)),
    ("dimensions", ()),
    ("source_target_pairs", ((0, 1), (1, 0))),
    ("epsilon", 1e-3),
    ("is_stable", True),
    ("trip_count", 12),
]


@pytest.mark.parametrize(("key", "value"), ATTRIBUTES, ids=lambda value: str(value)[:40])
def test_attributes_read_back(key, value):
    read = parse_attribute(key, attribute_text(key, value))
    assert read == value
    assert type(read) is type(value)


def test_window_and_labels_look_like_hlo():
    window = Window(
        dimensions=(WindowDimension(size=3, stride=2, padding_low=1), WindowDimension(size=1))
    )
    assert attribute_text("window", window) == "{size=3x1 stride=2x1 pad=1_0x0_0}"
    labels = parse_attribute("convolution_dimension_numbers", "f01b_i01o->01bf")
    assert labels.input_batch == 3
    assert labels.output_spatial == (0, 1)
    assert attribute_text("convolution_dimension_numbers", labels) == "f01b_i01o->01bf"


@pytest.mark.parametrize(
    "constant",
    [
        "f32[] constant(-inf)",
        "f32[2] constant({nan, 0.1})",
        "f16[] constant(0.1)",
        "pred[2] constant({true, false})",
        "u32[1] constant({4294967295})",
        "f32[4,1024] constant()",
        "f32[0] constant({})",
    ],
)
def test_constants_read_back(constant):
    text = f"module m\n\n\nENTRY main {{\n  ROOT c = {constant}\n}}\n"
    assert to_text(parse(text)) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nonsense", "Line 1 .*neither a module, a parameter nor a computation"),
        ("a {\n x = f32[] parameter(0)\n}", "one computation marked ENTRY"),
        ("ENTRY a {\n}", "'a' is empty"),
        ("ENTRY a {\n x = f32[2 parameter(0)\n}", "Line 2 .*not a type such as"),
        ("ENTRY a {\n x = f99[2] parameter(0)\n}", "'f99\\[2\\]' is not a type"),
        ("ENTRY a {\n x = f32[2]\n}", "`name = type opcode"),
        ("ENTRY a {\n x = f32[2] constant({1.0})\n}", "has 2 elements. Received: 1"),
        ("ENTRY a {\n x = f32[2] add(y, z\n}", "parenthesis is not closed"),
        ("ENTRY a {\n x = f32[2] add(y), dimensions\n}", "not of the form key=value"),
        ("ENTRY a {\n x = f32[2] reduce-window(y), window={tall=3}\n}", "no 'tall'"),
        (
            "ENTRY a {\n x = f32[2] convolution(y), convolution_dimension_numbers=bf\n}",
            "such as b01f_01io->b01f",
        ),
    ],
)
def test_what_is_no_module_is_refused(text, message):
    with pytest.raises(ParseError, match=message):
        parse(text)


def test_types():
    assert str(parse_type("(f32[], (s32[2], pred[1,2]))")) == "(f32[], (s32[2], pred[1,2]))"
    assert parse_type("(f32[], (s32[2], pred[1,2]))").bytes == 4 + 8 + 2
