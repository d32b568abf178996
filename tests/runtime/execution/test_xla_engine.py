"""Programs of many small operations, run by XLA."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.runtime.execution import xla_engine
from tests.grids import mostly_slow

WEIGHTS = np.linspace(-0.5, 0.5, 64, dtype="float32").reshape(8, 8)
X = np.ones((4, 8), "float32")


def strategy_for(engine="auto"):
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.simulator.engine = engine
    cfg.configure_ipu_system()
    return IPUStrategy()


@pytest.fixture(autouse=True)
def reset():
    yield
    config.reset_ipu_configuration()


def walk(steps):
    """Returns a function with a loop of products, tanh and random steps."""

    def fn(x, seed):
        for i in tf.range(steps):
            noise = tf.random.stateless_normal(x.shape, tf.stack([seed, i]))
            x = tf.tanh(x @ WEIGHTS) + 0.1 * noise
        return {"x": x, "parts": (tf.reduce_sum(x), None)}

    return fn


def arguments():
    return tf.constant(X), tf.constant(7)


def assert_equal_walks(found, wanted):
    """Checks an array element by element, up to the rounding of the terms that are added up.

    An element near zero is a sum of terms that cancel: its error is that of the terms, which
    are of size 1, in an order of addition that each processor has its own of.
    """
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def run(strategy, fn, *args, **options):
    result = strategy.run(tf.function(fn, **options), args=args or arguments())
    (program,) = strategy.report(insights=False).programs
    return result, program.device.notes


def test_many_small_operations_run_by_xla_with_the_numbers_of_the_graph():
    found, notes = run(strategy_for(), walk(300))
    wanted = tf.function(walk(300))(*arguments())
    np.testing.assert_allclose(found["x"], wanted["x"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(found["parts"][0], wanted["parts"][0], rtol=1e-4)
    assert found["parts"][1] is None
    (note,) = notes
    assert note.startswith("the host runs it by XLA: ")
    assert note.endswith("in loops a run")


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("engine", "steps"), [("graph", 300), ("auto", 3)])
def test_other_programs_run_as_graphs(engine, steps):
    found, notes = run(strategy_for(engine), walk(steps))
    assert_equal_walks(found["x"], tf.function(walk(steps))(*arguments())["x"])
    assert notes == ()


def test_tile_ops_give_the_same_bits_in_both_engines():
    def products(x):
        for _ in tf.range(5):
            x = x @ WEIGHTS
        return x

    (graph, _), (xla, notes) = (
        run(strategy_for(engine), products, tf.constant(X)) for engine in ("graph", "xla")
    )
    np.testing.assert_array_equal(graph, xla)
    assert notes


@pytest.mark.slow
def test_a_jitted_function_draws_the_numbers_of_xla():
    found, notes = run(strategy_for(), walk(3), jit_compile=True)
    wanted = tf.function(walk(3), jit_compile=True)(*arguments())
    assert_equal_walks(found["x"], wanted["x"])
    assert not np.allclose(found["x"], tf.function(walk(3))(*arguments())["x"])
    assert notes[0].startswith("the host runs it by XLA: ")


@pytest.mark.slow
def test_the_same_function_with_and_without_jit_compile_has_two_programs():
    strategy, fn = strategy_for(), walk(3)
    plain = strategy.run(tf.function(fn), args=arguments())["x"]
    jitted = strategy.run(tf.function(fn, jit_compile=True), args=arguments())["x"]
    assert not np.allclose(plain, jitted)


def test_effects_stay_with_the_graph_and_the_report_says_so():
    total = tf.Variable(0.0)

    def adds(x):
        total.assign_add(tf.reduce_sum(x))
        return x + 1.0

    _, notes = run(strategy_for(), adds, tf.constant(X), jit_compile=True)
    assert float(total) == X.sum()
    assert "the host runs it as a graph, not by XLA: it uses '" in notes[0]
    assert "which lives outside of the program" in notes[0]

    def prints(x):
        tf.print(x[0, 0], output_stream="file:///dev/null")
        return x

    _, notes = run(strategy_for("xla"), prints, tf.constant(X))
    assert "(PrintV2) has effects beside its results" in notes[0]


DRAWS = {
    "uniform": lambda shape, seed: tf.random.stateless_uniform(shape, seed),
    "integers": lambda shape, seed: tf.cast(
        tf.random.stateless_uniform(shape, seed, 0, 1000, tf.int32), tf.float32
    ),
    "truncated": lambda shape, seed: tf.random.stateless_truncated_normal(shape, seed),
    "split": lambda shape, seed: tf.random.stateless_normal(shape, tf.random.split(seed)[1]),
    "gamma": lambda shape, seed: tf.random.stateless_gamma(shape, seed, 2.0),
    "categorical": lambda shape, seed: tf.cast(
        tf.random.stateless_categorical(tf.zeros([1, 9]), 8, seed)[0], tf.float32
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("draw", mostly_slow(DRAWS, fast=["uniform"]))
def test_random_numbers_are_those_of_the_graph(draw):
    def fn(seed):
        total = tf.zeros([8])
        for _ in tf.range(3):
            total += draw([8], seed)
            seed = tf.random.experimental.stateless_fold_in(seed, 1)
        return total

    seed = tf.constant([3, 4])
    found, notes = run(strategy_for("xla"), fn, seed)
    np.testing.assert_allclose(found, tf.function(fn)(seed), rtol=1e-5)
    assert notes[-1].startswith("the host runs it by XLA: ")


@pytest.mark.slow
def test_convolutions_in_loops_stay_with_the_graph():
    kernel = np.ones((3, 3, 2, 2), "float32") * 0.05

    def fn(x):
        for _ in tf.range(700):
            x = tf.tanh(tf.nn.conv2d(x, kernel, 1, "SAME"))
        return x

    _, notes = run(strategy_for(), fn, tf.ones([1, 4, 4, 2]))
    assert notes == ()


def test_an_unknown_engine_is_refused():
    with pytest.raises(ValueError, match=r"simulator\.engine must be 'auto' or 'graph' or 'xla'"):
        strategy_for("fast")


@pytest.mark.slow
def test_operations_in_loops_are_counted_with_their_runs():
    strategy = strategy_for("graph")

    def counted(steps):
        strategy.reset_report()
        run(strategy, walk(steps))
        (program,) = strategy.report(insights=False).programs
        return xla_engine.operations_in_loops(program.device)

    assert counted(30) - counted(20) == counted(20) - counted(10) >= 30
