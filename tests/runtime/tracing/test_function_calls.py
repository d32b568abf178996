"""Functions that a program calls are in its report: their names, tile ops, layers and plans."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.programs.op_names import own_name

X, W = tf.ones((4, 8)), tf.ones((8, 4))
SPECS = [tf.TensorSpec(tensor.shape) for tensor in (X, W)]


@pytest.fixture
def strategy():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.configure_ipu_system()
    yield IPUStrategy()
    config.reset_ipu_configuration()


@tf.function
def product(x, w):
    return tf.matmul(x, w)


@tf.function
def rectified(x, w):
    with tf.name_scope("dense"):
        return tf.nn.relu(tf.matmul(x, w))


def scaled(factor):
    @tf.function
    def product(x, w):
        return tf.matmul(x, w) * factor

    return product


def layers(program):
    """Returns the layers of the steps of a program."""
    return {step.layer for step in program.device.steps} - {""}


def contractions(program):
    """Returns the steps of a program that run a plan."""
    return [step for step in program.device.steps if step.plan is not None]


class TestNames:
    def test_concrete_functions_have_the_names_of_their_functions(self, strategy):
        for function in (product, rectified):
            strategy.run(function.get_concrete_function(*SPECS), args=(X, W))
        assert [program.name for program in strategy.report().programs] == ["product", "rectified"]

    @pytest.mark.parametrize("kind", ["tf.function", "concrete function"])
    def test_functions_of_one_name_have_a_program_each(self, strategy, kind):
        functions = [scaled(1.0), scaled(2.0)]
        if kind == "concrete function":
            functions = [function.get_concrete_function(*SPECS) for function in functions]
        for function in functions:
            strategy.run(function, args=(X, W))
        assert [program.name for program in strategy.report().programs] == ["product", "product"]

    def test_a_function_that_is_traced_again_has_one_program(self, strategy):
        for _ in range(2):
            run = tf.function(lambda x, w: strategy.run(product, args=(x, w)))
            run(X, W)
        assert len(strategy.report().programs) == 1


class TestTileOps:
    def names(self, strategy, function):
        """Returns the names of the tile ops of a run."""
        with strategy.programs_apart():
            result = strategy.run(function, args=(X, W))
            (program,) = strategy.report().programs
        np.testing.assert_allclose(result, np.full((4, 4), 8.0))
        assert len(contractions(program)) == len(program.tile_ops)
        return [op.name for op in program.tile_ops]

    def traced_before(self, strategy):
        run = tf.function(lambda x, w: strategy.run(product, args=(x, w)))
        return run.get_concrete_function(*SPECS)

    def test_a_function_that_holds_those_of_another_run(self, strategy):
        assert self.names(strategy, self.traced_before(strategy)) == ["MatMul"]

    def test_a_function_that_is_called_by_another(self, strategy):
        before = self.traced_before(strategy)
        assert self.names(strategy, tf.function(lambda x, w: before(x, w))) == ["MatMul"]

    def test_joined_ops_count_once(self, strategy):
        def biased(x, w):
            return tf.nn.relu(tf.nn.bias_add(tf.matmul(x, w), tf.zeros(4)))

        run = tf.function(lambda x, w: strategy.run(biased, args=(x, w)))
        before = run.get_concrete_function(*SPECS)
        assert self.names(strategy, before) == ["MatMul"]

    def test_functions_in_a_function_that_was_traced_before_count_once(self, strategy):
        outer = tf.function(lambda x, w: product(x, w)).get_concrete_function(*SPECS)
        assert self.names(strategy, outer) == ["MatMul"]

    def test_functions_of_this_run_stay_as_they_are(self, strategy):
        assert self.names(strategy, tf.function(lambda x, w: product(x, w))) == ["MatMul"]


class TestLayers:
    def test_nested_functions_are_in_the_scopes_of_their_calls(self, strategy):
        @tf.function
        def block(x, w):
            return rectified(x, w) + 1.0

        @tf.function
        def network(x, w):
            with tf.name_scope("first"):
                x = block(x, w)
            with tf.name_scope("second"):
                return block(x, tf.transpose(w))

        strategy.run(network, args=(X, W))
        (program,) = strategy.report().programs
        assert layers(program) == {"first", "first/dense", "second", "second/dense"}

    def test_contractions_of_nested_functions_run_the_plans_of_their_tile_ops(
        self, strategy, monkeypatch
    ):
        def unknown(*args, **kwargs):
            raise AssertionError("the compiler plans what has a plan")

        strategy.run(rectified, args=(X, W))  # The tile op's own plan is in the cache now.
        monkeypatch.setattr("ipu_tf.compiler.option_plans.plan_op", unknown)
        strategy.run(tf.function(lambda x, w: rectified(x, w) + 1.0), args=(X, W))
        program = strategy.report().programs[-1]
        assert [step.plan for step in contractions(program)] == [program.tile_ops[0].plan]

    def test_the_type_of_nested_contractions_is_known(self, strategy):
        half = [tf.cast(tensor, tf.float16) for tensor in (X, W)]
        strategy.run(tf.function(lambda x, w: product(x, w)), args=half)
        (program,) = strategy.report().programs
        assert {step.dtype for step in program.device.steps if step.plan} == {"float16"}


class Functional(keras.layers.Layer):
    """A dense layer that is a tf.function, with a helper that is one, too."""

    def build(self, shape):
        self.kernel = self.add_weight(shape=(shape[-1], 8), name="kernel")

    @tf.function
    def call(self, x):
        return rectified(x, tf.convert_to_tensor(self.kernel))


class Wrapper(keras.layers.Layer):
    """Calls a layer in a tf.function."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.inner = keras.layers.Dense(8, name="inner")

    def build(self, shape):
        self.inner.build(shape)

    @tf.function
    def wrapped(self, x):
        return self.inner(x)

    def call(self, x):
        return self.wrapped(x)


class TestKerasLayers:
    @pytest.fixture
    def program(self, strategy):
        with strategy.scope():
            model = keras.Sequential(
                [
                    keras.Input((8,)),
                    keras.layers.Dense(8, name="plain"),
                    Functional(name="one"),
                    Wrapper(name="wrapper"),
                    Wrapper(name="other"),
                    Functional(name="two"),
                ],
                name="net",
            )
            model.compile(loss="mse", optimizer=keras.optimizers.SGD(name="sgd"))
        model.fit(np.ones((4, 8)), np.ones((4, 8)), batch_size=4, verbose=0)
        (program,) = strategy.report().programs
        return program

    LAYERS = ("net/plain", "net/one", "net/wrapper/inner", "net/other/inner", "net/two")

    @pytest.mark.slow
    def test_steps_have_the_layers_that_call_their_function(self, program):
        assert layers(program) - {"loss", "metrics"} == {*self.LAYERS, "sgd"}

    @pytest.mark.slow
    def test_contractions_of_both_passes_have_them(self, program):
        found = [(step.layer, step.phase) for step in contractions(program)]
        forward = [layer for layer, phase in found if phase == "forward"]
        backward = [layer for layer, phase in found if phase == "backward"]
        assert sorted(forward) == sorted(self.LAYERS)
        # Nothing needs a gradient towards the data.
        assert sorted(backward) == sorted([*self.LAYERS, *self.LAYERS[1:]])

    @pytest.mark.slow
    def test_tile_ops_have_them(self, program):
        assert {op.layer for op in program.tile_ops} == set(self.LAYERS)


@tf.function(jit_compile=True)
def jitted(x, w):
    return tf.nn.relu(tf.matmul(x, w))


@tf.function
def looped(x, w):
    return tf.while_loop(
        lambda i, y: i < 3,
        lambda i, y: (i + 1, tf.tanh(tf.matmul(y, w))),
        (0, x),
        maximum_iterations=3,
    )[1]


@tf.function
def conditional(x, w):
    return tf.cond(tf.reduce_sum(x) > 0, lambda: tf.matmul(x, w), lambda: 2.0 * tf.matmul(x, w))


def concrete_function(x, w):
    return _concrete_function(x, w)


_concrete_function = rectified.get_concrete_function(tf.TensorSpec((4, 8)), tf.TensorSpec((8, 8)))


@pytest.mark.parametrize(
    "function", [jitted, looped, conditional, concrete_function], ids=lambda fn: fn.__name__
)
@pytest.mark.fast_cells(1)
def test_functions_of_every_kind_are_known_in_both_passes(strategy, function):
    class Calling(Functional):
        def call(self, x):
            return function(x, tf.convert_to_tensor(self.kernel))

    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((8,)), Calling(name="one"), Calling(name="two")], name="net"
        )
        model.compile(loss="mse", optimizer="sgd")
    model.fit(np.ones((4, 8)), np.ones((4, 8)), batch_size=4, verbose=0)
    (program,) = strategy.report().programs
    tile_ops = {op.name for op in program.tile_ops}
    steps = contractions(program)
    assert {own_name(step.op_name) for step in steps} <= tile_ops
    assert {(step.layer, step.phase) for step in steps} == {
        (layer, phase) for layer in ("net/one", "net/two") for phase in ("forward", "backward")
    }
    assert {op.layer for op in program.tile_ops} == {"net/one", "net/two"}


def test_a_shared_function_belongs_to_the_layer_that_calls_it(strategy):
    @tf.function
    def gelu(x):
        return keras.activations.gelu(x)

    with strategy.scope():
        model = keras.Sequential(
            [keras.Input((8,)), *(keras.layers.Lambda(gelu, name=name) for name in ("a", "b"))],
            name="net",
        )
    model.predict(np.ones((4, 8)), batch_size=4, verbose=0)
    (program,) = strategy.report().programs
    assert layers(program) == {"net/a", "net/b"}


@pytest.mark.slow
def test_a_loaded_loop_calls_functions_with_and_without_results(strategy, tmp_path):
    total = tf.Variable(0.0)

    @tf.function
    def count(amount):
        total.assign_add(amount)

    @tf.function
    def repeated(x, w):
        for _ in tf.range(3):
            count(tf.reduce_sum(product(x, w)))
            x = x / 2
        return product(x, w)

    saved = tf.Module()
    saved.total, saved.repeated = total, tf.function(repeated, input_signature=SPECS)
    tf.saved_model.save(saved, str(tmp_path))
    loaded = tf.saved_model.load(str(tmp_path))
    np.testing.assert_array_equal(strategy.run(loaded.repeated, args=(X, W)), tf.fill((4, 4), 1.0))
    assert loaded.total == 4 * 4 * 8 * (1 + 1 / 2 + 1 / 4)
    (program,) = strategy.report().programs
    assert len(contractions(program)) == 2
