"""Collectives and the strategy of a job of one process."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy, distributed, ipu_compiler, loops, scopes
from ipu_tf.config import IPUConfig
from ipu_tf.distributed.popdist_strategy import PopDistStrategy
from ipu_tf.feeds.infeed_queue import IPUInfeedQueue


def test_collectives_of_one_process_give_its_value():
    value = np.arange(3.0)
    for reduction in (tf.distribute.ReduceOp.SUM, tf.distribute.ReduceOp.MEAN, "SUM"):
        np.testing.assert_array_equal(distributed.allreduce(value, reduction), value)
    np.testing.assert_array_equal(distributed.allgather(value, tensor_name="x"), value)
    np.testing.assert_array_equal(distributed.broadcast(value), value)


def test_other_reductions_and_processes_are_refused():
    with pytest.raises(ValueError, match="must be tf.distribute.ReduceOp.SUM or MEAN.*'MAX'"):
        distributed.allreduce(1.0, "MAX")
    with pytest.raises(ValueError, match="one of 1 instances, from 0 to 0. .*root_rank=1"):
        distributed.broadcast(1.0, root_rank=1)


def test_a_program_does_not_broadcast():
    with pytest.raises(RuntimeError, match="broadcast runs on the host, between processes"):
        IPUStrategy().run(tf.function(distributed.broadcast), args=(tf.constant(1.0),))
    with scopes.ipu_scope("/device:IPU:0"), pytest.raises(RuntimeError, match="outside of `strat"):
        distributed.broadcast(1.0)


def test_the_strategy_trains_as_the_one_of_a_single_process():
    config = IPUConfig()
    strategy = PopDistStrategy()
    strategy.update_ipu_config(config)
    assert config.experimental.multi_replica_distribution.process_count == 0
    with strategy.scope():
        model = keras.Sequential([keras.layers.Dense(1, kernel_initializer="zeros")])
        model.compile("sgd", "mse", steps_per_execution=2)
        model.fit(np.ones((8, 2), "float32"), np.ones((8, 1), "float32"), batch_size=4, verbose=0)
    assert model.get_weights()[0][0, 0] > 0
    assert strategy.num_replicas_in_sync == 1


SUMMED = (True, 2 * -6 * (1 + 2), -12.0)  # The second steps see the weight -6.
APART = (False, 2 * -2 * 1, -4.0)  # Those of the first replica, which trains alone.


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("reduces", "loss", "weight", "runs_around"),
    [
        (*SUMMED, False),
        (*APART, True),
        pytest.param(*SUMMED, True, marks=pytest.mark.slow),
        pytest.param(*APART, False, marks=pytest.mark.slow),
    ],
)
def test_optimizers_in_a_graph_sum_the_gradients_of_replicas_if_asked(
    reduces, loss, weight, runs_around
):
    """Replica r reads x = r + 1: the loss 2 w x has gradients 2 and 4."""
    configuration = IPUConfig()
    configuration.auto_select_ipus = 2
    configuration.configure_ipu_system()
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        strategy = PopDistStrategy(add_ipu_cross_replica_reductions=reduces)
        with strategy.scope():
            infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices([1.0, 2.0]).repeat())

            def step(total, x):
                weight = tf.compat.v1.get_variable("w", [], initializer=tf.zeros_initializer())
                loss = 2.0 * weight * x
                optimizer = tf.compat.v1.train.GradientDescentOptimizer(1.0)
                return total + loss, optimizer.minimize(loss)

            def train():
                return loops.repeat(2, step, [0.0], infeed)

            def train_by_strategy():
                total = strategy.experimental_run_v2(train)
                return strategy.reduce(tf.distribute.ReduceOp.SUM, total)

            def train_in_strategy():
                return tf.distribute.get_replica_context().all_reduce("SUM", train())

            with scopes.ipu_scope("/device:IPU:0"):
                if runs_around:
                    run = strategy.run(lambda: ipu_compiler.compile(train_in_strategy))
                else:
                    run = ipu_compiler.compile(train_by_strategy)
        session.run(infeed.initializer)
        session.run(tf.compat.v1.global_variables_initializer())
        assert session.run(run) == [loss]
        (variable,) = tf.compat.v1.global_variables()
        assert session.run(variable) == weight
