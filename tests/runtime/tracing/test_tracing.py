"""Everything a traced function contracts becomes a tile op, wherever it stands."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config, ops
from ipu_tf.ops.kernels.twins import STOCK_OF, TWINS
from tests.grids import mostly_slow


@pytest.fixture(autouse=True)
def run_what_has_no_cost():
    """Some functions here have no device program: loops of unknown length with gradients, ..."""
    cfg = IPUConfig()
    cfg.simulator.unsupported = "warn"
    cfg.configure_ipu_system()
    yield
    config.reset_ipu_configuration()


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def random(*shape, seed=0):
    return tf.random.stateless_normal(shape, seed=[seed, 7])


def op_types(function):
    """Returns the types of all ops of a concrete function and its whole library."""
    graph = function.graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    return {node.op for node in nodes}


def traced(strategy, fn, *args):
    """Returns the concrete function of running `fn` under the strategy."""
    specs = [tf.TensorSpec.from_tensor(arg) for arg in args]
    return tf.function(lambda *a: strategy.run(fn, args=a)).get_concrete_function(*specs)


def straight(x, w):
    return tf.matmul(x, w)


def conditional(x, w):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, w), lambda: 2.0 * tf.matmul(x, w))


def looped(x, w):
    return tf.while_loop(
        lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))), (0, x)
    )[1]


@tf.function
def nested_function(x, w):
    return tf.matmul(x, w)


def nested(x, w):
    return nested_function(x, w)


def einsum(x, w):
    return tf.einsum("ij,jk->ki", x, w)


def batched(x, w):
    return tf.matmul(tf.stack([x, x + 1.0]), tf.stack([w, -w]), transpose_b=True)


@tf.function(jit_compile=True)
def jitted_function(x, w):
    return tf.nn.relu(tf.matmul(x, w))


def jitted(x, w):
    return jitted_function(x, w)


def mapped(x, w):
    return tf.map_fn(lambda row: tf.linalg.matvec(w, row), x)


def batched_version_3(x, w):
    return tf.raw_ops.BatchMatMulV3(x=tf.stack([x, x + 1.0]), y=w, Tout=tf.float32)


def batched_version_1(x, w):
    return tf.raw_ops.BatchMatMul(x=tf.stack([x, x + 1.0]), y=tf.stack([w, -w]), adj_x=True)


FUNCTIONS = [straight, conditional, looped, nested, einsum, batched, jitted, mapped]
FUNCTIONS += [batched_version_1, batched_version_3]
FAST = ["straight", "conditional", "looped", "einsum"]


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_no_stock_contraction_remains_and_values_agree(strategy, fn):
    x, w = random(4, 4, seed=1), random(4, 4, seed=2)
    function = traced(strategy, fn, x, w)
    assert not op_types(function) & TWINS.keys()
    assert op_types(function) & STOCK_OF.keys()
    np.testing.assert_allclose(function(x, w), fn(x, w), rtol=1e-5, atol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("fn", FUNCTIONS, ids=lambda fn: fn.__name__)
def test_gradient_inside_of_the_run(strategy, fn):
    def gradient(x, w):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = fn(x, w)
        return tape.gradient(y, (x, w))

    x, w = random(4, 4, seed=1), random(4, 4, seed=2)
    function = traced(strategy, gradient, x, w)
    assert not op_types(function) & TWINS.keys()
    for ours, stock in zip(function(x, w), gradient(x, w), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("fn", mostly_slow({fn.__name__: fn for fn in FUNCTIONS}, FAST))
def test_eager_tape_outside_of_the_run_also_on_a_cache_hit(strategy, fn):
    x, w = random(4, 4, seed=1), random(4, 4, seed=2)
    step = tf.function(fn)

    def gradient(run):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = run(x, w)
        return tape.gradient(y, (x, w))

    stock = gradient(fn)
    for _ in range(2):
        for ours, reference in zip(
            gradient(lambda *a: strategy.run(step, args=a)), stock, strict=True
        ):
            np.testing.assert_allclose(ours, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("fn", mostly_slow({fn.__name__: fn for fn in FUNCTIONS}, FAST))
def test_tape_of_an_outer_tf_function(strategy, fn):
    def gradient(run, x, w):
        with tf.GradientTape() as tape:
            tape.watch((x, w))
            y = run(x, w)
        return tape.gradient(y, (x, w))

    x, w = random(4, 4, seed=1), random(4, 4, seed=2)
    outer = tf.function(lambda x, w: gradient(lambda *a: strategy.run(fn, args=a), x, w))
    for ours, stock in zip(outer(x, w), gradient(fn, x, w), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-5)


def test_variables_get_gradients_through_an_outer_eager_tape(strategy):
    w = tf.Variable(random(4, 4))
    step = tf.function(lambda x: tf.matmul(x, w))
    x = random(3, 4, seed=5)
    for _ in range(2):
        with tf.GradientTape() as tape:
            y = strategy.run(step, args=(x,))
        gradient = tape.gradient(y, w)
        np.testing.assert_allclose(
            gradient, tf.matmul(x, tf.ones([3, 4]), transpose_a=True), rtol=1e-5, atol=1e-6
        )


def test_second_order_gradient(strategy):
    def second(x, w):
        with tf.GradientTape() as outer:
            outer.watch(w)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.matmul(x, w) ** 3)
            norm = tf.reduce_sum(inner.gradient(y, x) ** 2)
        return outer.gradient(norm, w)

    x, w = random(3, 4, seed=1), random(4, 2, seed=2)
    function = traced(strategy, second, x, w)
    assert not op_types(function) & TWINS.keys()
    np.testing.assert_allclose(function(x, w), second(x, w), rtol=1e-4)


class TestForeignFunctions:
    """Functions that were traced before are rewritten where a run calls them."""

    def concrete(self, fn):
        spec = tf.TensorSpec([4, 4])
        return tf.function(fn).get_concrete_function(spec, spec)

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize(
        "fn", [straight, conditional, looped, nested, einsum], ids=lambda fn: fn.__name__
    )
    def test_concrete_function_and_its_gradient(self, strategy, fn):
        concrete = self.concrete(fn)

        def gradient(x, w):
            with tf.GradientTape() as tape:
                tape.watch((x, w))
                y = concrete(x, w)
            return (y, *tape.gradient(y, (x, w)))

        x, w = random(4, 4, seed=1), random(4, 4, seed=2)
        function = traced(strategy, gradient, x, w)
        assert op_types(function) & STOCK_OF.keys()
        assert not op_types(function) & TWINS.keys()
        for ours, stock in zip(function(x, w), gradient(x, w), strict=True):
            np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-5)

    def test_saved_model(self, strategy, tmp_path):
        module = tf.Module()
        module.w = tf.Variable(random(4, 4))
        module.product = tf.function(
            lambda x: tf.matmul(x, module.w), input_signature=[tf.TensorSpec([3, 4])]
        )
        tf.saved_model.save(module, str(tmp_path))
        loaded = tf.saved_model.load(str(tmp_path))
        x = random(3, 4, seed=3)
        function = traced(strategy, loaded.product, x)
        assert op_types(function) & STOCK_OF.keys()
        np.testing.assert_allclose(function(x), module.product(x), rtol=1e-5, atol=1e-6)

    @pytest.mark.slow
    def test_functions_of_v1(self, strategy):
        """`tf.nn.ctc_loss` loops over functions that are no graphs of TensorFlow 2."""
        logits = random(4, 3, 5)
        labels, lengths = tf.constant([[1, 2], [3, 4], [2, 2]]), tf.constant([4, 4, 3])

        def loss(logits):
            return tf.nn.ctc_loss(
                labels, logits, label_length=[2, 2, 2], logit_length=lengths, blank_index=0
            )

        function = traced(strategy, loss, logits)
        np.testing.assert_allclose(function(logits), loss(logits), rtol=1e-5)

    def test_a_function_of_any_batch_takes_the_shapes_of_its_call(self, strategy):
        any_batch = tf.TensorSpec([None, 4])
        concrete = tf.function(straight).get_concrete_function(any_batch, tf.TensorSpec([4, 4]))
        w = random(4, 4, seed=2)

        def step(x, y, w):
            return concrete(x, w), concrete(y, w)

        x, y = random(3, 4, seed=1), random(5, 4, seed=3)
        function = traced(strategy, step, x, y, w)
        for ours, operand in zip(function(x, y, w), (x, y), strict=True):
            np.testing.assert_allclose(ours, straight(operand, w), rtol=1e-5, atol=1e-5)
        assert [op.shape.m for op in strategy.report().tile_ops] == [3, 5]

    def test_a_function_traced_before_keeps_its_stock_trace(self, strategy):
        x, w = random(4, 4, seed=1), random(4, 4, seed=2)
        nested_function(x, w)
        function = traced(strategy, nested, x, w)
        assert not op_types(function) & TWINS.keys()
        spec = tf.TensorSpec([4, 4])
        assert not op_types(nested_function.get_concrete_function(spec, spec)) & STOCK_OF.keys()


class TestReport:
    def test_names_layers_and_plans(self, strategy):
        def step(x, w):
            with tf.name_scope("net/dense"):
                return tf.matmul(x, w)

        traced(strategy, step, random(4, 4), random(4, 4))
        (op,) = strategy.report().tile_ops
        assert (op.layer, op.op_type) == ("net/dense", "MatMul")
        assert op.plan.tiles >= 1
        assert "net/dense" in strategy.report().summary()

    def test_native_ops_have_reasons(self, strategy):
        def step(x):
            volume = tf.reshape(x, [1, 2, 2, 2, 2])
            integers = tf.cast(tf.reshape(x, [4, 4]), tf.int32)
            return (
                tf.nn.conv3d(volume, tf.ones([1, 1, 1, 2, 2]), [1] * 5, "SAME"),
                tf.matmul(integers, integers),
                tf.einsum("ij->i", tf.reshape(x, [4, 4])),
            )

        traced(strategy, step, random(16))
        reasons = {op.op_type: op.reason for op in strategy.report().native_ops}
        assert "no tile op exists for ops of this type" in reasons["Conv3D"]
        assert "int32" in reasons["MatMul"]
        assert "two operands" in reasons["Einsum"]
        for reason in reasons.values():
            assert reason in strategy.report().summary()

    def test_gradients_that_nothing_needs_are_not_listed(self, strategy):
        w = tf.Variable(random(4, 4))

        def step(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.matmul(x, w)
            w.assign_sub(tape.gradient(y, w))
            return y

        traced(strategy, step, random(4, 4))
        assert len(strategy.report().tile_ops) == 2

    def test_empty_report_says_what_to_do(self, strategy):
        assert "strategy.run" in str(strategy.report())


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    "of", [lambda sizes: sizes, lambda sizes: 2 * sizes - sizes], ids=["given", "computed"]
)
def test_sizes_may_be_an_eager_tensor_or_computed_from_one(strategy, of):
    sizes, w = tf.constant([1, 4, 4, 2]), random(3, 3, 2, 5)

    def transposed(y):
        return tf.nn.conv2d_transpose(y, w, of(sizes), 1, "SAME")

    y = random(1, 4, 4, 5)
    np.testing.assert_allclose(
        strategy.run(tf.function(transposed), args=(y,)), transposed(y), rtol=1e-4, atol=1e-5
    )
    assert [op.op_type for op in strategy.report().tile_ops] == ["Conv2DBackpropInput"]


def test_faces_in_a_traced_function_are_in_the_report_with_their_plan(strategy):
    plan = ops.MatMulPlan(rows=2, columns=2, grain=8)
    traced(strategy, lambda x, w: ops.matmul(x, w, plan=plan), random(4, 4), random(4, 4))
    (op,) = strategy.report().tile_ops
    assert op.plan == plan


def test_layers_and_programs_are_named_as_keras_names_them():
    strategy = IPUStrategy()
    with strategy.scope():
        models = [
            keras.Sequential(
                [keras.Input((4,)), keras.layers.Dense(8), keras.layers.Dense(2, name="logits")],
                name=name,
            )
            for name in ("first", "second")
        ]
    for model in models:
        model.compile(loss="mse", optimizer="sgd")
        model.fit(np.zeros((4, 4)), np.zeros((4, 2)), batch_size=2, verbose=0)
    programs = strategy.report().programs
    assert [program.name for program in programs] == ["first.train_step", "second.train_step"]
    for model, program in zip(models, programs, strict=True):
        layers = {op.layer for op in program.tile_ops}
        assert layers == {layer.path for layer in model.layers}
        assert len(program.tile_ops) == 5  # two forward, two for the weights, one for the input


@pytest.mark.slow
def test_gradients_in_loops_are_of_their_layers():
    strategy = IPUStrategy()
    with strategy.scope():
        model = keras.Sequential([keras.Input((3, 4)), keras.layers.GRU(5, name="gru")], name="net")
    model.compile(loss="mse", optimizer="sgd")
    model.fit(np.zeros((2, 3, 4)), np.zeros((2, 5)), batch_size=2, verbose=0)
    assert {op.layer for op in strategy.report().tile_ops} == {"net/gru/gru_cell"}
