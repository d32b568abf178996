"""The strategy's public behaviour: run, reduce, scope, dataset iteration, errors."""

import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.ops import replication_ops


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


@pytest.fixture
def configured_ipus():
    """Configures a number of IPUs for a test."""

    def configure(ipus):
        cfg = IPUConfig()
        cfg.auto_select_ipus = ipus
        cfg.configure_ipu_system()

    yield configure
    config.reset_ipu_configuration()


def test_run_equals_the_function_itself(strategy):
    w = tf.Variable(tf.random.stateless_normal([8, 4], seed=[1, 2]))

    @tf.function
    def step(x):
        return tf.matmul(x, w)

    x = tf.random.stateless_normal([5, 8], seed=[3, 4])
    np.testing.assert_allclose(strategy.run(step, args=(x,)), step(x), rtol=1e-6, atol=1e-6)


def test_run_is_a_tf_distribute_strategy_with_one_replica(strategy):
    assert isinstance(strategy, tf.distribute.Strategy)
    assert strategy.num_replicas_in_sync == 1
    assert strategy.supports_loss_scaling is False
    assert strategy.extended.worker_devices == ("/device:IPU:0",)
    with strategy.scope():
        assert tf.distribute.get_strategy() is strategy
    assert tf.distribute.get_strategy() is not strategy


def test_the_number_of_ipus_does_not_change_the_number_of_replicas():
    cfg = IPUConfig()
    cfg.auto_select_ipus = 4
    cfg.configure_ipu_system()
    try:
        assert IPUStrategy().num_replicas_in_sync == 1
    finally:
        config.reset_ipu_configuration()


def test_plain_function_in_eager_mode_is_refused(strategy):
    with pytest.raises(ValueError, match="does not support eager execution"):
        strategy.run(lambda: tf.constant(1.0))


def test_plain_function_runs_inside_of_a_tf_function(strategy):
    @tf.function
    def outer(x):
        return strategy.run(lambda y: tf.matmul(y, y), args=(x,))

    np.testing.assert_allclose(outer(tf.eye(3)), np.eye(3))
    assert [op.op_type for op in strategy.report().tile_ops] == ["MatMul"]


def test_concrete_function_runs_as_tile_ops(strategy):
    @tf.function
    def product(x):
        return tf.matmul(x, x)

    concrete = product.get_concrete_function(tf.TensorSpec([3, 3]))
    np.testing.assert_allclose(strategy.run(concrete, args=(tf.eye(3),)), np.eye(3))
    assert [op.op_type for op in strategy.report().tile_ops] == ["MatMul"]


@pytest.mark.parametrize(("dtype", "name"), [(tf.float64, "float64"), (tf.int64, "int64")])
def test_wide_arguments_and_results_are_refused(strategy, dtype, name):
    wide = tf.zeros([2], dtype)
    with pytest.raises(TypeError, match=f"Unsupported data type for input: {name}"):
        strategy.run(tf.function(lambda x: x), args=(wide,))
    with pytest.raises(TypeError, match=f"Unsupported data type for output: {name}"):
        strategy.run(tf.function(lambda: tf.zeros([2], dtype)))


def test_numpy_float64_is_refused(strategy):
    with pytest.raises(TypeError, match="tf.cast it to tf.float32"):
        strategy.run(tf.function(lambda x: x), args=(np.zeros(2),))


def test_shape_that_is_not_static_is_refused(strategy):
    @tf.function(input_signature=[tf.TensorSpec([None, 4])])
    def outer(x):
        return strategy.run(lambda y: y, args=(x,))

    with pytest.raises(ValueError, match="not fully defined.*drop_remainder=True"):
        outer(tf.zeros([3, 4]))


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        (tf.ragged.constant([[1.0], [2.0, 3.0]]), "a RaggedTensor.*`to_tensor"),
        (tf.sparse.eye(3), "a SparseTensor.*`tf.sparse.to_dense`"),
    ],
    ids=["ragged", "sparse"],
)
def test_tensors_that_are_not_dense_are_refused(strategy, argument, words):
    message = f"value 0 of `strategy.run` is {words}.*with `tf.ensure_shape` before the run"
    with pytest.raises(ValueError, match=message):
        strategy.run(tf.function(lambda x: x * 2), args=(argument,))


def test_op_with_an_unknown_shape_is_refused_by_name(strategy):
    @tf.function
    def step(x, n):
        return tf.matmul(tf.reshape(x, [n, -1]), tf.ones([4, 2]), name="product")

    with pytest.raises(ValueError, match="Op 'product'.*not fully defined"):
        strategy.run(step, args=(tf.zeros([8]), tf.constant(2)))


@pytest.mark.parametrize(
    ("fn", "words"),
    [
        (lambda x: tf.matmul(x, tf.zeros([4, 0]), name="empty"), "Matmul 'empty' has a zero-sized"),
        (lambda x: tf.einsum("ij,jk->ik", x, tf.zeros([4, 0])), "zero-sized"),
        (
            lambda x: tf.nn.conv2d(
                tf.reshape(x, [1, 2, 2, 4])[:0], tf.ones([1, 1, 4, 2]), 1, "SAME"
            ),
            "Convolution 'Conv2D' has a zero-sized dimension",
        ),
    ],
)
def test_zero_sized_dimensions_are_refused_by_name(strategy, fn, words):
    with pytest.raises(ValueError, match=words):
        strategy.run(tf.function(fn), args=(tf.zeros([4, 4]),))


def test_experimental_run_v2_is_refused(strategy):
    with pytest.raises(RuntimeError, match="IPUStrategy.run"):
        strategy.experimental_run_v2(lambda: None)


def test_reduce_returns_the_value(strategy):
    value = tf.constant([1.0, 2.0])
    for op in ("SUM", "MEAN"):
        np.testing.assert_array_equal(strategy.reduce(op, value, axis=None), value)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("op", ["SUM", "mean", tf.distribute.ReduceOp.MEAN])
@pytest.mark.parametrize("axis", [0, -1, (0, 1)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_reduce_over_axes_gives_what_stock_strategies_give(strategy, op, axis, dtype):
    value = tf.constant(np.arange(6).reshape(3, 2) * 3 + 1, dtype)
    expected = tf.distribute.OneDeviceStrategy("/cpu:0").reduce(op, value, axis=axis)
    reduced = strategy.reduce(op, value, axis=axis)
    assert reduced.dtype == expected.dtype
    np.testing.assert_array_equal(reduced, expected)
    traced = tf.function(lambda: strategy.reduce(op, value, axis=axis))()
    np.testing.assert_array_equal(traced, expected)


@pytest.mark.parametrize("ipus", [1, 2])
def test_reduce_in_a_program_is_over_its_replicas(ipus, configured_ipus):
    configured_ipus(ipus)
    strategy = IPUStrategy()

    @tf.function
    def reduced(x):
        own = x + tf.cast(replication_ops.replication_index(), tf.float32)
        return (
            strategy.reduce("SUM", own),
            strategy.reduce(tf.distribute.ReduceOp.MEAN, [own], axis=None),
            strategy.reduce("SUM", own, axis=0),
            strategy.reduce("mean", own, axis=0),
        )

    x = np.array([1.0, 3.0], np.float32)
    of_replicas = np.stack([x + replica for replica in range(ipus)])
    total, (mean,), total_of_all, mean_of_all = strategy.run(reduced, args=(tf.constant(x),))
    np.testing.assert_array_equal(total, of_replicas.sum(axis=0))
    np.testing.assert_array_equal(mean, of_replicas.mean(axis=0))
    assert float(total_of_all) == of_replicas.sum()
    assert float(mean_of_all) == of_replicas.mean()


def test_a_program_refuses_other_reductions(strategy):
    with pytest.raises(ValueError, match="Unsupported reduce op"):
        strategy.run(tf.function(lambda x: strategy.reduce("MAX", x)), args=(tf.ones(2),))


def test_reduce_names_an_axis_that_is_not_there(strategy):
    with pytest.raises(ValueError, match="Invalid reduction dimension"):
        strategy.reduce("MEAN", tf.zeros((3, 2)), axis=2)


def test_other_reductions_are_refused(strategy):
    with pytest.raises(ValueError, match="Unsupported reduce op"):
        strategy.extended._reduce_to("MAX", tf.constant(1.0), None, None)


def test_run_inside_of_a_run_is_inlined(strategy):
    @tf.function
    def inner(x):
        return tf.matmul(x, x)

    @tf.function
    def outer(x):
        return strategy.run(inner, args=(x,)) + 1.0

    np.testing.assert_allclose(strategy.run(outer, args=(tf.eye(2),)), np.eye(2) + 1.0)
    assert len(strategy.report().programs) == 1
    assert len(strategy.report().tile_ops) == 1


def test_variables_in_scope_are_plain(strategy):
    with strategy.scope():
        variable = tf.Variable(1.0)
    assert variable.device.endswith("CPU:0")
    variable.assign_add(1.0)
    assert float(variable) == 2.0


def test_autograph_converts_the_function(strategy):
    @tf.function
    def step(x):
        total = tf.zeros([2, 2])
        for _ in tf.range(3):
            total += tf.matmul(x, x)
        if tf.reduce_sum(total) > 0:
            total = -total
        return total

    outer = tf.function(lambda x: strategy.run(step.python_function, args=(x,)))
    for result in (strategy.run(step, args=(tf.eye(2),)), outer(tf.eye(2))):
        np.testing.assert_allclose(result, -3 * np.eye(2))


def test_numerics_native_runs_stock_kernels_and_says_so():
    cfg = IPUConfig()
    cfg.simulator.numerics = "native"
    cfg.configure_ipu_system()
    try:
        strategy = IPUStrategy(enable_keras_extensions=False)
        strategy.run(tf.function(lambda x: tf.matmul(x, x)), args=(tf.eye(2),))
    finally:
        config.reset_ipu_configuration()
    (op,) = strategy.report().native_ops
    assert "numerics is 'native'" in op.reason


def test_scope_is_left_after_an_exception(strategy):
    with pytest.raises(KeyError), strategy.scope():
        raise KeyError
    assert not tf.distribute.has_strategy()
    assert next(iter(tf.data.Dataset.range(3))) == 0


class TestDatasetIteration:
    def dataset(self, drop_remainder=True):
        return tf.data.Dataset.from_tensor_slices(tf.range(6.0)).batch(2, drop_remainder)

    def test_eager_next_is_refused(self, strategy):
        with strategy.scope():
            iterator = iter(self.dataset())
            with pytest.raises(RuntimeError, match="can not be accessed in eager mode"):
                next(iterator)

    def test_a_function_reads_it(self, strategy):
        @tf.function
        def total(iterator):
            value = tf.zeros([2])
            for _ in tf.range(3):
                value += next(iterator)
            return value

        with strategy.scope():
            iterator = iter(self.dataset())
            np.testing.assert_array_equal(strategy.run(total, args=(iterator,)), [6.0, 9.0])

    def test_shapes_must_be_static(self, strategy):
        with strategy.scope(), pytest.raises(ValueError, match="drop_remainder=True"):
            iter(self.dataset(drop_remainder=False))

    def test_ragged_elements_are_refused(self, strategy):
        dataset = tf.data.Dataset.from_tensors(tf.ragged.constant([[1.0], [2.0, 3.0]]))
        message = r"dataset yields a RaggedTensor\..*`tf.ensure_shape` in `Dataset.map`"
        with strategy.scope(), pytest.raises(ValueError, match=message):
            iter(dataset)

    def test_optional_and_checkpoints_are_refused(self, strategy, tmp_path):
        with strategy.scope():
            iterator = iter(self.dataset())
            with pytest.raises(NotImplementedError, match="get_next"):
                iterator.get_next_as_optional()
            with pytest.raises(NotImplementedError, match="checkpoint"):
                tf.train.Checkpoint(iterator=iterator).save(tmp_path / "c")

    def test_stock_iterators_on_request(self):
        strategy = IPUStrategy(enable_dataset_iterators=False, enable_keras_extensions=False)
        with strategy.scope():
            np.testing.assert_array_equal(next(iter(self.dataset())), [0.0, 1.0])

    def test_outside_of_the_scope_iterators_are_stock(self, strategy):
        with strategy.scope():
            pass
        np.testing.assert_array_equal(next(iter(self.dataset())), [0.0, 1.0])
