"""The first NaN is named in programs of every kind: feeds, replicas, pipelines, sessions, XLA."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import (
    IPUConfig,
    IPUStrategy,
    config,
    ipu_compiler,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    scopes,
)
from ipu_tf.ops import cross_replica_ops, replication_ops
from ipu_tf.pipelining import OptimizerFunctionOutput, pipeline


@pytest.fixture(autouse=True)
def ends():
    yield
    config.reset_ipu_configuration()


def configure(ipus=1):
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.auto_select_ipus = ipus
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()
    return IPUStrategy(enable_keras_extensions=False)


def found_by(strategy):
    programs = strategy.report(insights=False).programs
    return [found for program in programs for found in program.nonfinite]


def fed(values):
    data = tf.data.Dataset.from_tensor_slices(np.array(values, np.float32))
    return ipu_infeed_queue.IPUInfeedQueue(data), ipu_outfeed_queue.IPUOutfeedQueue()


@pytest.mark.slow
def test_what_leaves_by_an_outfeed_is_looked_at():
    strategy = configure()
    infeed, outfeed = fed([[4.0, 1.0], [-4.0, 1.0], [9.0, 1.0]])
    strategy.run(
        tf.function(
            lambda: loops.repeat(3, lambda x: outfeed.enqueue(tf.sqrt(x)), infeed_queue=infeed)
        )
    )
    (found,) = found_by(strategy)
    assert (found.op_type, found.operands[0].name) == ("Sqrt", "while/IpuDequeue")
    assert [number for _, number in found.iterations] == [1]
    assert np.isnan(outfeed.dequeue().numpy()).sum() == 1


def test_a_nan_that_an_effect_gives_is_from_outside():
    strategy = configure()

    @tf.function
    def step(x):
        def body(i, x):
            with scopes.outside_compilation_scope():
                y = tf.numpy_function(lambda: np.float32(np.nan), [], tf.float32)
                y = tf.ensure_shape(y, [])
            return i + 1, x + y

        return tf.while_loop(lambda i, _: i < 2, body, [0, x])[1]

    strategy.run(step, args=(tf.constant(1.0),))
    (found,) = found_by(strategy)
    assert (found.fault, found.op) == ("from outside", "while/outside/PyFunc")


@pytest.mark.slow
def test_replicas_are_told_apart():
    strategy = configure(ipus=2)
    weight = tf.Variable([1.0, 1.0])
    infeed, outfeed = fed([[1, 2], [3, 4], [5, 6], [-1, 1]])  # The last is of replica 1.

    def body(x):
        with tf.name_scope("block"):
            gradient = cross_replica_ops.cross_replica_sum(tf.math.log(x))
        weight.assign_add(gradient)
        outfeed.enqueue(gradient)

    strategy.run(tf.function(lambda: loops.repeat(2, body, infeed_queue=infeed)))
    (found,) = found_by(strategy)
    assert (found.op_type, found.replica, found.run) == ("Log", 1, 1)
    assert [number for _, number in found.iterations] == [1]
    assert np.isnan(outfeed.dequeue().numpy()[1]).any()


@pytest.mark.slow
def test_collectives_outside_of_loops():
    strategy = configure(ipus=2)

    @tf.function
    def step(x):
        index = tf.cast(replication_ops.replication_index(), tf.float32)
        return cross_replica_ops.cross_replica_sum(tf.math.log(x - index))

    strategy.run(step, args=(tf.constant([0.5, 2.0]),))
    (found,) = found_by(strategy)
    assert (found.op_type, found.replica, found.operands[0].low) == ("Log", 1, -0.5)


@pytest.mark.slow
def test_programs_of_sessions():
    configure()
    with tf.Graph().as_default():
        x = tf.compat.v1.placeholder(tf.float32, [2])

        def computation(x):
            initial = [1.0, 1.0]
            weight = tf.compat.v1.get_variable("w", initializer=initial, use_resource=True)
            with tf.name_scope("block"):
                y = tf.math.log(x)
            return tf.compat.v1.assign_add(weight, y)

        with scopes.ipu_scope("/device:IPU:0"):
            (result,) = ipu_compiler.compile(computation, [x])
        with tf.compat.v1.Session() as session:
            session.run(tf.compat.v1.global_variables_initializer())
            session.run(result, {x: [1.0, 2.0]})
            assert np.isnan(session.run(result, {x: [-1.0, 2.0]})).any()
    (found,) = found_by(ipu_compiler._strategies[-1])
    assert (found.op_type, found.run) == ("Log", 2)
    assert found.layer.endswith("block")


@pytest.mark.slow
def test_pipelines_without_keras():
    strategy = configure(ipus=2)
    infeed, outfeed = fed(np.ones((8, 2, 4)) * np.where(np.arange(8) == 6, -1, 1)[:, None, None])
    weight = tf.Variable(tf.ones([4, 3]))

    def first(x):
        return tf.matmul(x, weight)

    def second(x):
        with tf.name_scope("root"):
            return tf.reduce_mean(tf.sqrt(x))

    def optimizer(loss):
        return OptimizerFunctionOutput(tf.compat.v1.train.GradientDescentOptimizer(0.0), loss)

    @tf.function
    def program():
        pipeline(
            [first, second],
            gradient_accumulation_count=4,
            repeat_count=2,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimizer,
        )

    strategy.run(program)
    (found,) = found_by(strategy)
    assert (found.op_type, found.fault) == ("Sqrt", "invalid operation")
    assert (found.layer, found.stage, found.ipu) == ("pipeline_stage_1/root", 1, 1)
    assert found.tiles
    assert [number for _, number in found.iterations] == [1, 2]  # Update 1, micro-batch 2.


@pytest.mark.slow
def test_random_numbers_of_xla_are_drawn_again():
    strategy = configure()

    @tf.function(jit_compile=True)
    def step(x):
        noise = tf.random.stateless_uniform([2], [1, 2]) * tf.random.stateless_normal([2], [3, 4])
        return tf.sqrt(noise * noise - x)

    result = strategy.run(step, args=(tf.constant([0.0, 9.0]),))
    (found,) = found_by(strategy)
    assert found.op_type == "Sqrt"
    assert found.operands[0].high == pytest.approx(float(result[0]) ** 2, rel=1e-6)


@pytest.mark.slow
def test_jitted_functions_inside():
    strategy = configure()
    weight = tf.Variable([1.0, 1.0])

    @tf.function(jit_compile=True)
    def inner(x):
        with tf.name_scope("block"):
            return tf.math.log(x) + tf.random.stateless_uniform([2], [1, 2])

    strategy.run(tf.function(lambda x: weight.assign(inner(x))), args=(tf.constant([0.0, 2.0]),))
    (found,) = found_by(strategy)
    assert (found.op_type, found.layer) == ("Log", "block")
    assert found.around[1] == pytest.approx(np.log(2.0))


@pytest.mark.slow
def test_functions_that_xla_compiles_around_a_run():
    strategy = configure()
    weight = tf.Variable([1.0, 1.0])

    @tf.function(jit_compile=True)
    def step(x):
        def update():
            with tf.name_scope("block"):
                weight.assign_add(tf.math.log(x) + tf.random.stateless_uniform([2], [1, 2]))
            return weight * 2.0

        return strategy.run(update)

    step(tf.constant([1.0, 2.0]))
    after = weight.numpy()
    result = step(tf.constant([-1.0, 2.0])).numpy()
    (found,) = found_by(strategy)
    assert (found.op_type, found.layer, found.run) == ("Log", "block", 2)
    assert (found.operands[0].low, found.operands[0].high) == (-1.0, 2.0)
    assert found.tiles
    assert np.isnan(result[0])
    np.testing.assert_array_equal(weight.numpy()[1] * 2.0, result[1])
    assert after[1] < weight.numpy()[1]


@pytest.mark.slow
def test_loops_that_xla_compiles_around_a_run():
    strategy = configure()
    weight = tf.Variable([1.0, 4.0])

    def root():
        weight.assign(tf.sqrt(weight - 1.5))

    @tf.function(jit_compile=True)
    def steps():
        def body(i):
            strategy.run(root)
            return (i + 1,)

        return tf.while_loop(lambda i: i < 3, body, [0])

    steps()
    (found,) = found_by(strategy)
    assert (found.op_type, found.run, found.operands[0].low) == ("Sqrt", 1, -0.5)


def test_what_xla_cannot_replay_says_so(caplog):
    strategy = configure()
    infeed, _ = fed([[1.0], [2.0]])
    weight = tf.Variable([0.0])

    def body(x):
        weight.assign_add(x)

    @tf.function(jit_compile=True)
    def step():
        strategy.run(lambda: loops.repeat(2, body, infeed_queue=infeed))

    step()
    assert weight.numpy() == 3.0
    assert "is not traced by simulator.trace_numerics" in caplog.text


@pytest.mark.slow
@pytest.mark.parametrize("eager", [False, True])
def test_tapes_around_a_run(eager):
    strategy = configure()
    weight = tf.Variable([1.0, 2.0])

    @tf.function
    def loss(x):
        with tf.name_scope("block"):
            y = tf.math.log(weight * x)
        return tf.reduce_sum(y)

    def gradient(x):
        with tf.GradientTape() as tape:
            result = strategy.run(loss, args=(x,))
        return tape.gradient(result, weight)

    if not eager:
        gradient = tf.function(gradient)
    np.testing.assert_allclose(gradient(tf.constant([2.0, 2.0])), [1.0, 0.5])
    gradient(tf.constant([-2.0, 2.0]))
    (found,) = found_by(strategy)
    assert (found.op_type, found.layer, found.run) == ("Log", "block", 2)


@pytest.mark.slow
def test_steps_of_recurrent_layers():
    configure()
    keras.utils.set_random_seed(3)  # It overflows in the third step.
    with IPUStrategy().scope():
        lstm = keras.layers.LSTM(
            4, activation="exponential", recurrent_initializer="ones", name="lstm"
        )
        model = keras.Sequential([keras.Input((6, 3)), lstm, keras.layers.Dense(1)], name="net")
        model.compile("sgd", "mse")
        model.fit(np.full((4, 6, 3), 30.0), np.ones((4, 1)), batch_size=2, verbose=0)
        (found,) = found_by(model.distribute_strategy)
    assert (found.op_type, found.fault) == ("Exp", "overflow")
    assert found.layer.startswith("net/lstm")
    ((loop, iteration),) = found.iterations
    assert ("lstm" in loop, 0 < iteration < 6) == (True, True)
