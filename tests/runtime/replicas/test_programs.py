"""Programs on several replicas, against NumPy models of as many workers."""

import functools
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, ipu_compiler, scopes, utils
from ipu_tf.config import StochasticRoundingBehaviour, reset_ipu_configuration
from ipu_tf.ops import cross_replica_ops, replication_ops
from ipu_tf.ops.kernels import replica_context
from tests.runtime.replicas.programs import index, of_all, on_ipus


@pytest.fixture(autouse=True)
def _own_configuration():
    yield
    reset_ipu_configuration()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_program_runs_on_every_ipu_of_the_device(count):
    strategy = on_ipus(count)

    @tf.function
    def program(x):
        assert strategy.num_replicas == count
        return of_all(x * (index() + 1.0), count)

    assert strategy.num_replicas == count
    assert strategy.num_replicas_in_sync == 1
    x = np.float32([1.0, -2.0])
    expected = [x * (replica + 1) for replica in range(count)]
    np.testing.assert_array_equal(strategy.run(program, args=(tf.constant(x),)), expected)


def test_graphs_with_programs_on_replicas_are_written():
    with tf.Graph().as_default() as graph, on_ipus(2).scope():
        x = tf.compat.v1.placeholder(tf.float32, [4, 3])

        def count_up(x):
            return tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x * index()), (0, x))[1]

        with scopes.ipu_scope("/device:IPU:0"):
            ipu_compiler.compile(count_up, [x])
        functions = graph.as_graph_def(add_shapes=True).library.function
    bodies = [one for one in functions if "body" in one.signature.name]
    assert len(bodies) == 2


def test_a_run_returns_what_replica_0_returns():
    strategy = on_ipus(2)

    @tf.function
    def program(x):
        return {"index": replication_ops.replication_index(), "nothing": None, "x": (x,)}

    results = strategy.run(program, args=(tf.constant(3.0),))
    assert results["nothing"] is None
    assert (int(results["index"]), float(results["x"][0])) == (0, 3.0)


@pytest.mark.slow
def test_sums_in_nested_loops_and_conditions_join_all_replicas():
    strategy = on_ipus(4)

    @tf.function
    def halved(x):
        return cross_replica_ops.cross_replica_mean(x) / 2.0

    @tf.function
    def program(x):
        for outer in tf.range(2):
            for _ in tf.range(3):
                x = cross_replica_ops.cross_replica_sum(x * (index() + 1.0)) / 10.0
            if outer == 1:
                x = halved(x + index())
        return x

    x = np.zeros(4, np.float32) + 5.0
    ranks = np.arange(4, dtype=np.float32)
    for outer in range(2):
        for _ in range(3):
            x[:] = np.sum(x * (ranks + 1)) / 10
        if outer == 1:
            x[:] = np.mean(x + ranks) / 2
    np.testing.assert_allclose(strategy.run(program, args=(tf.constant(5.0),)), x[0], rtol=1e-6)


def test_a_collective_that_some_replicas_never_reach_fails_with_their_numbers():
    strategy = on_ipus(4)

    @tf.function
    def program(x):
        for _ in tf.range(2 + replication_ops.replication_index() // 3):
            x = cross_replica_ops.cross_replica_sum(x, name="total")
        return x

    message = "'while/total' is never reached by replicas 0, 1 and 2, which have ended; replica 3"
    with pytest.raises(tf.errors.FailedPreconditionError, match=message):
        strategy.run(program, args=(tf.constant(1.0),))


def test_replicas_at_different_collectives_fail_with_their_places():
    strategy = on_ipus(2)

    @tf.function
    def program(x):
        if replication_ops.replication_index() == 0:
            x = cross_replica_ops.cross_replica_sum(x, name="left")
        else:
            x = cross_replica_ops.cross_replica_sum(x, name="right")
        return x

    with pytest.raises(tf.errors.FailedPreconditionError, match=r"different collectives: .*left"):
        strategy.run(program, args=(tf.constant(1.0),))


def test_the_error_of_one_replica_ends_the_others():
    strategy = on_ipus(2)

    @tf.function
    def program(x):
        tf.debugging.assert_less(replication_ops.replication_index(), 1, "not on replica 1")
        return cross_replica_ops.cross_replica_sum(x)

    with pytest.raises(tf.errors.InvalidArgumentError, match="not on replica 1"):
        strategy.run(program, args=(tf.constant(1.0),))


def test_replicas_have_variables_of_their_own_until_one_is_assigned(caplog):
    strategy = on_ipus(2)
    with strategy.scope():
        count = tf.Variable(10.0, name="count")
        same = tf.Variable(1.0, name="same")

    @tf.function
    def program():
        count.assign_add(index() + 1.0)
        same.assign(same + 1.0)
        return of_all(count, 2)

    with caplog.at_level(logging.WARNING):
        np.testing.assert_array_equal(strategy.run(program), [11.0, 12.0])
        np.testing.assert_array_equal(strategy.run(program), [12.0, 14.0])
    assert count.numpy() == 12.0
    notices = [one.getMessage() for one in caplog.records if one.name.startswith("ipu_tf")]
    assert len(notices) == 1
    assert "different values of 'count'. Outside of the program" in notices[0]
    count.assign(12.0)  # The value of replica 0 again, yet an assignment.
    np.testing.assert_array_equal(strategy.run(program), [13.0, 14.0])
    assert same.numpy() == 4.0


def test_data_parallel_training_is_that_of_the_large_batch():
    rng = np.random.default_rng(1)
    x, y = rng.normal(size=(8, 3)).astype(np.float32), rng.normal(size=8).astype(np.float32)
    strategy = on_ipus(4)
    with strategy.scope():
        weights = tf.Variable(tf.zeros([3, 1]))

    @tf.function
    def step():
        mine = tf.constant(x.reshape(4, 2, 3))[replication_ops.replication_index()]
        labels = tf.constant(y.reshape(4, 2, 1))[replication_ops.replication_index()]
        for _ in tf.range(5):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((mine @ weights - labels) ** 2) / 8.0
            gradient = cross_replica_ops.cross_replica_sum(tape.gradient(loss, weights))
            weights.assign_sub(0.1 * gradient)

    strategy.run(step)
    expected = np.zeros((3, 1))
    for _ in range(5):
        expected -= 0.1 * 2 * x.T.astype(float) @ (x @ expected - y[:, None]) / 8
    np.testing.assert_allclose(weights.numpy(), expected, rtol=1e-5)


def test_random_streams_differ_between_replicas_and_repeat_with_the_seed():
    strategy = on_ipus(4)

    def draws():
        tf.random.set_seed(3)

        @tf.function
        def program():
            values = tf.zeros([2])
            for _ in tf.range(2):
                values += tf.random.normal([2], seed=1)
            return of_all(values, 4)

        return np.array([strategy.run(program) for _ in range(2)])

    first = draws()
    assert len(np.unique(first)) == first.size
    np.testing.assert_array_equal(first, draws())


@pytest.mark.slow
def test_generators_and_keras_layers_draw_other_numbers_on_each_replica():
    strategy = on_ipus(2)
    with strategy.scope():
        dropout = keras.layers.Dropout(0.5, seed=1)
    # In a scope TensorFlow draws other numbers, on one replica, too.
    generator = tf.random.Generator.from_seed(3)

    @tf.function
    def program():
        drawn = generator.uniform([32]), dropout(tf.ones([32]), training=True)
        return of_all(tf.stack(drawn), 2), tf.stack(drawn)

    (first, of_0), (second, _) = strategy.run(program), strategy.run(program)
    for drawn in (first.numpy()[:, 0], first.numpy()[:, 1]):
        assert (drawn[0] != drawn[1]).any()
    assert (first.numpy() != second.numpy()).any(axis=(1, 2)).all()
    expected = tf.random.Generator.from_seed(3).uniform([32])
    np.testing.assert_array_equal(of_0[0], expected)  # What a single replica draws.


@pytest.mark.slow
def test_keras_optimizers_sum_the_gradients_of_replicas():
    strategy = on_ipus(2)
    with strategy.scope():
        weight = keras.Variable(tf.zeros([3]))
        optimizer = keras.optimizers.SGD(0.5)
        optimizer.build([weight])

    @tf.function
    def program():
        optimizer.apply_gradients([(tf.ones([3]) * (index() + 1.0), weight)])
        context = tf.distribute.get_replica_context()
        return of_all(weight.value, 2), context.all_reduce("MEAN", index())

    weights, mean = strategy.run(program)
    np.testing.assert_array_equal(weights, np.full((2, 3), -1.5))
    assert float(mean) == 0.5


def test_stochastic_rounding_draws_other_bits_on_each_replica():
    x = tf.constant(np.random.default_rng(1).normal(size=(16, 16)), tf.float16)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 2
    cfg.floating_point_behaviour.esr = StochasticRoundingBehaviour.ON
    cfg.configure_ipu_system()
    strategy = IPUStrategy()

    @tf.function
    def program():
        y = x
        for _ in tf.range(2):
            y = tf.matmul(y, x) / 4.0
        return of_all(y, 2)

    found = []
    for identical in (False, True, False):
        utils.reset_ipu_seed(1, experimental_identical_replicas=identical)
        found.append(strategy.run(program).numpy())
    own, same, again = found
    assert (own[0] != own[1]).any()
    np.testing.assert_array_equal(again, own)
    np.testing.assert_array_equal(same, [own[0], own[0]])


def test_a_jitted_function_of_a_program_sums_over_replicas():
    @tf.function(jit_compile=True)
    def total(x):
        return cross_replica_ops.cross_replica_sum(x)

    found = on_ipus(2).run(tf.function(lambda: of_all(total(index() + 1.0), 2)))
    np.testing.assert_array_equal(found, [3, 3])


@pytest.mark.slow
def test_jitted_functions_of_a_program_join_replicas():
    """In loops and branches, with gradients; each replica has its own random numbers."""
    strategy = on_ipus(2)
    w = tf.Variable(2.0)

    @tf.function(jit_compile=True)
    def total(x):
        return cross_replica_ops.cross_replica_sum(w * x)

    @tf.function(jit_compile=True)
    def body(step, x, found):
        with tf.GradientTape() as tape:
            joined = total(x)
        gradient = tape.gradient(joined, w)
        rest = tf.cond(step > 0, lambda: total(x), lambda: x)
        return step + 1, x + 1.0, found + tf.stack([joined, gradient, rest])

    @tf.function(jit_compile=True)
    def program():
        x = tf.cast(index(), tf.float32) + 1.0
        _, _, found = tf.while_loop(lambda step, *_: step < 2, body, (0, x, tf.zeros([3])))
        return of_all(found, 2), of_all(tf.random.normal([3]), 2)

    found, noise = strategy.run(program)
    # Replica r has x = r + 1, then r + 2; a sum's gradient is the sum of the replicas' gradients.
    sums = 2.0 * (1 + 2) + 2.0 * (2 + 3)
    expected = [[sums, 2 * 1 + 2 * 2, 1 + 10], [sums, 2 * 2 + 2 * 3, 2 + 10]]
    np.testing.assert_array_equal(found, expected)
    assert (noise[0] != noise[1]).numpy().all()
    with pytest.raises(NotImplementedError, match="runs on 2 replicas, and is called in a functio"):
        tf.function(lambda: strategy.run(program), jit_compile=True)()


def test_replicas_share_the_ipus_that_a_program_does_not_need():
    strategy = on_ipus(4)

    def program(ipus):
        replica_context.require_ipus(ipus)
        assert strategy.num_replicas == {1: 4, 2: 2, 3: 1}[ipus]
        return cross_replica_ops.cross_replica_sum(tf.constant(1.0))

    for ipus, replicas in ((1, 4), (2, 2), (3, 1)):
        assert strategy.run(tf.function(functools.partial(program, ipus))) == replicas
    with pytest.raises(ValueError, match="has 4 IPUs attached, .* requires a multiple of 8 IPUs"):
        strategy.run(tf.function(functools.partial(program, 5)))


def test_refuses_ipus_that_are_not_a_multiple_of_those_of_a_replica():
    strategy = on_ipus(3)
    with pytest.raises(ValueError, match="has 3 IPUs attached, .* requires a multiple of 2 IPUs"):
        strategy.run(tf.function(lambda: replica_context.require_ipus(2)))

    @tf.function
    def three_shards(x):
        for shard in range(3):
            with scopes.ipu_shard(shard):
                x = x + 1.0
        return x

    advice = "rounded up to a power of two, which are 4. Set `auto_select_ipus` .* to 4 or a multi"
    with pytest.raises(ValueError, match=advice):
        strategy.run(three_shards, args=(tf.constant(1.0),))


def test_no_gradient_leaves_the_program_of_replicas():
    strategy = on_ipus(2)
    weight = tf.Variable(3.0)

    @tf.function
    def program(x):
        return weight * x * (index() + 1.0)

    def gradient(x):
        with tf.GradientTape() as tape:
            y = strategy.run(program, args=(x,))
        return tape.gradient(y, weight)

    for outside in (gradient, tf.function(gradient)):
        with pytest.raises(
            NotImplementedError, match="runs on several replicas, and a gradient of"
        ):
            outside(tf.constant(2.0))


def test_a_program_runs_on_replicas_inside_of_another_function():
    strategy = on_ipus(2)
    with strategy.scope():
        count = tf.Variable(0.0)

    @tf.function
    def host(x):
        for _ in tf.range(3):
            x = strategy.run(lambda y: cross_replica_ops.cross_replica_sum(y + index()), args=(x,))
            strategy.run(lambda: count.assign_add(index() + 1.0))
        return x, count + 0.0

    x, counted = host(tf.constant(1.0))
    assert (float(x), float(counted), count.numpy()) == (15.0, 3.0, 3.0)
