"""Computations of TensorFlow 1 graphs run as programs of the IPU in a session."""

import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, ipu_compiler, loops, scopes
from ipu_tf.compat.tensorflow1.context import tensorflow_1
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.feeds.outfeed_queue import IPUOutfeedQueue
from ipu_tf.ops import all_to_all_op, cross_replica_ops, normalization_ops, replication_ops
from ipu_tf.optimizers import (
    CrossReplicaOptimizer,
    GradientAccumulationOptimizerV2,
    ShardedOptimizer,
)
from ipu_tf.pipelining import OptimizerFunctionOutput, pipeline
from ipu_tf.utils import move_variable_initialization_to_cpu

v1 = tf.compat.v1
IPU = "/device:IPU:0"


@pytest.fixture(autouse=True)
def programs_apart():
    with ipu_compiler.strategy_of_graphs().programs_apart():
        yield
    reset_ipu_configuration()


def configure(ipus):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


def train_step(x, y):
    weight = v1.get_variable("weight", [4, 3], initializer=tf.ones_initializer())
    loss = tf.reduce_mean(tf.square(tf.matmul(x, weight) - y))
    return loss, v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def losses_of(build, steps=3):
    """Returns the losses of some steps in a session, given what builds the step."""
    with tf.Graph().as_default(), v1.Session() as session:
        x, y = v1.placeholder(tf.float32, [2, 4]), v1.placeholder(tf.float32, [2, 3])
        step = build(x, y)
        move_variable_initialization_to_cpu()
        session.run(v1.global_variables_initializer())
        data = {x: np.arange(8).reshape(2, 4) / 8, y: np.zeros((2, 3))}
        return [session.run(step, data)[0] for _ in range(steps)]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("scope", [scopes.ipu_scope, tf.device])
def test_a_session_trains_as_in_stock_tensorflow(scope):
    configure(1)

    def on_ipu(x, y):
        with scope(IPU):
            return ipu_compiler.compile(train_step, [x, y])

    np.testing.assert_allclose(losses_of(on_ipu), losses_of(train_step), rtol=1e-6)
    (program,) = ipu_compiler.strategy_of_graphs().report().programs
    assert program.name == "train_step"
    assert {op.op_type for op in program.tile_ops} == {"MatMul"}
    assert program.device.stages[0].program.steps


def pipelined_losses(infeed, outfeed):
    """Returns the losses of a pipeline on two IPUs in a session."""

    def first(rate, x):
        weight = v1.get_variable("first", [4, 8], initializer=tf.ones_initializer())
        return rate, tf.matmul(x, weight)

    def second(rate, x):
        weight = v1.get_variable("second", [8], initializer=tf.ones_initializer())
        return rate, tf.reduce_mean(tf.square(tf.tensordot(x, weight, 1)))

    def optimize(rate, loss):
        return OptimizerFunctionOutput(v1.train.MomentumOptimizer(rate, 0.9), loss)

    def net(rate):
        return pipeline(
            [first, second],
            4,
            repeat_count=2,
            inputs=[rate],
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimize,
            outfeed_loss=True,
        )

    rate = v1.placeholder(tf.float32, [])
    with scopes.ipu_scope(IPU):
        operation = ipu_compiler.compile(net, [rate])
    dequeue = outfeed.dequeue()
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(infeed.initializer)
        session.run(operation, {rate: 0.001})
        return session.run(dequeue)


def expected_losses(batches, rate=0.001):
    first, second = np.ones((4, 8)), np.ones(8)
    momenta, losses = [0, 0], []
    for update in range(2):
        sums = [0, 0]
        for batch in batches[update * 4 : update * 4 + 4]:
            hidden = batch @ first
            result = hidden @ second
            losses.append(np.mean(result**2))
            back = 2 * result / len(result)
            sums[0] = sums[0] + batch.T @ np.outer(back, second)
            sums[1] = sums[1] + hidden.T @ back
        momenta = [0.9 * old + new for old, new in zip(momenta, sums, strict=True)]
        first, second = first - rate * momenta[0], second - rate * momenta[1]
    return losses


@pytest.mark.slow
def test_a_session_feeds_and_trains_a_pipeline():
    configure(2)
    batches = np.arange(64).reshape(8, 2, 4) / 64
    with tf.Graph().as_default():
        data = tf.data.Dataset.from_tensor_slices(batches)
        infeed = IPUInfeedQueue(data.map(lambda batch: tf.cast(batch, tf.float32)))
        losses = pipelined_losses(infeed, IPUOutfeedQueue())
    np.testing.assert_allclose(losses, expected_losses(batches), rtol=1e-5)
    (program,) = ipu_compiler.strategy_of_graphs().report().programs
    assert [stage.ipu for stage in program.device.stages] == [0, 1]


def test_an_infeed_that_is_not_initialized_ends_the_program():
    configure(1)
    with tf.Graph().as_default(), v1.Session() as session:
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(np.float32(1)))
        with scopes.ipu_scope(IPU):
            (result,) = ipu_compiler.compile(infeed.dequeue)
        with pytest.raises(tf.errors.FailedPreconditionError, match="run its `initializer`"):
            session.run(result)


def test_a_program_may_be_built_in_the_graph_that_a_script_begins_with():
    configure(1)
    with tensorflow_1():
        with tf.device(IPU):
            (read,) = ipu_compiler.compile(lambda: v1.get_variable("weight", initializer=3.0) + 1)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            assert session.run(read) == 4
        assert [one.name for one in v1.global_variables()] == ["weight:0"]


def test_results_keep_their_structure():
    configure(1)
    with tf.Graph().as_default(), v1.Session() as session, scopes.ipu_scope(IPU):
        assert session.run(ipu_compiler.compile(lambda: tf.constant(3))) == [3]
        assert session.run(ipu_compiler.compile(lambda: {"a": tf.constant(3)})) == {"a": 3}
        both = ipu_compiler.compile(lambda x: (x, tf.no_op(), {"b": x + 1}), [1.5])
        assert session.run(both) == [1.5, {"b": 2.5}]
        assert isinstance(ipu_compiler.compile(tf.no_op), tf.Operation)


class EstimatorSpec:
    """Stands for the class that TensorFlow no longer has."""


@pytest.mark.parametrize(
    ("error", "message", "computation", "scope"),
    [
        (Exception, "is not placed on an IPU", lambda: tf.constant(1), tf.device("cpu")),
        (ValueError, "contains an EstimatorSpec", EstimatorSpec, scopes.ipu_scope(IPU)),
        (ValueError, "contains an EstimatorSpec", lambda: [[EstimatorSpec()]], tf.device(IPU)),
        (TypeError, "must be a function of the inputs", 3, scopes.ipu_scope(IPU)),
    ],
)
def test_refuses_what_is_no_program(error, message, computation, scope):
    configure(1)
    with tf.Graph().as_default(), scope, pytest.raises(error, match=message):
        ipu_compiler.compile(computation)


@pytest.mark.parametrize("ipus", [1, 2])
def test_a_computation_without_work_needs_no_ipu(ipus):
    configure(ipus)
    with tf.Graph().as_default(), v1.Session() as session:
        session.run(ipu_compiler.compile(tf.no_op))


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("scope", [scopes.ipu_scope, tf.device])
def test_a_computation_may_open_the_scope_of_the_ipu_itself(scope):
    configure(2)

    def computation(x):
        with scope(IPU):
            weight = v1.get_variable("weight", initializer=3.0, use_resource=True)
            return [cross_replica_ops.cross_replica_sum(weight * x)]

    with tf.Graph().as_default(), v1.Session() as session:
        (result,) = ipu_compiler.compile(computation, [tf.constant(2.0)])
        session.run(v1.global_variables_initializer())
        assert session.run(result) == 12.0


@pytest.mark.parametrize("scope", [scopes.ipu_scope, tf.device])
def test_numbers_may_be_inputs(scope):
    configure(1)
    with tf.Graph().as_default(), v1.Session() as session, scope(IPU):
        (result,) = ipu_compiler.compile(lambda x, y: x * y, [2.0, np.float32(3)])
        assert session.run(result) == 6.0


def test_refuses_to_run_eagerly():
    with pytest.raises(RuntimeError, match="builds a graph of TensorFlow 1"):
        ipu_compiler.compile(tf.no_op)


def gathered_step(x):
    """A step of two replicas, with a weight of a layer and the state of an optimizer."""
    scaled = x * (1.0 + tf.cast(replication_ops.replication_index(), tf.float32))
    hidden = keras.layers.Dense(3, kernel_initializer="ones")(scaled)
    loss = tf.reduce_mean(tf.square(hidden))
    optimizer = CrossReplicaOptimizer(v1.train.MomentumOptimizer(0.01, 0.9))
    return all_to_all_op.all_gather(loss, 2), optimizer.minimize(loss)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("configures_first", [True, False])
def test_a_system_that_is_configured_after_the_graph_runs_it(configures_first):
    reset_ipu_configuration()
    if configures_first:
        configure(2)
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [2, 4])
        with scopes.ipu_scope(IPU):
            step = ipu_compiler.compile(gathered_step, [x])
        configure(2)
        names = [variable.name for variable in v1.global_variables()]
        session.run(v1.global_variables_initializer())
        data = np.arange(8).reshape(2, 4) / 8
        found = [session.run(step, {x: data})[0] for _ in range(3)]
    assert len(set(names)) == len(names) == 4
    weights, bias, momenta, expected = np.ones((4, 3)), np.zeros(3), [0, 0], []
    for _ in range(3):
        sums, losses = [0, 0], []
        for replica in range(2):
            scaled = data * (1 + replica)
            hidden = scaled @ weights + bias
            losses.append(np.mean(hidden**2))
            back = 2 * hidden / hidden.size
            sums = [sums[0] + scaled.T @ back / 2, sums[1] + back.sum(0) / 2]
        momenta = [0.9 * old + new for old, new in zip(momenta, sums, strict=True)]
        weights, bias = weights - 0.01 * momenta[0], bias - 0.01 * momenta[1]
        expected.append(losses)
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    (program,) = ipu_compiler.strategy_of_graphs().report().programs
    assert program.device.replicas == 2


def test_a_pipeline_may_be_built_before_the_configuration():
    reset_ipu_configuration()
    with tf.Graph().as_default(), v1.Session() as session:
        outfeed = IPUOutfeedQueue()

        def net():
            stages = [lambda x: x * 2.0, lambda x: x + replica_as_float()]
            return pipeline(stages, 2, inputs=[tf.constant(1.0)], outfeed_queue=outfeed)

        with scopes.ipu_scope(IPU):
            operation = ipu_compiler.compile(net)
        dequeue = outfeed.dequeue()
        configure(4)
        session.run(operation)
        np.testing.assert_array_equal(session.run(dequeue), [[2, 3], [2, 3]])


def replica_as_float():
    return tf.cast(replication_ops.replication_index(), tf.float32)


def test_a_variable_has_the_type_of_its_initializer_when_the_configuration_comes_later():
    def computation(x):
        with v1.variable_scope("scope", use_resource=True):
            v1.get_variable("weight", initializer=np.float16(2))
        with v1.variable_scope("scope", use_resource=True, reuse=True):
            return x * v1.get_variable("weight", dtype=tf.float16)

    with tf.Graph().as_default(), v1.Session() as session:
        with scopes.ipu_scope(IPU):
            (result,) = ipu_compiler.compile(computation, [tf.constant(np.float16(3))])
        configure(1)
        assert len(v1.global_variables()) == 1
        session.run(v1.global_variables_initializer())
        assert session.run(result) == 6.0


def test_a_system_may_be_configured_once_the_graph_is_final():
    reset_ipu_configuration()
    with tf.Graph().as_default() as graph, scopes.ipu_scope(IPU):
        (gathered,) = ipu_compiler.compile(lambda: all_to_all_op.all_gather(1.0, 2))
        with (
            v1.Session() as early,
            pytest.raises(tf.errors.InvalidArgumentError, match="2 replicas meet here, but no sys"),
        ):
            early.run(gathered)
        graph.finalize()
        configure(2)
        assert graph.finalized
        with v1.Session() as session:
            np.testing.assert_array_equal(session.run(gathered), [1, 1])


def test_refuses_a_session_that_runs_the_graph_before_the_configuration():
    reset_ipu_configuration()
    with tf.Graph().as_default(), scopes.ipu_scope(IPU), v1.Session() as session:
        (total,) = ipu_compiler.compile(lambda: cross_replica_ops.cross_replica_sum(1.0))
        assert session.run(total) == 1
        configure(2)
        with pytest.raises(tf.errors.UnknownError, match="A session has run this graph between"):
            session.run(total)
        with v1.Session() as later:
            assert later.run(total) == 2


def test_refuses_results_whose_shapes_depend_on_the_system():
    reset_ipu_configuration()
    with tf.Graph().as_default(), scopes.ipu_scope(IPU):
        strategy = ipu_compiler.strategy_of_graphs()
        ipu_compiler.compile(lambda: tf.zeros([strategy.num_replicas]))
        with pytest.raises(RuntimeError, match="depend on the configured system, but ipu_compiler"):
            configure(2)


def test_optimizers_reduce_nothing_over_the_replicas_of_a_graph():
    """A script does it with a CrossReplicaOptimizer."""
    losses = []
    for ipus in (1, 2):
        configure(ipus)

        def on_ipu(x, y):
            with scopes.ipu_scope(IPU):
                return ipu_compiler.compile(train_step, [x, y])

        losses.append(losses_of(on_ipu))
    np.testing.assert_array_equal(losses[0], losses[1])


def sharded_step(x, y):
    with scopes.ipu_shard(0):
        hidden = tf.matmul(x, v1.get_variable("a", [4, 8], initializer=tf.ones_initializer()))
    with scopes.ipu_shard(1):
        weight = v1.get_variable("b", [8, 3], initializer=tf.ones_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(hidden, weight) - y))
    optimizer = ShardedOptimizer(v1.train.GradientDescentOptimizer(0.001))
    return loss, optimizer.minimize(loss)


@pytest.mark.slow
def test_accumulated_gradients_of_operations_on_an_ipu_are_kept_on_the_host():
    configure(1)
    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensors(tf.ones([2])).repeat())

    def body(x):
        with tf.device(IPU):
            weight = v1.get_variable("weight", [2], initializer=tf.zeros_initializer())
            loss = tf.reduce_sum(weight * x)
            stock = v1.train.GradientDescentOptimizer(0.5)
            return GradientAccumulationOptimizerV2(stock, 2).minimize(loss)

    with tf.Graph().as_default(), v1.Session() as session:
        run = ipu_compiler.compile(lambda: loops.repeat(4, body, [], infeed))
        session.run([v1.global_variables_initializer(), infeed.initializer])
        session.run(run)
        (weight,) = v1.trainable_variables()
        np.testing.assert_array_equal(session.run(weight), [-2, -2])


def test_a_session_trains_shards():
    def on_ipu(x, y):
        with scopes.ipu_scope(IPU):
            return ipu_compiler.compile(sharded_step, [x, y])

    configure(2)
    np.testing.assert_allclose(losses_of(on_ipu), losses_of(sharded_step), rtol=1e-6)
    (program,) = ipu_compiler.strategy_of_graphs().report().programs
    assert [stage.ipu for stage in program.device.stages] == [0, 1]
    for stage in program.device.stages:  # Each updates its own weight.
        assert stage.backward_cycles > 0
        assert stage.update_cycles > 0


def test_savers_of_graphs_with_programs_warn_of_nothing(tmp_path, caplog):
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("w", [2], use_resource=True)
        with scopes.ipu_scope(IPU):
            ipu_compiler.compile(lambda: variable + 1)
        saver = v1.train.Saver()
        session.run(v1.global_variables_initializer())
        with caplog.at_level(logging.WARNING, "tensorflow"):
            saver.save(session, str(tmp_path / "model"))
    assert not caplog.records


@pytest.mark.slow
def test_operations_of_several_computations_have_variables_of_their_own():
    configure(1)

    def normalized(x):
        return normalization_ops.group_norm(x)

    def twice(x):
        return normalization_ops.group_norm(2 * x), normalization_ops.group_norm(x)

    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 4])
        for computation in (normalized, twice):
            with scopes.ipu_scope(IPU):
                ipu_compiler.compile(computation, [x])
        for _ in range(2):
            with v1.variable_scope("shared", reuse=v1.AUTO_REUSE), scopes.ipu_scope(IPU):
                ipu_compiler.compile(normalized, [x])
        names = {variable.op.name for variable in graph.get_collection("variables")}
    groups = ("GroupNorm", "GroupNorm_1", "GroupNorm_2", "shared/GroupNorm")
    assert names == {f"{group}/{name}" for group in groups for name in ("beta", "gamma")}


def test_a_computation_before_the_configuration_keeps_its_variables():
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 4])
        with scopes.ipu_scope(IPU):
            ipu_compiler.compile(normalization_ops.group_norm, [x])
        configure(1)
        with scopes.ipu_scope(IPU):
            ipu_compiler.compile(normalization_ops.group_norm, [x])
        names = [variable.op.name for variable in graph.get_collection("trainable_variables")]
    assert sorted(names) == sorted(
        f"{group}/{name}" for group in ("GroupNorm", "GroupNorm_1") for name in ("beta", "gamma")
    )


@pytest.mark.parametrize("configures_first", [True, False])
def test_a_computation_may_make_variables_from_its_own_tensors(configures_first):
    if configures_first:
        configure(1)

    def computation(x):
        three = tf.constant(3.0)
        return x * v1.get_variable("weight", initializer=tf.fill([2], three + 1.0))

    with tf.Graph().as_default(), v1.Session() as session, v1.variable_scope("", use_resource=True):
        x = v1.placeholder(tf.float32, [2])
        with scopes.ipu_scope(IPU):
            (result,) = ipu_compiler.compile(computation, [x])
        if not configures_first:
            configure(1)
        session.run(v1.global_variables_initializer())
        np.testing.assert_array_equal(session.run(result, {x: [1.0, 2.0]}), [4.0, 8.0])


def test_refuses_variables_whose_first_value_depends_on_inputs():
    configure(1)
    with (
        tf.Graph().as_default(),
        scopes.ipu_scope(IPU),
        pytest.raises(ValueError, match=r"value of variable 'weight' depends on inputs .*constant"),
    ):
        ipu_compiler.compile(
            lambda x: v1.get_variable("weight", initializer=2 * x, use_resource=True), [tf.ones(2)]
        )


def test_computations_of_a_seeded_graph_draw_numbers_of_their_own():
    configure(1)

    def drawn():
        with tf.Graph().as_default(), v1.Session() as session:
            v1.set_random_seed(1)
            with scopes.ipu_scope(IPU):
                chains = [
                    ipu_compiler.compile(lambda: tf.random.uniform([2]), []) for _ in range(2)
                ]
            return np.asarray(session.run(chains))

    first, second = drawn(), drawn()
    assert not np.isin(first[0], first[1]).any()
    np.testing.assert_array_equal(first, second)
