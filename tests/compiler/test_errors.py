"""The messages of errors."""

import logging

import pytest

from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.compile import check_memory
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo.text import parse
from ipu_tf.config.device import PlannerOptions
from ipu_tf.machine import target
from ipu_tf.tile_program import errors
from ipu_tf.tile_program.device_program import on_one_ipu
from ipu_tf.tile_program.errors import IPUOutOfMemoryError, UnsupportedOpcodeError, out_of_memory

pytestmark = pytest.mark.usefixtures("simple_lowering")

CHIP = target("bow", 8)

LARGE = """
module train
parameter 1 weight "dense/kernel" layer="net/dense" updated_by=0
ENTRY main {
  x = f32[1000000] parameter(0)
  w = f32[600000] parameter(1)
  t = f32[600000] tanh(w), layer="net/tanh"
  g = f32[600000] add(t, w), layer="net/add", phase=backward
  h = f32[600000] multiply(g, t), layer="net/multiply", phase=backward
  w2 = f32[600000] subtract(w, h), layer="net/dense", phase=update
  y = f32[1000000] negate(x), layer="net/flip", phase=backward
  ROOT r = (f32[600000], f32[1000000]) tuple(w2, y)
}
"""

FFT = """
module train
ENTRY main {
  x = f32[64] parameter(0)
  a = f32[64] fft(x), layer="net/spectrum"
  b = f32[64] sort(a), op_name="Sort"
  ROOT c = f32[64] sort(b), layer="net/top"
}
"""


def built(text, **options):
    options = CompilerOptions(target=CHIP, **options)
    return build_program(parse(text), options=options, plans={})


def test_out_of_memory_names_tile_bytes_tensors_and_remedies():
    program = built(LARGE)
    error = out_of_memory(program)
    lines = str(error).splitlines()
    memory = program.memory
    assert lines[0] == (
        f"Program 'train' does not fit on a bow IPU: tile 0 is {memory.overflow_bytes:,} bytes "
        "over its 638,976 bytes while it runs 'y' of layer 'net/flip' (backward). "
        "The largest tensors there:"
    )
    assert lines[1] == ("  500,000 bytes: inputs 'x', 4,000,000 bytes on 8 tiles")
    assert lines[2].startswith("  500,000 bytes: activations 'y' of layer 'net/flip', ")
    assert lines[3] == (
        "  300,000 bytes: weights 'dense/kernel' of layer 'net/dense', 2,400,000 bytes on 8 tiles"
    )
    assert lines[-1].startswith("To make room: use a smaller batch")
    assert "split the model over at least 3 IPUs" in lines[-1]
    assert len(lines) == 5
    assert (error.program, error.chip, error.tile) == ("train", "bow", 0)
    assert error.overflow_bytes == memory.overflow_bytes > 0
    assert [live.tile_bytes for live in error.largest] == sorted(
        (live.tile_bytes for live in error.largest), reverse=True
    )


def test_variables_alone_can_be_too_large():
    program = built(
        """
        module hold
        parameter 0 state "table" updated_by=0
        ENTRY main {
          a = f32[4000000] parameter(0)
          ROOT r = (f32[4000000]) tuple(a)
        }
        """
    )
    message = str(out_of_memory(program))
    assert "while it runs nothing: its variables alone are too large" in message
    assert "To make room: keep fewer variables besides the weights." in message


WEIGHTS = """
module hold
parameter 0 weight "kernel" updated_by=0
ENTRY main {{
  a = f32[{0}] parameter(0)
  ROOT r = (f32[{0}]) tuple(a)
}}
"""


@pytest.mark.parametrize(
    ("elements", "remedies"),
    [
        (
            1_500_000,
            "split the model over at least 2 IPUs (pipelining), or hold weights in float16",
        ),
        (9_000_000, "split the model over at least 8 IPUs (pipelining)"),
    ],
)
def test_remedies_that_save_too_little_are_left_out(elements, remedies):
    assert errors.advice(built(WEIGHTS.format(elements))) == [remedies]


def test_predictions_are_not_advised_to_recompute():
    program = built(LARGE.replace(", phase=backward", "").replace(", phase=update", ""))
    assert "use a smaller batch, or pipelining" in errors.advice(program)
    assert not any("recomputation" in remedy for remedy in errors.advice(program))


def test_what_happens_over_the_limit_is_an_option(caplog):
    program = built(LARGE)
    with caplog.at_level(logging.WARNING):
        with pytest.raises(IPUOutOfMemoryError, match="Program 'train' does not fit"):
            check_memory(on_one_ipu(program, system=""), "raise")
        check_memory(on_one_ipu(program, system=""), "report")
        assert caplog.records == []
        check_memory(on_one_ipu(program, system=""), "warn")
    (record,) = caplog.records
    assert record.getMessage() == str(out_of_memory(program))


def test_a_program_that_fits_says_nothing(caplog):
    program = built(LARGE.replace("000000]", "000]").replace("600000]", "600]"))
    check_memory(on_one_ipu(program, system=""), "raise")
    check_memory(on_one_ipu(program, system=""), "warn")
    assert caplog.records == []


def test_out_of_memory_is_a_memory_error():
    assert issubclass(IPUOutOfMemoryError, MemoryError)


HUGE_DOT = """
module train
ENTRY main {
  x = f32[16] parameter(0)
  w = f32[16] parameter(1)
  ROOT y = f32[4000000] dot(x, w), layer="net/dense", op_name="net/dense/MatMul"
}
"""


def test_an_op_that_fits_no_plan_is_out_of_memory():
    with pytest.raises(IPUOutOfMemoryError) as caught:
        built(HUGE_DOT)
    message = str(caught.value)
    assert message.startswith(
        "Program 'train' does not fit on a bow IPU: no plan of op 'net/dense/MatMul' of layer "
        "'net/dense' fits. The dot is too large. To make room: use a smaller batch"
    )


@pytest.mark.parametrize("policy", ["warn", "report"])
def test_an_op_that_fits_no_plan_is_planned_with_more_memory_on_request(policy):
    program = built(HUGE_DOT, out_of_memory=policy)
    assert program.memory.limit_bytes == CHIP.tile_bytes
    assert program.memory.overflow_bytes > 0
    assert program.cycles > 0


def test_unsupported_opcodes_are_listed_together():
    with pytest.raises(UnsupportedOpcodeError) as caught:
        built(FFT)
    assert str(caught.value).splitlines() == [
        "Program 'train' has opcodes without a cost on the machine.",
        "  fft in 'net/spectrum': It is not known.",
        "  sort in 'Sort', 'net/top': It is not known.",
        'Replace them, run them on the host, or set `cfg.simulator.unsupported = "warn"` to go '
        "on with an incomplete report.",
    ]


def test_unsupported_opcodes_leave_the_program_incomplete_on_request(caplog):
    with caplog.at_level(logging.WARNING):
        program = built(FFT, unsupported="warn")
    assert program.unsupported == {"fft": ("net/spectrum",), "sort": ("Sort", "net/top")}
    assert not program.complete
    (record,) = caplog.records
    assert "has opcodes without a cost on the machine" in record.getMessage()


@pytest.mark.parametrize(
    ("name", "known"),
    [("unsupported", "'raise', 'warn'"), ("out_of_memory", "'raise', 'warn', 'report'")],
)
def test_unknown_choices_are_refused(name, known):
    with pytest.raises(ValueError, match=f"{name} must be {known}. Received: 'ignore'"):
        CompilerOptions(**{name: "ignore"})


def test_planning_options_are_checked():
    with pytest.raises(ValueError, match="partials must be 'float32', 'float16'. Received: 'f8'"):
        PlannerOptions(partials="f8")
    with pytest.raises(ValueError, match="must be above 0 and at most 1. Received: 0."):
        PlannerOptions(available_memory_proportion=0.0)
