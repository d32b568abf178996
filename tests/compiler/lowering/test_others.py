"""Linear algebra, collectives, the host, control flow, random numbers."""

import pytest

from ipu_tf.compiler.compile import compile_program
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse
from ipu_tf.machine import links
from ipu_tf.machine.system import system_of
from ipu_tf.machine.target import target
from tests.compiler.lowering.programs import run


def factored(size):
    return run(f"x = f32[{size},{size}] parameter(0)\nr = f32[{size},{size}] cholesky(x)")


def test_a_factorisation_is_blocked():
    small, large = factored(48), factored(200)
    assert not any(step.name == "multiply" for step in small.lowered["r"].supersteps)
    # 200 columns are four blocks; after each but the last the rest is updated.
    assert sum(step.name == "multiply" for step in large.lowered["r"].supersteps) == 3
    assert large.lowered["r"].flops == 200**3 // 3
    assert large.cycles("r") > small.cycles("r")


def solved(size, sides):
    return run(
        f"a = f32[{size},{size}] parameter(0)\nb = f32[{size},{sides}] parameter(1)\n"
        f"r = f32[{size},{sides}] triangular-solve(a, b), triangular_solve_options={{"
        "left_side=true lower=true unit_diagonal=false transpose=false}"
    )


def test_a_solution_is_blocked():
    assert sum(step.name == "multiply" for step in solved(130, 8).lowered["r"].supersteps) == 2
    assert solved(130, 8).lowered["r"].flops == 130**2 * 8
    assert solved(130, 64).cycles("r") > solved(130, 8).cycles("r")


def test_smaller_blocks_are_more_blocks():
    module = parse("ENTRY main {\nx = f32[64,64] parameter(0)\nROOT r = f32[64,64] cholesky(x)\n}")
    steps = [
        sum(
            superstep.name == "multiply"
            for step in compile_program(module, CompilerOptions(cholesky_block=block), {}, 0).steps
            for superstep in step.supersteps
        )
        for block in (16, 64)
    ]
    assert steps == [3, 0]


def test_blocks_have_a_size():
    with pytest.raises(ValueError, match="CompilerOptions.cholesky_block must be positive. Rec"):
        CompilerOptions(cholesky_block=0)


def reflected(rows, columns, batch=1):
    return run(
        f"x = f32[{batch},{rows},{columns}] parameter(0)\n"
        f"qr = (f32[{batch},{rows},{columns}], f32[{batch},{columns}]) custom-call(x), "
        'custom_call_target="Qr"\n'
        f"m = f32[{batch},{rows},{columns}] get-tuple-element(qr), tuple_index=0\n"
        f"t = f32[{batch},{columns}] get-tuple-element(qr), tuple_index=1\n"
        f"q = f32[{batch},{rows},{columns}] custom-call(m, t), "
        'custom_call_target="ProductOfElementaryHouseholderReflectors"'
    )


def test_columns_are_reflected_one_after_the_other():
    program = reflected(40, 8)
    exchanging = [step for step in program.lowered["q"].supersteps if step.sync_cycles]
    assert [step.sync_cycles for step in exchanging] == [8 * target("bow").sync_cycles]
    # Reflectors have 40 to 33 elements, 37 in the mean (rounded up).
    assert program.lowered["q"].flops == 4 * 8 * 37 * 8
    assert program.cycles("qr") > program.cycles("q") > 0
    assert program.placements["qr"][0] == program.placements["m"][0]


def test_longer_columns_and_more_of_them_take_longer():
    least = reflected(40, 8)
    for more in (reflected(400, 8), reflected(40, 16), reflected(40, 8, batch=40)):
        assert all(more.cycles(name) > least.cycles(name) for name in ("qr", "q"))


def rotated(size, sweeps=12, batch=1):
    return run(
        f"x = f32[{batch},{size},{size}] parameter(0)\n"
        f"r = (f32[{batch},{size},{size}], f32[{batch},{size}]) custom-call(x), "
        f'custom_call_target="Eigh", backend_config="1,1,{sweeps},0.000001"'
    )


def test_every_column_meets_every_other_in_a_sweep():
    # Ten columns are five pairs: nine rounds, which rotate three matrices by three operations.
    assert rotated(10, sweeps=2).lowered["r"].flops == 2 * 9 * 9 * 10 * 10
    assert rotated(9, sweeps=2).lowered["r"].flops == 2 * 9 * 9 * 9 * 9


def test_more_sweeps_and_matrices_take_longer():
    least = rotated(16)
    for more in (rotated(16, sweeps=13), rotated(18), rotated(16, batch=40)):
        assert more.cycles("r") > least.cycles("r")


def reduced_over(ipus, elements=4096):
    group = ",".join(map(str, range(ipus)))
    return run(
        f"x = f32[{elements}] parameter(0)\n"
        f"r = f32[{elements}] all-reduce(x), replica_groups={{{{{group}}}}}"
    )


def test_one_ipu_has_nothing_to_exchange():
    assert reduced_over(1).lowered["r"].view_of == 0


def test_several_ipus_use_their_links():
    program = reduced_over(4)
    (step,) = program.lowered["r"].supersteps
    seconds = links.all_reduce_seconds(system_of("bow", 4), 4, 4096 * 4)
    assert step.exchange_cycles == round(seconds * program.context.target.clock_hz)
    assert step.compute_cycles > 0
    assert program.lowered["r"].flops == 3 * 4096


def test_more_ipus_take_longer():
    cycles = [reduced_over(ipus).cycles("r") for ipus in (2, 4, 16)]
    assert cycles == sorted(set(cycles))


def test_a_host_call_waits_for_the_host():
    program = run("x = f32[4096] parameter(0)\nr = f32[2] host-call(x)\nq = f32[4096] infeed()")
    (step,) = program.lowered["r"].supersteps
    assert step.host_cycles > 0
    assert step.exchange_bytes == 4096 * 4 + 2 * 4


def test_a_loop_tests_its_condition_once_more_than_it_runs():
    def loop(attribute):
        program = run(f"x = f32[8] parameter(0)\nr = f32[8] while(x){attribute}")
        return program.cycles("r")

    once = loop(", trip_count=0")
    assert loop(", trip_count=9") == 10 * once
    assert loop("") == 2 * once


@pytest.mark.parametrize("distribution", ["normal", "truncated_normal", "uniform"])
def test_random_numbers_are_drawn_on_all_tiles(distribution):
    def drawn(elements):
        return run(
            f'a = f32[] parameter(0)\nr = f32[{elements}] rng(a, a), distribution="{distribution}"'
        )

    assert drawn(4096).placements["r"][0].tiles == 8
    assert drawn(1 << 16).cycles("r") > drawn(4096).cycles("r")


def test_a_generator_of_a_constant_seed_receives_nothing():
    program = run(
        "s = u64[2] parameter(0)\nq = u32[512] rng-bit-generator(s)\n"
        "r = u32[512] rng-bit-generator()"
    )
    assert program.exchange_bytes("r") == 0
    assert 0 < program.cycles("r") < program.cycles("q")


def test_the_state_of_a_generator_stays_where_it_is():
    program = run(
        "s = u64[2] parameter(0)\nr = (u64[2], u32[512]) rng-bit-generator(s)\n"
        "q = u32[512] rng-bit-generator(s)"
    )
    assert program.placements["r"][0] == program.placements["s"][0]
    assert len(program.placements["q"]) == 1


def test_an_all_to_all_shares_the_rails():
    group = ",".join(map(str, range(16)))
    program = run(
        "x = f32[16,65536] parameter(0)\n"
        f"r = f32[16,65536] all-to-all(x), replica_groups={{{{{group}}}}}"
    )
    (step,) = program.lowered["r"].supersteps
    system, share_bytes = system_of("bow", 16), 65536 * 4
    # Either half of the IPUs sends a share to each of the other half, over two rails.
    rail = links.bytes_per_second(system, links.Route(rail_hops=1))
    least = 8 * 8 * share_bytes / (2 * rail)
    assert step.exchange_cycles >= least * program.context.target.clock_hz
