"""Programs found again instead of compiled again."""

import dataclasses
import time

import numpy as np
import pytest

from ipu_tf.compiler.cache import ProgramCache, fingerprint
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import Array, Computation, Instruction, Module, Parameter
from ipu_tf.compiler.hlo.text import parse
from ipu_tf.machine import SYSTEMS, target
from ipu_tf.planner.plan import MatMulPlan, MatMulShape

TEXT = """
module step
parameter 0 weight "w" layer="dense" updated_by=0
ENTRY main {
  w = f32[2,2] parameter(0)
  c = f32[2] constant({1, 2})
  b = f32[2,2] broadcast(c), dimensions={1}
  ROOT y = f32[2,2] add(w, b), layer="dense"
}
"""
OPTIONS = CompilerOptions()
PLANS = {"dense/MatMul": (MatMulShape(m=2, k=2, n=2, dtype="float32"), MatMulPlan(grain=8))}


def digest(module=None, options=OPTIONS, plans=PLANS, samples=4):
    return fingerprint(module or parse(TEXT), options, plans, samples)


def test_equal_modules_in_other_objects_have_one_fingerprint():
    assert digest(parse(TEXT)) == digest(parse(TEXT))
    # Strings that are equal but not the same object.
    other = parse(TEXT.replace("step", "".join(["st", "ep"])))
    assert digest(other) == digest()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("step", "other"),
        ('"w"', '"v"'),
        ("weight", "state"),
        ("updated_by=0", ""),
        ("add(w, b)", "add(b, w)"),
        ("add(w, b)", "multiply(w, b)"),
        ("{1, 2}", "{1, 3}"),
        ("dimensions={1}", "dimensions={0}"),
        ("f32", "f16"),
        ('add(w, b), layer="dense"', 'add(w, b), layer="other"'),
    ],
)
def test_any_difference_shows(old, new):
    assert old in TEXT
    assert digest(parse(TEXT.replace(old, new))) != digest()


def test_options_plans_and_samples_count():
    assert digest(options=CompilerOptions(target=target("gc200"))) != digest()
    assert digest(plans={}) != digest()
    assert digest(samples=8) != digest()


def test_machines_of_one_name_are_told_apart():
    bow = OPTIONS.target
    faster = dataclasses.replace(bow.exchange, nearest_cycles=58)
    links = dataclasses.replace(SYSTEMS["bow-2000"], ring=True)
    machines = (
        {},
        {"target": dataclasses.replace(bow, tile_bytes=bow.tile_bytes + 8)},
        {"target": dataclasses.replace(bow, exchange=faster)},
        {"system": SYSTEMS["bow-2000"]},
        {"system": links},
    )
    assert len({digest(options=CompilerOptions(**each)) for each in machines}) == len(machines)


def test_the_order_of_plans_does_not_count():
    more = PLANS | {"a": PLANS["dense/MatMul"]}
    assert digest(plans=more) == digest(plans=dict(reversed(more.items())))


def test_a_cache_makes_a_program_once():
    cache = ProgramCache(2)
    made = []

    def make():
        made.append(len(made))
        return made[-1]

    assert [cache.get("a", make), cache.get("a", make), cache.get("b", make)] == [0, 0, 1]
    assert cache.get("c", make) == 2  # "a" was used longest ago and goes.
    assert cache.get("b", make) == 1
    assert cache.get("a", make) == 3


def test_errors_are_not_kept():
    cache = ProgramCache(2)

    def fail():
        raise MemoryError("no")

    for _ in range(2):
        with pytest.raises(MemoryError, match="no"):
            cache.get("a", fail)
    assert cache.get("a", lambda: 1) == 1


def test_a_hit_costs_less_than_a_millisecond():
    """Seconds of a call with its own key, and of one without per thousand instructions."""
    cache = ProgramCache(2)
    cache.get("a", object)
    begin = time.process_time()
    cache.get("a", object)
    assert time.process_time() - begin < 1e-3


def test_a_fingerprint_of_many_instructions_takes_little_time():
    count = 12_000
    instructions = [
        Instruction(
            name=f"add.{index}",
            opcode="add",
            type=Array("f32", (32, 32)),
            operands=(f"add.{index - 1}", f"add.{index // 2}"),
            attributes={"dimensions": (0, 1), "literal": np.arange(3)},
            layer=f"layer_{index // 10}",
        )
        for index in range(count)
    ]
    entry = Computation(name="main", instructions=tuple(instructions), root="add.0")
    module = Module(
        name="step",
        computations={"main": entry},
        entry="main",
        parameters=(Parameter(name="x", role="input"),),
    )
    begin = time.process_time()
    digest(module)
    assert time.process_time() - begin < 0.5
    assert digest(dataclasses.replace(module, name="other")) != digest(module)
