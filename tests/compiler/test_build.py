"""Blocks, loops, conditionals and storing in place, on small modules with simple rules."""

import pytest

from ipu_tf.compiler.assembly import build_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo.text import parse
from ipu_tf.machine import target
from tests.compiler.simple_lowering import CONTROL_CYCLES

pytestmark = pytest.mark.usefixtures("simple_lowering")

CHIP = target("bow", 8)


def program(text, parameters="", **options):
    """The program of a module whose text is that of its computations."""
    module = parse(f"module step\n{parameters}\n{text}")
    return build_program(
        module,
        options=CompilerOptions(target=CHIP, **options),
        plans={},
    )


def names(device_program):
    return [step.name for step in device_program.steps]


def copies(device_program):
    return [step.name for step in device_program.steps if step.opcode == "copy"]


def tensors(device_program, category="activations"):
    return [tensor.name for tensor in device_program.tensors if tensor.category == category]


STATE = 'parameter 0 state "a" updated_by=0\nparameter 1 state "b" updated_by=1'


def test_a_variable_is_updated_in_place():
    made = program(
        """
        ENTRY main {
          a = f32[16] parameter(0)
          x = f32[16] parameter(1)
          ROOT new = f32[16] add(a, x)
        }
        """,
        'parameter 0 state "a" updated_by=0',
    )
    assert names(made) == ["inputs", "new"]
    assert tensors(made) == []
    assert tensors(made, "state") == ["a"]


def test_who_reads_the_old_value_runs_before_the_update():
    made = program(
        """
        ENTRY main {
          a = f32[16] parameter(0)
          x = f32[16] parameter(1)
          new = f32[16] add(a, x)
          old = f32[16] negate(a)
          ROOT both = (f32[16], f32[16]) tuple(new, old)
        }
        """,
        'parameter 0 state "a" updated_by=0',
    )
    assert copies(made) == []
    assert names(made).index("old") < names(made).index("new")


def test_an_update_that_others_need_first_is_copied_at_the_end():
    made = program(
        """
        ENTRY main {
          a = f32[16] parameter(0)
          x = f32[16] parameter(1)
          new = f32[16] add(a, x)
          change = f32[16] subtract(new, a)
          ROOT both = (f32[16], f32[16]) tuple(new, change)
        }
        """,
        'parameter 0 state "a" updated_by=0',
    )
    assert copies(made) == ["a.update"]
    assert names(made).index("change") < names(made).index("a.update")


def test_an_update_that_mixes_elements_is_not_made_in_place():
    made = program(
        """
        ENTRY main {
          a = f32[16] parameter(0)
          ROOT new = f32[16] reverse(a), dimensions={0}
        }
        """,
        'parameter 0 state "a" updated_by=0',
    )
    assert names(made) == ["new", "a.update"]
    assert tensors(made) == ["new"]


def test_a_swap_needs_room_for_one_of_the_two():
    made = program(
        """
        ENTRY main {
          a = f32[16] parameter(0)
          b = f32[16] parameter(1)
          ROOT swapped = (f32[16], f32[16]) tuple(b, a)
        }
        """,
        STATE,
    )
    # One variable moves away, the other is copied into its place, the first one comes back.
    assert len(copies(made)) == 3
    assert len(tensors(made)) == 1


def test_one_value_for_two_variables_is_copied_once():
    made = program(
        """
        ENTRY main {
          a = f32[16] parameter(0)
          b = f32[16] parameter(1)
          new = f32[16] add(a, b)
          ROOT both = (f32[16], f32[16]) tuple(new, new)
        }
        """,
        STATE,
    )
    assert len(copies(made)) == 1
    assert tensors(made) == []


def test_an_unchanged_variable_costs_nothing():
    made = program(
        "ENTRY main {\n a = f32[16] parameter(0)\n ROOT t = (f32[16]) tuple(a)\n }",
        'parameter 0 state "a" updated_by=0',
    )
    assert made.steps == ()
    assert made.memory.always_live["state"].sum() == 64


def test_views_share_memory_and_run_nothing():
    made = program(
        """
        ENTRY main {
          x = f32[4,4] parameter(0)
          y = f32[4,4] negate(x)
          z = f32[16] reshape(y)
          u = f32[2,8] reshape(z)
          ROOT w = f32[2,8] tanh(u)
        }
        """
    )
    assert names(made) == ["inputs", "y", "w", "outputs"]
    assert tensors(made) == ["y"]


def test_memory_is_taken_over_after_its_last_reader_only():
    made = program(
        """
        ENTRY main {
          x = f32[16] parameter(0)
          y = f32[16] negate(x)
          z = f32[16] tanh(y)
          ROOT w = f32[16] add(y, z)
        }
        """
    )
    assert tensors(made) == ["y", "z"]
    last = {tensor.name: tensor.last_step for tensor in made.tensors}
    assert names(made) == ["inputs", "y", "z", "w", "outputs"]
    assert (last["y"], last["z"]) == (4, 3)


LOOP = """
    body {{
      s = (s32[], f32[16], f32[16]) parameter(0)
      i = s32[] get-tuple-element(s), tuple_index=0
      h = f32[16] get-tuple-element(s), tuple_index=1
      w = f32[16] get-tuple-element(s), tuple_index=2
      one = s32[] constant(1)
      next = s32[] add(i, one)
      {work}
      ROOT r = (s32[], f32[16], f32[16]) tuple(next, h2, w)
    }}
    condition {{
      cs = (s32[], f32[16], f32[16]) parameter(0)
      ci = s32[] get-tuple-element(cs), tuple_index=0
      n = s32[] constant(5)
      ROOT less = pred[] compare(ci, n), direction="LT"
    }}
    ENTRY main {{
      h0 = f32[16] parameter(0)
      w0 = f32[16] parameter(1)
      zero = s32[] constant(0)
      start = f32[16] negate(h0)
      s0 = (s32[], f32[16], f32[16]) tuple(zero, start, w0)
      loop = (s32[], f32[16], f32[16]) while(s0), calls={{body, condition}}{trips}
      ROOT out = f32[16] get-tuple-element(loop), tuple_index=1
    }}
"""
WEIGHT = 'parameter 1 weight "w"'


def loop(work="h2 = f32[16] multiply(h, w)", trips=", trip_count=5"):
    return program(LOOP.format(work=work, trips=trips), WEIGHT)


def test_a_loop_appears_once_and_counts_its_repetitions():
    made = loop()
    repeats = {step.name: step.repeats for step in made.steps}
    assert repeats["next"] == repeats["h2"] == 5
    assert repeats["less"] == 6
    assert repeats["loop"] == repeats["start"] == 1
    (control,) = [step for step in made.steps if step.name == "loop"]
    assert control.cycles == CONTROL_CYCLES
    assert made.notes == ()


def test_what_a_loop_carries_lies_in_place():
    made = loop()
    # The counter starts from a constant, which is copied; the rest is used where it is.
    assert copies(made) == ["loop.0"]
    assert "start" in tensors(made)
    assert "h2" not in tensors(made)
    (start,) = [tensor for tensor in made.tensors if tensor.name == "start"]
    assert start.last_step == len(made.steps) - 1


def test_what_a_loop_starts_from_is_copied_for_its_layer():
    of_layer = LOOP.replace("{trips}", '{trips}, layer="gru", phase="backward"')
    made = program(of_layer.format(work="h2 = f32[16] multiply(h, w)", trips=""), WEIGHT)
    (copied,) = [step for step in made.steps if step.opcode == "copy"]
    assert (copied.name, copied.layer, copied.phase) == ("loop.0", "gru", "backward")


def test_what_a_body_makes_elsewhere_is_copied_back_in_every_iteration():
    work = "g = f32[16] multiply(h, w)\n h2 = f32[16] sort(g)"
    made = program(LOOP.format(work=work, trips=", trip_count=5"), WEIGHT, unsupported="warn")
    assert made.unsupported == {"sort": ("h2",)}
    old_too = "g = f32[16] multiply(h, w)\n h2 = f32[16] add(g, w)\n d = f32[16] add(h2, h)"
    both = LOOP.replace("tuple(next, h2, w)", "tuple(next, h2, d)")
    made = program(both.format(work=old_too, trips=", trip_count=5"), WEIGHT)
    updates = [step for step in made.steps if step.name.endswith(".update")]
    assert [step.repeats for step in updates] == [5]


def test_a_loop_of_unknown_length_counts_once_and_says_so():
    made = loop(trips="")
    repeats = {step.name: step.repeats for step in made.steps}
    assert repeats["h2"] == 1
    assert repeats["less"] == 2
    (note,) = made.notes
    assert (
        note == "The loop 'loop' runs an unknown number of times; the figures count one iteration."
    )


def test_what_a_loop_reads_is_in_use_until_it_ends():
    made = loop()
    (weight,) = [tensor for tensor in made.tensors if tensor.name == "w"]
    assert weight.always_live
    read_in_loop = program(LOOP.format(work="h2 = f32[16] multiply(h, w)", trips=""))
    (w0,) = [tensor for tensor in read_in_loop.tensors if tensor.name == "w0"]
    last_of_loop = names(read_in_loop).index("loop")
    assert w0.last_step == last_of_loop


CONDITIONAL = """
    apply {
      s = (f32[16], f32[16]) parameter(0)
      p = f32[16] get-tuple-element(s), tuple_index=0
      g = f32[16] get-tuple-element(s), tuple_index=1
      ROOT new = f32[16] subtract(p, g)
    }
    skip {
      t = (f32[16], f32[16]) parameter(0)
      ROOT q = f32[16] get-tuple-element(t), tuple_index=0
    }
    ENTRY main {
      a = f32[16] parameter(0)
      x = f32[16] parameter(1)
      ok = pred[] parameter(2)
      g0 = f32[16] tanh(x)
      s0 = (f32[16], f32[16]) tuple(a, g0)
      c = f32[16] conditional(ok, s0, s0), calls={apply, skip}
      READER
      ROOT out = (f32[16], f32[16]) tuple(c, other)
    }
"""


def test_a_conditional_updates_a_variable_in_place():
    text = CONDITIONAL.replace("READER", "other = f32[16] negate(a)")
    made = program(text, 'parameter 0 weight "a" layer="dense" updated_by=0')
    assert copies(made) == []
    assert names(made).index("other") < names(made).index("new")
    assert sorted(tensors(made)) == ["g0", "other"]
    (note,) = made.notes
    assert note == ("The figures count the longest of the 2 branches of the conditional 'c'.")


def test_a_conditional_gives_new_memory_where_the_old_value_is_still_read():
    text = CONDITIONAL.replace("READER", "other = f32[16] add(a, c)")
    made = program(text, 'parameter 0 weight "a" updated_by=0')
    assert copies(made) == ["a.update"]
    assert "new" in tensors(made)


def test_the_longest_branch_counts_and_the_code_of_all():
    made = program(
        """
        short {
          s = f32[32] parameter(0)
          ROOT a = f32[32] negate(s)
        }
        long {
          t = f32[32] parameter(0)
          b = f32[32] tanh(t)
          ROOT c = f32[32] exponential(b)
        }
        ENTRY main {
          x = f32[32] parameter(0)
          which = s32[] parameter(1)
          ROOT y = f32[32] conditional(which, x, x), calls={short, long}
        }
        """
    )
    assert names(made) == ["inputs", "b", "c", "y", "outputs"]
    codelets = {"infeed", "outfeed", "negate", "tanh", "exponential"}
    assert int(made.memory.always_live["vertex_code"].max()) == 100 * len(codelets)


def test_a_branch_that_hands_on_its_argument_gives_a_copy():
    made = program(
        """
        same {
          ROOT s = f32[16] parameter(0)
        }
        ENTRY main {
          x = f32[16] parameter(0)
          which = s32[] parameter(1)
          ROOT y = f32[16] conditional(which, x, x), calls={same, same}
        }
        """
    )
    assert copies(made) == ["y.0"]


def test_calls_become_part_of_the_caller():
    made = program(
        """
        twice {
          s = f32[16] parameter(0)
          ROOT a = f32[16] add(s, s)
        }
        ENTRY main {
          x = f32[16] parameter(0)
          y = f32[16] call(x), calls={twice}
          ROOT z = f32[16] negate(y)
        }
        """
    )
    assert names(made) == ["inputs", "a", "z", "outputs"]


def test_a_map_runs_its_computation_on_whole_arrays():
    made = program(
        """
        scalar {
          s = f32[] parameter(0)
          t = f32[] parameter(1)
          two = f32[] constant(2)
          u = f32[] multiply(s, two)
          ROOT a = f32[] add(u, t)
        }
        ENTRY main {
          x = f32[4,4] parameter(0)
          ROOT y = f32[4,4] map(x, x), calls={scalar}, layer="dense"
        }
        """
    )
    assert names(made) == ["inputs", "u", "a", "outputs"]
    assert [step.layer for step in made.steps[1:3]] == ["dense", "dense"]
    (u,) = [tensor for tensor in made.tensors if tensor.name == "u"]
    assert u.bytes == 64


def test_what_an_infeed_brings_is_an_input():
    made = program(
        """
        ENTRY main {
          x = f32[16] infeed()
          ROOT y = f32[16] reverse(x), dimensions={0}
        }
        """
    )
    assert tensors(made, "inputs") == ["x"]
    assert tensors(made) == ["y"]


def test_a_map_to_a_tuple_is_refused():
    with pytest.raises(ValueError, match="A map must give one array. 'y' gives: TupleType"):
        program(
            """
            scalar {
              s = f32[] parameter(0)
              ROOT t = (f32[], f32[]) tuple(s, s)
            }
            ENTRY main {
              x = f32[4] parameter(0)
              ROOT y = (f32[4], f32[4]) map(x), calls={scalar}
            }
            """
        )


def test_weights_lie_where_their_dot_wants_them_and_their_slots_with_them():
    made = program(
        """
        ENTRY main {
          x = f32[4,8] parameter(0)
          m = f32[8,16] parameter(1)
          w = f32[8,16] parameter(2)
          wc = f16[8,16] convert(w)
          xc = f16[4,8] convert(x)
          y = f16[4,16] dot(xc, wc)
          g = f32[8,16] broadcast(y)
          m2 = f32[8,16] add(m, g)
          w2 = f32[8,16] subtract(w, m2)
          ROOT r = (f32[8,16], f32[8,16]) tuple(m2, w2)
        }
        """,
        'parameter 1 optimizer_state "m" updated_by=0\nparameter 2 weight "w" updated_by=1',
    )
    assert copies(made) == []
    (step,) = [step for step in made.steps if step.name == "w2"]
    (slot,), (weight,) = (
        [tensor for tensor in made.tensors if tensor.name == name] for name in ("m", "w")
    )
    assert slot.footprint == weight.footprint
    assert step.cycles == 1 + 2 * weight.footprint.tile_bytes


@pytest.mark.parametrize("opcode", ["reshape", "bitcast"])
def test_weights_that_are_reshaped_first_lie_where_their_dot_wants_them(opcode):
    made = program(
        f"""
        ENTRY main {{
          x = f32[3,4] parameter(0)
          w = f32[2,2,2] parameter(1)
          v = f32[4,2] {opcode}(w)
          ROOT y = f32[3,2] dot(x, v)
        }}
        """,
        'parameter 1 weight "w"',
    )
    (weight,) = (tensor for tensor in made.tensors if tensor.name == "w")
    # Spread without a wish, it would lie on two tiles.
    assert weight.footprint.tiles == CHIP.tiles


def test_a_weight_that_a_loop_multiplies_lies_as_the_loop_wants_it():
    made = program(
        LOOP.replace("f32[16]", "f32[4,4]").format(
            work="h2 = f32[4,4] dot(h, w)", trips=", trip_count=5"
        ),
        WEIGHT,
    )
    (weight,) = [tensor for tensor in made.tensors if tensor.name == "w"]
    assert (weight.footprint.tiles, weight.footprint.tile_bytes) == (8, 8)


def test_elements_of_nested_tuples():
    made = program(
        """
        ENTRY main {
          x = f32[16] parameter(0)
          y = f32[16] negate(x)
          z = f32[16] tanh(x)
          pair = (f32[16], f32[16]) tuple(x, y)
          all = ((f32[16], f32[16]), f32[16]) tuple(pair, z)
          again = (f32[16], f32[16]) get-tuple-element(all), tuple_index=0
          y2 = f32[16] get-tuple-element(again), tuple_index=1
          ROOT out = f32[16] exponential(y2)
        }
        """
    )
    assert names(made)[-2:] == ["out", "outputs"]
    assert made.steps[-2].cycles > 1


def test_an_element_of_no_tuple_is_refused():
    with pytest.raises(ValueError, match="'y' takes an element of 'x', which is not a tuple. Rec"):
        program(
            """
            ENTRY main {
              x = f32[16] parameter(0)
              ROOT y = f32[16] get-tuple-element(x), tuple_index=0
            }
            """
        )


REPEATED = """
    ENTRY main {
      x = f32[32] parameter(0)
      a = f32[32] reverse(x), dimensions={0}
      p = f32[32] cholesky(a)
      b = f32[32] reverse(p), dimensions={0}
      q = f32[32] cholesky(b)
      ROOT c = f32[32] reverse(q), dimensions={0}
    }
"""


@pytest.mark.parametrize(("share_code", "copies_of_code"), [(True, 2), (False, 5)])
def test_equal_operations_share_vertices_and_exchange_code_on_request(share_code, copies_of_code):
    compiled = program(REPEATED, share_code=share_code)
    always = compiled.memory.always_live
    feeds = 2
    assert always["exchange_code"].tolist() == [3 * (feeds + copies_of_code)] * 8
    # The infeed has vertices, too; codelets are shared in any case.
    assert always["vertex_state"].tolist() == [2 * (1 + copies_of_code)] * 8
    assert always["vertex_code"].tolist() == [100 * (feeds + 2)] * 8
    # The values of one call are gone before the next, so nothing is copied.
    assert compiled.cycles == program(REPEATED, share_code=not share_code).cycles
