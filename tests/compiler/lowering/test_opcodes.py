"""Every opcode has a rule: a result for every element, and a cost or none as it should be."""

import dataclasses

import pytest

from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.lowering import LoweringError, lower
from ipu_tf.compiler.lowering.dispatch import RULES
from ipu_tf.compiler.lowering.mapping import spread
from ipu_tf.machine import SYSTEMS, host, vertices
from ipu_tf.machine.vertices.inner_loops import BINARY
from tests.compiler.lowering.programs import ADD, context_of, run

X = "x = f32[8,64] parameter(0)"
Y = "y = f32[8,64] parameter(1)"
INDEX = "i = s32[] parameter(2)"
ARGMAX = """best {
a = f32[] parameter(0)
b = s32[] parameter(1)
c = f32[] parameter(2)
d = s32[] parameter(3)
e = f32[] maximum(a, c)
f = s32[] minimum(b, d)
ROOT g = (f32[], s32[]) tuple(e, f)
}
"""
LESS = (
    "less {\na = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = pred[] compare(a, b)\n}\n"
)
SQUARE = """chain {
a = f32[8,64] parameter(0)
b = f32[] parameter(1)
c = f32[8,64] broadcast(b), dimensions={}
d = f32[8,64] multiply(a, c)
ROOT e = f32[8,64] tanh(d)
}
"""
GATHER = (
    "gather_dimension_numbers={offset_dims={1} collapsed_slice_dims={0} start_index_map={0} "
    "index_vector_dim=1 operand_batching_dims={} start_indices_batching_dims={}}, "
    "gather_slice_sizes={1,16}"
)
SCATTER = (
    "calls={add}, scatter_dimension_numbers={update_window_dims={1} inserted_window_dims={0} "
    "scatter_dims_to_operand_dims={0} index_vector_dim=1 input_batching_dims={} "
    "scatter_indices_batching_dims={}}"
)
NORM = """sum {
a.0 = f16[8,64] parameter(0)
a.1 = f32[8,64] convert(a.0)
a.2 = f32[] constant(0.0)
ROOT a.3 = f32[64] reduce(a.1, a.2), calls={add}, dimensions={0}
}
apply {
b.0 = f16[8,64] parameter(0)
b.1 = f32[64] parameter(1)
b.2 = f32[8,64] convert(b.0)
b.3 = f32[8,64] broadcast(b.1), dimensions={1}
b.4 = f32[8,64] multiply(b.2, b.3)
ROOT b.5 = f16[8,64] convert(b.4)
}
"""
"""The computations of a normalisation of channels."""

HALVES = "x = f16[8,64] parameter(0)\ns = f32[64] parameter(1)\n"
DOT = "dot_dimension_numbers={lhs_contracting={1} rhs_contracting={0} lhs_batch={} rhs_batch={}}"

COSTLY = {
    "all-gather": (
        f"{X}\nr = f32[16,64] all-gather(x), replica_groups={{{{0,1}}}}, dimensions={{0}}"
    ),
    "all-reduce": f"{X}\nr = f32[8,64] all-reduce(x), calls={{add}}, replica_groups={{{{0,1}}}}",
    "all-to-all": f"{X}\nr = f32[8,64] all-to-all(x), replica_groups={{{{0,1}}}}",
    "batch-norm-grad": (
        "x = f32[4,8,8,16] parameter(0)\ns = f32[16] parameter(1)\nm = f32[16] parameter(2)\n"
        "v = f32[16] parameter(3)\ng = f32[4,8,8,16] parameter(4)\n"
        "r = (f32[4,8,8,16], f32[16], f32[16]) batch-norm-grad(x, s, m, v, g), "
        "epsilon=0.001, feature_index=3"
    ),
    "batch-norm-inference": (
        "x = f32[4,8,8,16] parameter(0)\ns = f32[16] parameter(1)\n"
        "r = f32[4,8,8,16] batch-norm-inference(x, s, s, s, s), epsilon=0.001, feature_index=3"
    ),
    "batch-norm-training": (
        "x = f32[4,8,8,16] parameter(0)\ns = f32[16] parameter(1)\n"
        "r = (f32[4,8,8,16], f32[16], f32[16]) batch-norm-training(x, s, s), "
        "epsilon=0.001, feature_index=3"
    ),
    "cholesky": "x = f32[2,96,96] parameter(0)\nr = f32[2,96,96] cholesky(x), lower=true",
    "clamp": f"{X}\n{Y}\nr = f32[8,64] clamp(x, y, y)",
    "collective-permute": (
        f"{X}\nr = f32[8,64] collective-permute(x), source_target_pairs={{{{0,1}},{{1,0}}}}"
    ),
    "compare": f"{X}\n{Y}\nr = pred[8,64] compare(x, y)",
    "concatenate": f"{X}\n{Y}\nr = f32[16,64] concatenate(x, y), dimensions={{0}}",
    "conditional": f"{INDEX}\n{X}\nr = f32[8,64] conditional(i, x)",
    "convert": f"{X}\nr = f16[8,64] convert(x)",
    "convolution": (
        "x = f32[2,8,8,4] parameter(0)\nk = f32[3,3,4,8] parameter(1)\n"
        "r = f32[2,8,8,8] convolution(x, k), window={size=3x3 pad=1_1x1_1}, "
        "convolution_dimension_numbers=b01f_01io->b01f"
    ),
    "copy": f"{X}\nr = f32[8,64] copy(x)",
    "custom-call": (f'{X}\nr = (f32[8,4], s32[8,4]) custom-call(x), custom_call_target="TopK"'),
    "dot": f"{X}\nw = f32[64,16] parameter(1)\nr = f32[8,16] dot(x, w), {DOT}",
    "dropout": "x = f16[8,64] parameter(0)\ns = u64[3] parameter(1)\nr = f16[8,64] dropout(x, s)",
    "dynamic-slice": (
        f"{X}\n{INDEX}\nr = f32[1,64] dynamic-slice(x, i, i), dynamic_slice_sizes={{1,64}}"
    ),
    "dynamic-update-slice": (
        f"{X}\n{INDEX}\nu = f32[1,64] parameter(1)\nr = f32[8,64] dynamic-update-slice(x, u, i, i)"
    ),
    "fusion": f"{X}\ns = f32[] parameter(1)\nr = f32[8,64] fusion(x, s), calls={{chain}}",
    "gather": (
        f"t = f32[100,16] parameter(0)\ni = s32[6,1] parameter(1)\n"
        f"r = f32[6,16] gather(t, i), {GATHER}"
    ),
    "host-call": f"{X}\nr = f32[2] host-call(x)",
    "infeed": "r = f32[8,64] infeed()",
    "iota": "r = s32[8,64] iota(), dimensions={1}",
    "norm-apply": f"{HALVES}r = f16[8,64] norm-apply(x, s), calls={{apply}}, kept_dimensions={{1}}",
    "norm-sum": (
        f'{HALVES}r = f32[64] norm-sum(x), calls={{sum}}, term="sum", kept_dimensions={{1}}'
    ),
    "outfeed": f"{X}\nr = token[] outfeed(x)",
    "pad": f"{X}\nz = f32[] constant(0)\nr = f32[10,64] pad(x, z), padding_config=1_1_0x0_0_0",
    "reduce": (
        f"{X}\nz = f32[] constant(0)\nr = f32[8] reduce(x, z), calls={{add}}, dimensions={{1}}"
    ),
    "replica-gather": (
        f"{X}\ns = f32[1,128] replica-share(x)\nr = f32[8,64] replica-gather(s, x), gathered=0"
    ),
    "replica-share": f"{X}\nr = f32[1,128] replica-share(x)",
    "reduce-scatter": (
        f"{X}\nr = f32[4,64] reduce-scatter(x), calls={{add}}, replica_groups={{{{0,1}}}}, "
        "dimensions={0}"
    ),
    "reduce-window": (
        "x = f32[2,8,8,4] parameter(0)\nz = f32[] constant(0)\n"
        "r = f32[2,4,4,4] reduce-window(x, z), calls={add}, window={size=1x2x2x1 stride=1x2x2x1}"
    ),
    "rng": ('a = f32[] parameter(0)\nr = f32[8,64] rng(a, a), distribution="uniform"'),
    "rng-bit-generator": (
        "s = u64[2] parameter(0)\nr = (u64[2], u32[8,64]) rng-bit-generator(s), "
        'rng_algorithm="philox"'
    ),
    "scatter": (
        f"t = f32[100,16] parameter(0)\ni = s32[6,1] parameter(1)\nu = f32[6,16] parameter(2)\n"
        f"r = f32[100,16] scatter(t, i, u), {SCATTER}"
    ),
    "select": f"{X}\n{Y}\np = pred[8,64] compare(x, y)\nr = f32[8,64] select(p, x, y)",
    "select-and-scatter": (
        "x = f32[2,8,8,4] parameter(0)\ns = f32[2,4,4,4] parameter(1)\nz = f32[] constant(0)\n"
        "r = f32[2,8,8,4] select-and-scatter(x, s, z), calls={add}, "
        "window={size=1x2x2x1 stride=1x2x2x1}"
    ),
    "sort": f"{X}\nr = f32[8,64] sort(x), calls={{less}}, dimensions={{1}}",
    "topk": f"{X}\nr = (f32[8,4], s32[8,4]) topk(x), k=4, largest=true",
    "triangular-solve": (
        "a = f32[96,96] parameter(0)\nb = f32[96,4] parameter(1)\n"
        "r = f32[96,4] triangular-solve(a, b), triangular_solve_options={left_side=true "
        "lower=true unit_diagonal=false transpose=false}"
    ),
    "while": f"{X}\nr = f32[8,64] while(x), trip_count=10",
}
FREE = {
    "add-dependency": f"{X}\nt = token[] after-all()\nr = f32[8,64] add-dependency(x, t)",
    "after-all": "r = token[] after-all()",
    "bitcast": f"{X}\nr = f32[512] bitcast(x)",
    "bitcast-convert": f"{X}\nr = u32[8,64] bitcast-convert(x)",
    "broadcast": "s = f32[] parameter(0)\nr = f32[8,64] broadcast(s), dimensions={}",
    "constant": "r = f32[3] constant({1.0, 2.0, 3.0})",
    "get-dimension-size": f"{X}\nr = s32[] get-dimension-size(x)",
    "get-tuple-element": (
        f"{X}\n{Y}\nt = (f32[8,64], f32[8,64]) tuple(x, y)\n"
        "r = f32[8,64] get-tuple-element(t), tuple_index=1"
    ),
    "opt-barrier": f"{X}\nr = f32[8,64] opt-barrier(x)",
    "partition-id": "r = u32[] partition-id()",
    "replica-id": "r = u32[] replica-id()",
    "reshape": f"{X}\nr = f32[512] reshape(x)",
    "reverse": f"{X}\nr = f32[8,64] reverse(x), dimensions={{1}}",
    "set-dimension-size": (
        f"{X}\nn = s32[] parameter(1)\nr = f32[8,64] set-dimension-size(x, n), dimensions={{1}}"
    ),
    "slice": f"{X}\nr = f32[2,64] slice(x), slice_dimensions={{[2:4:1], [0:64:1]}}",
    "transpose": f"{X}\nr = f32[64,8] transpose(x), dimensions={{1,0}}",
    "tuple": f"{X}\n{Y}\nr = (f32[8,64], f32[8,64]) tuple(x, y)",
}
INTEGERS = ("count-leading-zeros", "popcnt", "not", "and", "or", "xor")
SHIFTS = ("shift-left", "shift-right-arithmetic", "shift-right-logical")


def elementwise_text(opcode):
    dtype = "s32" if opcode in (*INTEGERS, *SHIFTS) else "f32"
    names = "xy" if opcode in BINARY else "x"
    lines = [f"{name} = {dtype}[8,64] parameter({n})" for n, name in enumerate(names)]
    return "\n".join([*lines, f"r = {dtype}[8,64] {opcode}({', '.join(names)})"])


BEFORE = ADD + LESS + SQUARE + NORM
"""The computations that the cases call."""

CASES = {opcode: elementwise_text(opcode) for opcode in sorted(vertices.OPCODES)} | COSTLY


@pytest.mark.parametrize("opcode", CASES)
def test_costs_something(opcode):
    program = run(CASES[opcode], before=BEFORE)
    made = program.lowered["r"]
    assert program.cycles("r") > 0
    assert all(
        min(step.sync_cycles, step.exchange_cycles, step.compute_cycles, step.host_cycles) >= 0
        for step in made.supersteps
    )
    assert made.exchange_code_bytes >= 0
    assert all(footprint.tile_bytes > 0 for footprint in made.vertex_state)


@pytest.mark.parametrize("opcode", FREE)
def test_costs_nothing(opcode):
    made = run(FREE[opcode]).lowered["r"]
    assert made.supersteps == ()
    assert made.scratch == made.exchange_buffers == made.vertex_state == ()


def test_every_rule_is_tested():
    assert set(CASES) | set(FREE) | {"fft"} == set(RULES)


def test_reduces_several_tensors_together():
    program = run(
        "x = f32[8,64] parameter(0)\ni = s32[8,64] iota(), dimensions={1}\n"
        "z = f32[] constant(0)\nn = s32[] constant(0)\n"
        "r = (f32[8], s32[8]) reduce(x, i, z, n), calls={best}, dimensions={1}",
        before=ARGMAX,
    )
    alone = run(COSTLY["reduce"], before=ADD)
    assert program.cycles("r") > alone.cycles("r")


REFUSED = {
    "a tuple": (
        "x = f32[8] parameter(0)\nr = (f32[8], f32[8]) broadcast(x), dimensions={0}",
        "it takes no tuples. The result of 'r' must be one array, not (f32[8], f32[8]). "
        "Received: opcode 'broadcast'",
    ),
    "fft": (
        "x = f32[8] parameter(0)\nr = f32[8] fft(x), fft_length={8}",
        "the IPU has no Fourier transform; write it as a matmul",
    ),
    "unknown": (
        "x = f32[8] parameter(0)\nr = f32[8] ragged-dot(x, x)",
        "no rule knows its opcode. Received: opcode 'ragged-dot'",
    ),
    "custom call": (
        'x = f32[8] parameter(0)\nr = f32[8] custom-call(x), custom_call_target="Lu"',
        "its target 'Lu' is unknown; known targets are Eigh, "
        "ProductOfElementaryHouseholderReflectors, Qr, SetBound, Sharding, TopK, ipu_tf.user_op.",
    ),
    "sweeps": (
        "x = f32[8,8] parameter(0)\n"
        'r = (f32[8,8], f32[8]) custom-call(x), custom_call_target="Eigh", backend_config="1,1"',
        "its backend_config must be 'lower,sorted,sweeps,tolerance', with a number of sweeps. "
        "Received: '1,1'.",
    ),
    "wide": (
        "x = f32[8] parameter(0)\nr = f64[8] convert(x)",
        "its result is f64, an IPU has no such type; cast to 32 bits or less.",
    ),
    "from wide": (
        "x = f64[8] parameter(0)\nr = f32[8] convert(x)",
        "'f64'",
    ),
    "integer dot": (
        f"x = s32[8,4] parameter(0)\nw = s32[4,2] parameter(1)\nr = s32[8,2] dot(x, w), {DOT}",
        "tiles multiply matrices of f32, f16, f8e4m3, f8e5m2, not of s32; cast the operands.",
    ),
    "empty dot": (
        f"x = f32[0,4] parameter(0)\nw = f32[4,2] parameter(1)\nr = f32[0,2] dot(x, w), {DOT}",
        "Give all dimensions at least one element.",
    ),
    "distribution": (
        'a = f32[] parameter(0)\nr = f32[8] rng(a, a), distribution="invalid"',
        "tiles draw from normal, truncated_normal, uniform, not from 'invalid'",
    ),
    "replicas": (
        "x = f32[8] parameter(0)\nr = f32[8] all-reduce(x), replica_groups={}",
        "its replica_groups are missing; list the replicas that take part.",
    ),
    "too many replicas": (
        "x = f32[8] parameter(0)\nr = f32[8] all-reduce(x), replica_groups={{0,1,2}}",
        "no system runs it. IPUs are used in powers of two",
    ),
    "operation of a type": (
        "x = pred[8] parameter(0)\nr = pred[8] tanh(x)",
        "Element-wise tanh is defined for f32, f16",
    ),
    "empty reduction": (
        "x = f32[0] parameter(0)\nz = f32[] constant(0)\n"
        "r = f32[] reduce(x, z), calls={add}, dimensions={0}",
        "it reduces a tensor without elements; leave the reduction out.",
    ),
    "bits": (
        "x = f32[8] parameter(0)\nr = u8[8] bitcast-convert(x)",
        "it does not keep the number of bits.",
    ),
    "four dimensions": (
        "x = f32[2,4,4,4,4,3] parameter(0)\nk = f32[1,1,1,1,3,2] parameter(1)\n"
        "r = f32[2,4,4,4,4,2] convolution(x, k), window={size=1x1x1x1}, "
        "convolution_dimension_numbers=b0123f_0123io->b0123f",
        "convolutions have at most three spatial dimensions, it has 4.",
    ),
    "holes and strides": (
        "x = f32[2,4,4,3] parameter(0)\nk = f32[3,3,3,2] parameter(1)\n"
        "r = f32[2,3,3,2] convolution(x, k), window={size=3x3 stride=2x2 lhs_dilate=2x2}, "
        "convolution_dimension_numbers=b01f_01io->b01f",
        "it has both strides and holes in its input; use one after the other.",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case):
    text, message = REFUSED[case]
    with pytest.raises(LoweringError) as raised:
        run(text, before=ADD)
    assert message in str(raised.value)
    assert raised.value.reason in str(raised.value)
    assert raised.value.instruction.name == "r"


def test_error_names_the_layer():
    with pytest.raises(LoweringError, match="'r' of 'model/dense' has no cost") as raised:
        run('x = f32[8] parameter(0)\nr = f32[8] fft(x), fft_length={8}, layer="model/dense"')
    assert raised.value.layer == "model/dense"


def test_a_chip_of_ones_own_needs_a_system():
    module = parse("ENTRY main {\nx = f32[8] parameter(0)\nROOT r = f32[8] host-call(x)\n}\n")
    context = context_of(module)
    mine = dataclasses.replace(context.target, chip="mine")
    alone, joined = (
        dataclasses.replace(
            context, options=dataclasses.replace(context.options, target=mine, system=system)
        )
        for system in (None, dataclasses.replace(SYSTEMS["m2000"], target=mine))
    )
    call = module.entry_computation.by_name()["r"]
    with pytest.raises(LoweringError, match="no host is known for it. No known system has 'mine'"):
        lower(call, [], alone)
    operand = spread(call.type, joined)
    (step,) = lower(call, [operand], joined).supersteps
    assert step.host_cycles == 2 * host.transfer_cycles(joined.options.system, 32)
