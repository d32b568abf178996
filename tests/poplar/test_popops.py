"""Functions of PopLibs: their numbers against NumPy, their costs against the compiler's."""

import math
import re

import numpy as np
import pytest

from ipu_tf.machine import vertices
from ipu_tf.machine.target import CHIPS
from ipu_tf.poplar.model import popops
from tests.poplar.conftest import PROGRAMS, ROOT

TYPES = {
    "float": np.float32,
    "half": np.float16,
    "int": np.int32,
    "unsigned int": np.uint32,
    "bool": np.bool_,
    "short int": np.int16,
    "short": np.int16,
}


def results(text):
    """Returns the arrays that a program printed, by name."""
    found = {}
    for line in text.splitlines():
        name, data = line.rsplit(" ", 1)
        kind = next(one for one in sorted(TYPES, key=len, reverse=True) if name.endswith(one))
        name = name[: -len(kind) - 1].replace("unsigned int", "unsigned")
        found[name] = np.frombuffer(bytes.fromhex(data), TYPES[kind])
    return found


def each(function):
    """Returns the function of doubles, element by element."""
    return lambda *values: np.array([function(*one) for one in zip(*values, strict=True)])


UNARY = {
    "abs": np.abs, "square": np.square, "signum": np.sign, "neg": np.negative, "cbrt": np.cbrt,
    "ceil": np.ceil, "cos": np.cos, "erf": each(math.erf), "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "floor": np.floor, "isFinite": np.isfinite, "nearbyint": np.rint,
    "geluErf": each(lambda x: 0.5 * x * (1 + math.erf(x * math.sqrt(0.5)))),
    "round": lambda x: np.trunc(x + np.copysign(0.5, x)), "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sin": np.sin, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    "relu": lambda x: np.maximum(x, 0),
}  # fmt: skip
OF_POSITIVE = {
    "inv": np.reciprocal, "log": np.log, "log1p": np.log1p, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
}  # fmt: skip
BINARY = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rem": np.fmod,
    "max": np.maximum, "min": np.minimum, "eq": np.equal, "neq": np.not_equal, "gt": np.greater,
    "gteq": np.greater_equal, "lt": np.less, "lteq": np.less_equal, "atan2": np.arctan2,
}  # fmt: skip
FORMS = ("", "InPlace", "WithOutput")


def check(found, names, function, kind, *operands):
    """The results have the nearest numbers of their type."""
    checked = 0
    for name in names:
        if f"{name} {kind}" not in found:
            continue
        result = found[f"{name} {kind}"]
        with np.errstate(all="ignore"):
            expected = np.asarray(function(*(one.astype(np.float64) for one in operands)))
            expected = expected.astype(result.dtype)
        np.testing.assert_array_equal(result, expected, name)
        checked += 1
    return checked


def check_floats(found, kind):
    checked = 0
    for name, function in UNARY.items():
        checked += check(found, [name + form for form in FORMS], function, kind, found[f"x {kind}"])
    checked += check(found, ["asin"], np.arcsin, kind, found[f"units {kind}"])
    for name, function in OF_POSITIVE.items():
        names = [name + form for form in FORMS]
        checked += check(found, names, function, kind, found[f"positive {kind}"])
    a, b, c = (found[f"{name} {kind}"] for name in "abc")
    for name, function in BINARY.items():
        checked += check(found, [name + form for form in FORMS], function, kind, a, b)
    constant = np.full_like(a, 1.5)
    for name in ("add", "sub"):
        rights = [f"{name}{form}Right" for form in FORMS]
        checked += check(found, rights, BINARY[name], kind, a, constant)
        checked += check(found, [f"{name}Left"], BINARY[name], kind, constant, a)
    checked += check(found, ["clamp"], lambda x, y: np.minimum(np.maximum(x, 1), y), kind, a, b)
    checked += check(found, ["select"], lambda x, y: np.where(x < y, x, y), kind, a, b)
    checked += check(found, ["pow"], np.power, kind, c, b)
    checked += check(found, ["varianceToInvStdDev"], lambda x: 1 / np.sqrt(x + 0.5), kind, c)
    checked += check(found, ["invStdDevToVariance"], lambda x: 1 / (x * x) - 0.5, kind, c)
    return checked


def wrapped(values, dtype):
    return np.array([int(one) & 0xFFFFFFFF for one in values], np.uint32).view(dtype)


def check_integers(found, kind):
    x, a, b = (found[f"{name} {kind}"] for name in ("x", "a", "b"))
    constant = [3] * len(a)
    python = {
        "abs": (abs, x), "square": (lambda n: n * n, x), "neg": (lambda n: -n, x),
        "bitwiseNot": (lambda n: ~n, x), "signum": (lambda n: (n > 0) - (n < 0), x),
        "popcount": (lambda n: (n & 0xFFFFFFFF).bit_count(), x),
        "countLeadingZeros": (lambda n: 32 - (n & 0xFFFFFFFF).bit_length(), x),
        "add": (lambda n, m: n + m, a, b), "sub": (lambda n, m: n - m, a, b),
        "addRight": (lambda n, m: n + m, a, constant), "subLeft": (lambda n, m: m - n, a, constant),
        "mul": (lambda n, m: n * m, a, b), "max": (max, a, b), "min": (min, a, b),
        "div": (lambda n, m: math.trunc(n / m) if m else 0, a, b),
        "rem": (lambda n, m: int(math.fmod(n, m)) if m else n, a, b),
        "bitwiseAnd": (lambda n, m: n & m, a, b), "bitwiseOr": (lambda n, m: n | m, a, b),
        "bitwiseXor": (lambda n, m: n ^ m, a, b), "bitwiseXnor": (lambda n, m: ~(n ^ m), a, b),
        "shiftLeft": (lambda n, m: n << m, a, b),
        "shiftRight": (lambda n, m: (n & 0xFFFFFFFF) >> m, a, b),
        "shiftRightSignExtend": (lambda n, m: int(np.int32(np.uint32(n & 0xFFFFFFFF))) >> m, a, b),
        "clamp": (lambda n, m: min(max(n, 1), m), a, b), "select": (min, a, b),
    }  # fmt: skip
    for name, (function, *operands) in python.items():
        result = found[f"{name} {kind}"]
        values = [function(*map(int, one)) for one in zip(*operands, strict=True)]
        np.testing.assert_array_equal(result, wrapped(values, result.dtype), name)
    for name in ("eq", "neq", "gt", "gteq", "lt", "lteq"):
        np.testing.assert_array_equal(found[f"{name} {kind}"], BINARY[name](a, b), name)


def check_expressions(found):
    x, y = (found[f"{name} float"].reshape(3, 4) for name in "ab")
    row, column = np.arange(1, 5, dtype=np.float32), np.float32([[10], [20], [30]])
    half = np.float32(found["x half"])
    square = np.float16(np.float16(half * half) * np.float32(3))
    a = np.float32([[1, 2], [3, 4]])
    expected = {
        "rows": x + row, "columns": column * x, "outer": column + row, "one": 0.5 - x,
        "fused": (x + 1) * y - np.float32(0.5),
        "chosen": np.where(~(x < 0.5), np.abs(x), np.float32(x > y)), "turned": a + a.T,
        "sum": x + y, "difference": x - y, "half": square + np.float16(0.1),
        "short": np.int16([4, 1, -32766, 8]), "cast": np.uint32([1, 0, 3000000000, 0, 70000]),
        "filled": np.where(np.arange(3)[:, None] == 1, 0, np.float32([2.5] * 4)),
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], np.ravel(values), name)


def check_elementwise(found):
    counts = check_floats(found, "float"), check_floats(found, "half")
    assert counts == (69, 69)
    check_integers(found, "int")
    check_integers(found, "unsigned")
    check_expressions(found)


REDUCTIONS = {
    "ADD": np.sum, "MIN": np.min, "MAX": np.max,
    "SQUARE_ADD": lambda values, axis: np.sum(values * values, axis=axis),
}  # fmt: skip


def check_reductions(found, kind):
    """Sums of these numbers are exact in any order, but for the last rounding."""
    x = found[f"r {kind}"].reshape(6, 10, 4)
    wide = x.astype(np.float64)
    for name, function in REDUCTIONS.items():
        for word, axes in {"all": (0, 1, 2), "last": 2, "first": (0, 1)}.items():
            expected = function(wide, axis=axes).astype(x.dtype)
            np.testing.assert_array_equal(found[f"{name}{word} {kind}"], expected.ravel(), name)
    expected = (wide.sum(axis=(0, 2)) + 2).astype(x.dtype)
    np.testing.assert_array_equal(found[f"updated {kind}"], expected)


def check_scaled_adds(found):
    step = np.arange(30) * 7 % 23
    third = np.float32(0.3)
    for of_a in (np.float32, np.float16):
        for of_b in (np.float32, np.float16):
            names = {np.float32: "float", np.float16: "half"}
            a, b = (step * 0.1 - 3).astype(of_a), (step * 0.3 - 3).astype(of_b)
            a, b = a.astype(np.float32), b.astype(np.float32)
            expected = {
                "addTo": a + b * third, "addToTensor": a + b * np.float32(0.75),
                "subtract": a - b * third, "both": a * 2 + b * third,
                "special": a - a * np.float32(0.75) + b * np.float32(0.75),
            }  # fmt: skip
            for name, values in expected.items():
                result = found[f"{name} {names[of_a]}{names[of_b]}"]
                np.testing.assert_array_equal(result, values.astype(of_a), name)


def check_poplibs(found):
    for kind in ("float", "half", "int", "unsigned"):
        check_reductions(found, kind)
    check_scaled_adds(found)
    hot = np.zeros((5, 7), np.float16)
    hot[[0, 1, 2, 4], [0, 2, 6, 3]] = 1
    expected = {
        "product": 2, "logadd": np.float32(np.log(np.exp([1.0, 2.0, 3.0]).sum())), "most": 4,
        "scaled": 27.3125 / 2, "total": 11.75, "least": 0.25, "again": 11.75, "true": True,
        "false": False, "integers": [-2, -4, -6], "iota": np.arange(7, 57),
        "down": np.arange(-5, 15)[::-1], "hot": hot, "loops": [2 + 5 + 8 + 600],
        "warm": np.where(hot == 1, np.float32(0.9), np.float32(-0.1)),
        "for int": 20 + 2 * 10, "for unsigned": 20 + 2 * 10,
    }  # fmt: skip
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], np.ravel(values), name)


@pytest.mark.slow
def test_reductions_encodings_loops_and_mappings(programs):
    result = programs.run(PROGRAMS / "poplibs.cpp")
    assert result.returncode == 0, result.stderr
    check_poplibs(results(result.stdout))


def check_look_ups(found, kind, dtype):
    table = np.arange(120).reshape(20, 6).astype(dtype)
    offsets = [3, 19, 3, 0, 20, 7, 3, 1]
    padded = np.vstack([table, np.zeros(6, dtype)])
    np.testing.assert_array_equal(found[f"look-up {kind}"], padded[offsets].ravel())
    padded[20] = table[0]
    np.testing.assert_array_equal(found[f"remapped {kind}"], padded[offsets].ravel())
    rows = np.arange(48).reshape(8, 6).astype(dtype)
    written, most, added = table.copy(), table.copy(), table.copy()
    for offset, row in zip(offsets, rows, strict=True):
        if offset < 20:
            written[offset] = row
            most[offset] = np.maximum(most[offset], row)
            added[offset] += row * dtype(2)
    for name, values in {"written": written, "most": most, "added": added}.items():
        np.testing.assert_array_equal(found[f"{name} {kind}"], values.ravel(), name)


def check_slices(found):
    for kind, dtype in {"float": np.float32, "half": np.float16, "int": np.int32}.items():
        table = np.arange(210).reshape(5, 6, 7).astype(dtype)
        np.testing.assert_array_equal(found[f"slice {kind}"], table[2:4, 4:6].ravel())
        table[2:4, 4:6] = 9
        np.testing.assert_array_equal(found[f"update {kind}"], table.ravel())
        check_look_ups(found, kind, dtype)
    table = np.arange(210).reshape(5, 6, 7)
    np.testing.assert_array_equal(found["wrapped"], table[:, [5, 0, 1]].ravel())
    np.testing.assert_array_equal(found["output"], table[:, :, 5].ravel())
    np.testing.assert_array_equal(found["known"], np.arange(12).reshape(3, 4).T[[2, 0]].ravel())
    groups = np.arange(120).reshape(3, 10, 4).astype(np.float32)
    offsets = np.array([1, 9, 1, 0, 3, 4, 4, 4, 4, 4, 7, 8, 9, 0, 1]).reshape(3, 5)
    picked = np.stack([group[at] for group, at in zip(groups, offsets, strict=True)])
    np.testing.assert_array_equal(found["grouped"], picked.ravel())
    for group, at, rows in zip(groups, offsets, np.arange(60).reshape(3, 5, 4), strict=True):
        np.add.at(group, at, rows / 2)
    np.testing.assert_array_equal(found["grouped sums"], groups.ravel())


@pytest.mark.slow
def test_slices_updates_and_look_ups(programs):
    result = programs.run(PROGRAMS / "slices.cpp")
    assert result.returncode == 0, result.stderr
    check_slices(results(result.stdout))


def check_random(found):
    def is_like(name, mean, deviation):
        numbers = found[name].astype(np.float64)
        error = 4 * deviation / math.sqrt(len(numbers))
        assert abs(numbers.mean() - mean) < error, name
        assert abs(numbers.std() - deviation) < error, name

    for kind in ("float", "half"):
        uniform, truncated = found[f"uniform {kind}"], found[f"truncated {kind}"]
        assert -1 <= uniform.min() < -0.99
        assert 2.99 < uniform.max() <= 3
        is_like(f"uniform {kind}", 1, 4 / math.sqrt(12))
        is_like(f"normal {kind}", 2, 3)
        assert np.abs(truncated - 2).max() <= 4.51
        assert abs(truncated.mean() - 2) < 0.1
        is_like(f"bernoulli {kind}", 0.3, math.sqrt(0.21))
        kept = found[f"dropout {kind}"]
        assert set(kept.tolist()) == {0, 2}
        assert abs((kept == 2).mean() - 0.7) < 0.02
    dice, times = np.unique(found["dice"], return_counts=True)
    assert dice.tolist() == list(range(-2, 5))
    assert times.min() > 0.9 * len(found["dice"]) / 7
    np.testing.assert_array_equal(found["same"], found["uniform float"])
    np.testing.assert_array_equal(found["elsewhere"], found["uniform float"])
    for name in ("other seed", "other modifier", "running", "running on"):
        assert (found[name] != found["uniform float"]).mean() > 0.99, name
    assert (found["running"] != found["running on"]).mean() > 0.99
    np.testing.assert_array_equal(found["seeded"], found["seeded again"])


@pytest.mark.slow
def test_random_numbers_have_their_distributions(programs):
    first = programs.run(PROGRAMS / "random.cpp")
    assert first.returncode == 0, first.stderr
    check_random(results(first.stdout))
    assert programs.run(PROGRAMS / "random.cpp").stdout == first.stdout


def work(*counts, second=0):
    return np.array(counts, np.int64) | second << 32


def test_vertices_cost_what_the_compiler_charges():
    target = CHIPS["gc200"]

    def cycles(name, *counts, second=0):
        made = popops.popops_vertex(name, work(*counts, second=second), target)
        return made.cycles.tolist()

    count = np.array([12, 1200])
    add = vertices.elementwise("add", count, "f32", target).cycles
    assert cycles("popops::Binary<popops::op::Add,float>", *count) == add.tolist()
    clamp = vertices.elementwise("clamp", count, "s32", target).cycles
    assert cycles("popops::Ternary<popops::op::Clamp,int,int>", *count) == clamp.tolist()
    tanh = vertices.elementwise("tanh", count, "f16", target).cycles
    assert cycles("popops::Unary<popops::op::Tanh,half>", *count) == tanh.tolist()
    fused = vertices.fused([("multiply", "u32"), ("add", "u32")], count, "u32", target, operands=2)
    name = "popops::Map_2_unsigned_int__Mul_unsigned_int__Add_unsigned_int__0123456789abcdef"
    assert cycles(name, *count) == fused.cycles.tolist()
    cast = vertices.convert(count, "f32", "s8", target).cycles
    assert cycles("popops::Cast<float,signedchar>", *count) == cast.tolist()
    reduced = vertices.reduce(count, 20, "f16", target).cycles
    name = "popops::Reduce<popops::Add,half,float,false,false>"
    assert cycles(name, *count, second=20) == reduced.tolist()
    assert min(cycles(name, *count, second=1)) > 0
    found = vertices.multi_slice(count, 20, "f16", target).cycles
    assert cycles("popops::MultiSlice<half>", *count, second=20) == found.tolist()
    writes, sums = (f"popops::MultiUpdate<popops::{op},float>" for op in ("Write", "Add"))
    assert cycles(writes, 12, second=3) != cycles(sums, 12, second=3)
    for name in ("DynamicSlice<char>", "DynamicUpdate<int>", "MultiUpdate<popops::Add,float>"):
        assert min(cycles(f"popops::{name}", 12, second=3)) > 0
    drawn = vertices.random_normal(count, "f16", target).cycles
    assert cycles("poprand::Draw<poprand::Normal,half>", *count) == drawn.tolist()
    for name in ("Draw<poprand::Uniform,int>", "Dropout<half>", "SetSeed<unsigned>"):
        assert min(cycles(f"poprand::{name}", 12)) > 0
    for name in ("Fill<bool>", "Iota<int>", "OneHot<int,half>", "ScaledAdd<half,float,float>"):
        assert min(cycles(f"popops::{name}", 12)) > 0
    assert popops.popops_vertex("popops::Other<float>", work(1), target) is None
    assert popops.popops_vertex("Sum<float>", work(1), target) is None


def test_every_operation_has_a_cost():
    source = (ROOT / "ops" / "poplar" / "src" / "popops" / "expr.cc").read_text()
    lists = re.findall(r"constexpr const char\* k\w+\[\] = \{(.*?)\};", source, re.DOTALL)
    names = re.findall(r'"(\w+)"', "".join(lists))
    assert sorted(names) == sorted(popops.OPCODES)
    for name in names:
        for dtype in ("unsigned_char", "bool", "long_long"):
            fused = f"popops::Map_1_{dtype}__{name}_{dtype}__0123456789abcdef"
            assert popops.popops_vertex(fused, work(12), CHIPS["gc200"]).cycles[0] > 0


@pytest.mark.slow
def test_operations_element_by_element(programs):
    result = programs.run(PROGRAMS / "elementwise.cpp")
    assert result.returncode == 0, result.stderr
    check_elementwise(results(result.stdout))
