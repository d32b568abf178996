"""Gradients through branches and loops: the numbers of stock TensorFlow, and a report."""

import contextlib

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.runtime.extraction import loop_bounds
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram
from tests.compiler.modules import traced
from tests.grids import covering

X = np.linspace(-1, 1, 12).reshape(3, 4).astype("float32")
W = tf.Variable(np.linspace(-1, 1, 16).reshape(4, 4).astype("float32"))


def positive(x):
    return x[0, 0] > 0


def loop(x, body, iterations=3, **options):
    condition = lambda i, _: i < iterations  # noqa: E731
    return tf.while_loop(condition, lambda i, y: (i + 1, body(y)), (0, x), **options)[1]


def dense(x):
    return tf.tanh(x @ W)


@tf.function
def by_autograph(x):
    if x[0, 0] > 0:  # noqa: SIM108 - a statement of AutoGraph's
        y = dense(x)
    else:
        y = tf.sin(x @ W)
    for i in tf.range(4):
        y = dense(y) + tf.cast(i, tf.float32)
    count = 0
    while count < 3:
        if y[0, 0] > 0:
            y = tf.sin(y)
        count += 1
    return y


@tf.function
def rows(x):
    total = tf.zeros(4)
    for row in x:
        total = tf.tanh(total + row * W[0])
    return total


@tf.function
def arrays(x):
    results = tf.TensorArray(tf.float32, size=3)
    for i in tf.range(3):
        results = results.write(i, tf.tanh(x[i] * W[0]))
    return results.stack()


@tf.function
def with_break(x):
    for _ in tf.range(4):
        x = dense(x)
        if x[0, 0] > 5:
            break
    return x


def gradient_of(fn, x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(fn(x))
    return tape.gradient(total, x)


FUNCTIONS = {
    "cond": lambda x: tf.cond(positive(x), lambda: dense(x), lambda: tf.sin(x) @ W * x),
    "nested cond": lambda x: tf.cond(
        positive(x),
        lambda: x @ W,
        lambda: tf.cond(positive(-x), lambda: dense(tf.exp(x)), lambda: tf.sin(x @ W)),
    ),
    "case": lambda x: tf.case(
        [(positive(x), lambda: dense(x)), (positive(-x), lambda: tf.sin(x @ W))],
        default=lambda: x * x,
    ),
    "switch_case": lambda x: tf.switch_case(
        tf.cast(positive(x), tf.int32) + 1, [lambda: dense(x), lambda: tf.exp(x), lambda: x * x]
    ),
    "keras cond": lambda x: keras.ops.cond(positive(x), lambda: dense(x), lambda: x),
    "while_loop": lambda x: loop(x, dense),
    "nested while_loop": lambda x: loop(x, lambda y: loop(y, dense, iterations=2)),
    "cond in a loop": lambda x: loop(
        x, lambda y: tf.cond(positive(y), lambda: dense(y), lambda: tf.sin(y))
    ),
    "loop in a cond": lambda x: tf.cond(positive(x), lambda: loop(x, dense), lambda: tf.sin(x)),
    "loops in branches": lambda x: tf.switch_case(
        tf.cast(positive(x), tf.int32),
        [
            lambda: loop(x, dense, 2),
            lambda: loop(x, dense, maximum_iterations=3),
            lambda: x * x,
        ],
    ),
    "loop in a cond in a cond": lambda x: tf.cond(
        positive(x),
        lambda: x @ W,
        lambda: tf.cond(positive(-x), lambda: loop(x, dense), lambda: tf.sin(x)),
    ),
    "loop in a cond in a loop": lambda x: loop(
        x, lambda y: tf.cond(positive(y), lambda: loop(y, dense, 2), lambda: tf.sin(y))
    ),
    "keras while_loop": lambda x: keras.ops.while_loop(
        lambda i, _: i < 3, lambda i, y: (i + 1, keras.ops.tanh(y @ W)), (0, x)
    )[1],
    "keras fori_loop": lambda x: keras.ops.fori_loop(0, 3, lambda _, y: dense(y), x),
    "keras scan": lambda x: keras.ops.scan(
        lambda carry, row: (keras.ops.tanh(carry + row), carry * row), keras.ops.zeros(4), x
    )[1],
    "gradient of a gradient": lambda x: gradient_of(
        lambda y: loop(y, dense, maximum_iterations=3), x
    ),
    "map_fn": lambda x: tf.map_fn(lambda row: tf.tanh(row * W[0]), x),
    "AutoGraph": by_autograph,
    "AutoGraph over rows": rows,
    "AutoGraph with arrays": arrays,
    "AutoGraph with break": with_break,
}


def with_gradients(fn):
    def step(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(fn(x) ** 2)
        return total, *tape.gradient(total, [x, W], unconnected_gradients="zero")

    return step


def run(fn, x=X):
    """Returns what a function gives in a strategy, and its report."""
    strategy = IPUStrategy()
    return strategy.run(tf.function(fn), args=(tf.constant(x),)), strategy.report()


# Most functions with one sign; with the other, too, where it chooses the other branch.
SLOW = ("case", "loop in a cond in a cond", "keras while_loop", "AutoGraph with arrays")
SIGNS = [(name, 1) for name in FUNCTIONS if name not in SLOW] + [
    (name, -1) for name in ("nested cond", "switch_case", "loops in branches", "AutoGraph")
]


class TestGradients:
    @pytest.mark.parametrize(
        ("name", "sign"),
        [
            pytest.param(name, sign, marks=[] if (name, sign) in SIGNS else pytest.mark.slow)
            for sign in (1, -1)
            for name in FUNCTIONS
        ],
    )
    @pytest.mark.fast_cells(1)
    def test_numbers_are_those_of_tensorflow_in_one_trace(self, name, sign):
        fn, traces = FUNCTIONS[name], []

        def noted(x):
            traces.append(x)
            return fn(x)

        expected = tf.function(with_gradients(fn))(tf.constant(sign * X))
        results, report = run(with_gradients(noted), sign * X)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-6)
        (program,) = report.programs
        assert program.device.complete
        assert len(traces) == 1

    def test_other_gradients_keep_optionals(self):
        """On this thread, too, once the trace is over."""
        run(with_gradients(FUNCTIONS["cond"]))
        graph = tf.function(with_gradients(FUNCTIONS["cond"])).get_concrete_function(X).graph
        functions = graph.as_graph_def().library.function
        assert "OptionalFromValue" in {n.op for function in functions for n in function.node_def}

    def test_floats_are_checked_where_a_branch_is_not_taken(self):
        machine = IPUConfig()
        machine.floating_point_behaviour.div0 = True
        machine.floating_point_behaviour.inv = True
        machine.configure_ipu_system()
        try:
            results, _ = run(with_gradients(FUNCTIONS["cond"]))
        finally:
            config.reset_ipu_configuration()
        assert np.isfinite(results[0])

    def test_a_tape_outside_of_the_run(self):
        strategy, x = IPUStrategy(), tf.constant(X)
        fn = tf.function(FUNCTIONS["cond"])
        gradients = []
        for call in (fn, lambda x: strategy.run(fn, args=(x,))):
            with tf.GradientTape() as tape:
                tape.watch(x)
                total = tf.reduce_sum(call(x) ** 2)
            gradients.append(tape.gradient(total, x))
        np.testing.assert_allclose(*gradients, rtol=2e-5, atol=1e-6)


@keras.saving.register_keras_serializable("tests")
class Branching(keras.layers.Layer):
    """A branch, a loop and, through `keras.ops`, another loop."""

    def call(self, x):
        y = tf.cond(positive(x), lambda: keras.ops.tanh(x), lambda: keras.ops.sin(x))
        y = keras.ops.while_loop(lambda i, _: i < 4, lambda i, z: (i + 1, z * z), (0, y))[1]
        return loop(y, lambda z: keras.ops.cond(positive(z), lambda: tf.tanh(z), lambda: z))


class TestKeras:
    def losses(self, scope):
        keras.utils.set_random_seed(1)
        with scope:
            layers = [keras.layers.Dense(4), Branching(name="branching"), keras.layers.Dense(2)]
            model = keras.Sequential([keras.Input((4,)), *layers], name="net")
            model.compile(loss="mse", optimizer="adam", steps_per_execution=2)
            x, y = np.tile(X, (4, 1)), np.ones((12, 2), "float32")
            return model.fit(x, y, batch_size=3, epochs=3, shuffle=False, verbose=0).history["loss"]

    @pytest.mark.slow
    def test_layers_train_as_they_do_without_a_strategy(self):
        strategy = IPUStrategy()
        expected, found = self.losses(contextlib.nullcontext()), self.losses(strategy.scope())
        np.testing.assert_allclose(found, expected, rtol=1e-5)
        (program,) = strategy.report().programs
        assert program.device.complete
        assert "net/branching" in {step.layer for step in program.device.steps}

    @pytest.mark.slow
    @pytest.mark.parametrize(*covering(1, layer=["LSTM", "GRU", "SimpleRNN"], unroll=[False, True]))
    def test_masked_recurrent_layers(self, layer, unroll):
        recurrent = getattr(keras.layers, layer)(3, unroll=unroll)
        recurrent.build((3, 2, 2))
        mask = tf.constant([[True, True], [True, False], [True, True]])
        fn = with_gradients(lambda x: recurrent(tf.reshape(x, (3, 2, 2)), mask=mask))
        expected = tf.function(fn)(tf.constant(X))
        results, report = run(fn)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=2e-5, atol=1e-6)
        assert report.programs[0].device.notes == ()


class TestTripCounts:
    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("while_loop", [3, 3]),
            ("nested while_loop", [2, 2, 3, 3]),
            ("AutoGraph over rows", [3, 3]),
            ("keras scan", [3, 3]),
        ],
    )
    def test_gradients_run_as_often_as_their_loops(self, name, expected):
        module = simplify(traced(with_gradients(FUNCTIONS[name]), X).module)
        loops = [i for c in module.computations.values() for i in c if i.opcode == "while"]
        assert sorted(i.attributes.get("trip_count", 0) for i in loops) == expected

    def test_stacks_are_as_long_as_the_loop_is(self):
        fn = with_gradients(lambda x: loop(loop(x, dense, 7), dense, 2))
        module = traced(fn, X).module
        types = {str(i.type) for c in module.computations.values() for i in c}
        assert {"f32[7,3,4]", "f32[2,3,4]"} <= types

    def test_so_are_those_of_branches(self):
        fn = with_gradients(
            lambda x: tf.cond(positive(x), lambda: loop(x, dense, 7), lambda: tf.sin(x))
        )
        conditionals = [
            str(i.type)
            for c in traced(fn, X).module.computations.values()
            for i in c
            if i.opcode == "conditional"
        ]
        assert any("f32[7,3,4]" in types for types in conditionals)

    def test_unknown_counts_are_noted(self):
        def fn(x):
            return tf.while_loop(lambda y: y[0, 0] < 9, lambda y: (y + 1,), (x,))[0]

        (program,) = run(fn)[1].programs
        (note,) = program.device.notes
        assert (
            note
            == "The loop 'while' runs an unknown number of times; the figures count one iteration."
        )

    def test_bounds_are_noted(self):
        def fn(x):
            return tf.while_loop(
                lambda y: y[0, 0] < 9, lambda y: (y * y + 2,), (x,), maximum_iterations=20
            )[0]

        (program,) = run(with_gradients(fn))[1].programs
        assert program.device.notes[0] == (
            "The loop 'while' runs an unknown number of times, at most 20; "
            "the figures count one iteration."
        )


class TestMemory:
    @staticmethod
    def largest(fn, *args):
        """Returns the bytes of the largest array that a loop of a function carries."""
        module = simplify(traced(fn, *args).module)
        loops = [i for c in module.computations.values() for i in c if i.opcode == "while"]
        assert loops
        return max(part.bytes for loop in loops for part in loop.type.parts)

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("name", ["LSTM", "GRU", "SimpleRNN"])
    @pytest.mark.parametrize("dtype", ["float32", "mixed_float16"])
    def test_a_recurrent_layer_keeps_its_kernels_once(self, name, dtype):
        x = np.zeros((2, 50, 4), "float32")
        layer = getattr(keras.layers, name)(32, dtype=dtype)
        layer.build(x.shape)

        def step(x):
            with tf.GradientTape() as tape:
                total = tf.reduce_sum(layer(x))
            return tape.gradient(total, layer.trainable_variables)

        kernels = [4 * np.prod(v.shape) for v in layer.trainable_variables]
        activations = 50 * 2 * 32 * 4
        assert self.largest(step, x) <= max(activations, *kernels)

    @pytest.mark.slow
    def test_so_does_a_loop_in_a_loop(self):
        fn = with_gradients(lambda x: loop(x, lambda y: loop(y, dense, 11), 13))
        activations = 11 * 13 * X.nbytes
        assert self.largest(fn, X) == activations

    @pytest.mark.slow
    def test_memory_grows_with_what_changes_alone(self):
        """By rows of what a cell computes, not by kernels of 256 rows."""

        def peak_bytes(steps):
            report = ipu_tf.estimate(
                lambda: keras.Sequential([keras.Input((steps, 64)), keras.layers.LSTM(64)]),
                batch_size=1,
            )
            memory = report.programs[0].device.memory
            code = memory.always_live["vertex_code"] + memory.always_live["exchange_code"]
            return memory.live_bytes.max() - code.sum()

        grown = peak_bytes(60) - peak_bytes(20)
        rows, row_bytes = 24, 64 * 4
        assert 0 < grown < 40 * rows * row_bytes


class TestErrors:
    def test_gradients_of_gradients_need_a_bound_that_is_given(self):
        message = r"(?s)cannot be compiled.*Give them `maximum_iterations`.*accumulator"
        with pytest.raises(UncompilableProgram, match=message):
            traced(with_gradients(lambda x: gradient_of(lambda y: loop(y, dense), x)), X)

    def test_nested_loops_in_branches(self):
        def fn(x):
            inner = lambda y: loop(y, tf.tanh, 2)  # noqa: E731
            return tf.cond(positive(x), lambda: loop(x, inner), lambda: x, name="choose")

        message = (
            r"(?s)'step' cannot be compiled.*keeps stacks of stacks.*out of the branch.*"
            r"choose/FakeParam\S* \(FakeParam\)"
        )
        with pytest.raises(UncompilableProgram, match=message):
            traced(with_gradients(fn), X)

    @pytest.mark.filterwarnings("ignore:.*is built:UserWarning")
    def test_loops_without_a_bound_are_named_with_their_layers(self):
        class Settle(keras.layers.Layer):
            def call(self, x):
                return keras.ops.while_loop(lambda y: y[0, 0] < 9, lambda y: (y * y + 2,), (x,))[0]

        message = (
            r"(?s)'step' cannot be compiled.*the largest number of iterations.*"
            r"Give them `maximum_iterations`.*keras.ops.while_loop.*set_loop_options.*"
            r"layer 'settle': settle(_1)?/while \(While\)"
        )
        with pytest.raises(UncompilableProgram, match=message) as caught:
            traced(with_gradients(Settle(name="settle")), X)
        assert [op.layer for op in caught.value.refused] == ["settle"]


class TestBounds:
    def test_a_body_of_two_loops_has_the_larger_bound(self):
        module = traced(lambda x: loop(loop(x, tf.tanh, 7), tf.tanh, 2), X).module
        found = loop_bounds.trip_bounds(module, "$")
        assert sorted(found.values()) == [2, 7]
        assert loop_bounds.trip_bounds(module, "(?s)^.*") == {"": 7}

    def test_a_body_of_an_endless_loop_has_none(self):
        def fn(x):
            x = loop(x, tf.tanh, 7)
            return tf.while_loop(lambda y: y[0, 0] < 9, lambda y: (y + 1,), (x,))[0]

        module = traced(fn, X).module
        assert list(loop_bounds.trip_bounds(module, "$").values()) == [7]
        assert loop_bounds.trip_bounds(module, "(?s)^.*") == {}
