"""The HLO of a function that was just traced: what it reads, what it runs, what the host does."""

import collections

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.compiler.hlo import verify
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.programs.op_names import LayerScopes
from ipu_tf.runtime.extraction import hlo, hlo_region
from ipu_tf.runtime.extraction.uncompilable import UncompilableProgram
from tests.compiler import modules
from tests.compiler.modules import traced
from tests.grids import mostly_slow

X = np.ones((4, 8), "float32")


def instructions(module):
    verify(module)
    return [i for computation in module.computations.values() for i in computation]


def of_opcode(module, opcode):
    return [i for i in instructions(module) if i.opcode == opcode]


def variable(*shape, **options):
    return tf.Variable(np.ones(shape, "float32"), **options)


# One network of each kind of layer.


class TestKerasSteps:
    @pytest.mark.parametrize("name", mostly_slow(modules.NAMES, modules.FAST))
    @pytest.mark.fast_cells(1)
    def test_every_tile_op_is_a_contraction(self, name):
        step = modules.step_of(name)
        found = collections.Counter(i.opcode for i in instructions(step.module))
        families = collections.Counter(op.shape.op for op in step.program.tile_ops)
        assert not step.program.native_ops
        assert found["dot"] == families["matmul"]
        assert found["convolution"] == sum(families.values()) - families["matmul"]

    @pytest.mark.fast_cells(1)
    @pytest.mark.parametrize("name", mostly_slow(modules.NAMES, modules.FAST))
    def test_parameters(self, name):
        module = modules.module(name)
        by_role = collections.defaultdict(list)
        for parameter in module.parameters:
            by_role[parameter.role].append(parameter)
        assert len(by_role["input"]) == 2
        assert not by_role["host"]
        assert all(parameter.layer for parameter in by_role["weight"])
        updated = [p for p in module.parameters if p.updated_by is not None]
        assert {p.name for p in by_role["weight"]} <= {p.name for p in updated}
        slots = [p for p in by_role["optimizer_state"] if p.name.endswith("_momentum")]
        assert {p.layer for p in slots} == {p.layer for p in by_role["weight"]} or not slots
        results = [p.updated_by for p in updated]
        assert len(results) == len(set(results))

    def test_moving_statistics_are_states_of_their_layer(self):
        normalized = (keras.layers.Dense(3), keras.layers.BatchNormalization())
        model = keras.Sequential([keras.Input((4,)), *normalized])
        step = modules.step(model, np.zeros((2, 4), "float32"), np.zeros((2, 3), "float32"))
        states = [p for p in step.module.parameters if "moving_mean" in p.name]
        assert len(states) == 1
        assert {p.role for p in states} == {"state"}
        assert all(p.name == f"{p.layer}/moving_mean" for p in states)

    @pytest.mark.slow
    def test_types_of_mixed_precision(self):
        dots = of_opcode(modules.module("mixed_precision"), "dot")
        assert {i.type.dtype for i in dots} == {"f16"}

    @pytest.mark.slow
    def test_an_equal_step_gives_an_equal_module(self):
        first, second = (modules._dropout() for _ in range(2))
        assert list(first.module.computations) == list(second.module.computations)
        assert first.module.entry == "main"

    def test_extraction_from_within_fit(self, monkeypatch):
        """Keras calls `strategy.run` in its own function, which is not finished then."""
        found = []
        run = IPUStrategy._trace

        def traced_run(self, fn, args, kwargs):
            graph = tf.compat.v1.get_default_graph()
            before = len(graph.get_operations())
            outputs = run(self, fn, args, kwargs)
            operations = graph.get_operations()[before:]
            if not any(op.type.endswith("Bias") for op in operations):
                found.append(hlo.extract(graph, operations, outputs))
            return outputs

        monkeypatch.setattr(IPUStrategy, "_trace", traced_run)
        strategy = IPUStrategy()
        with strategy.scope():
            model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(3, use_bias=False)])
            model.compile(loss="mse", optimizer="sgd")
        data = tf.data.Dataset.from_tensors((X, np.ones((4, 3), "float32"))).repeat(2)
        model.fit(data, epochs=1, verbose=0)
        (module,) = found
        assert len(of_opcode(module, "dot")) == 2
        assert "input" in {parameter.role for parameter in module.parameters}


class TestBoundary:
    def test_arguments_and_names(self):
        def outer(a, b):
            graph = tf.compat.v1.get_default_graph()
            before = len(graph.get_operations())
            result = a @ b
            operations = graph.get_operations()[before:]
            found.append(hlo.extract(graph, operations, result, arguments={"left": a}))
            return result

        found = []
        specs = [tf.TensorSpec((4, 8)), tf.TensorSpec((8, 2))]
        tf.function(outer, autograph=False).get_concrete_function(*specs)
        names = [(parameter.name, parameter.role) for parameter in found[0].parameters]
        assert names == [("left", "input"), ("b", "input")]

    def test_what_was_computed_before_the_trace_is_an_input(self):
        found = []

        def outer(a):
            before = tf.tanh(a, name="before")
            graph = tf.compat.v1.get_default_graph()
            count = len(graph.get_operations())
            result = before + 1.0
            found.append(hlo.extract(graph, graph.get_operations()[count:], result))
            return result

        tf.function(outer, autograph=False).get_concrete_function(tf.TensorSpec((4,)))
        (module,) = found
        assert [p.name for p in module.parameters] == ["before"]
        assert not of_opcode(module, "tanh")

    def test_what_nothing_needs_is_left_out(self):
        def fn(x):
            tf.exp(x)
            return tf.tanh(x)

        assert not of_opcode(traced(fn, X).module, "exponential")

    def test_small_captures_are_constants_and_large_ones_parameters(self):
        axes, table = tf.constant([1, 0]), tf.ones((100, 8))

        module = traced(lambda x: tf.transpose(x, axes) @ (x + table[:4]), X).module
        assert [p.role for p in module.parameters] == ["input", "constant"]

    def test_iterators_read_in_the_trace_are_inputs(self):
        data = iter(tf.data.Dataset.from_tensors(X).repeat())
        module = traced(lambda x: x + next(data), X).module
        assert [p.role for p in module.parameters] == ["input", "input"]

    def test_shapes_have_to_be_static(self):
        found = []

        def outer(a):
            graph = tf.compat.v1.get_default_graph()
            result = a + 1.0
            with pytest.raises(ValueError, match="'a:0', which 'program' reads, has shape"):
                hlo.extract(graph, [result.op], result)
            found.append(result)
            return result

        tf.function(outer, autograph=False).get_concrete_function(tf.TensorSpec((None, 8)))
        assert found


class TestVariables:
    def test_roles_without_a_model(self):
        weight, state = variable(8, 2, name="weight"), variable(2, name="state", trainable=False)

        def fn(x):
            state.assign_add(tf.ones(2))
            return x @ weight + state

        module = traced(fn, X).module
        roles = {p.role: p for p in module.parameters}
        assert roles["weight"].name == "weight"
        assert roles["weight"].updated_by is None
        assert roles["state"].updated_by == 1

    def test_uses_keep_their_order(self):
        counter = variable(2, trainable=False)

        def fn(x):
            counter.assign_add(tf.ones(2))
            before = tf.tanh(counter)
            counter.assign(counter * 2.0)
            return before, tf.exp(counter)

        module = traced(fn, X).module
        entry = module.entry_computation.by_name()
        operand = {i.opcode: entry[i.operands[0]].opcode for i in entry.values() if i.operands}
        assert operand["tanh"] == "add"
        assert operand["exponential"] == "multiply"

    def test_values_are_not_needed(self):
        made = []

        def fn(x):
            if not made:
                made.append(variable(8))
            return x * made[0]

        module = traced(fn, X).module
        assert [p.role for p in module.parameters] == ["input", "weight"]

    def test_order_of_resources(self):
        handle = variable(2)

        def fn(x):
            first = handle.read_value()
            handle.assign_add(first)
            second = handle.read_value()
            return x, second

        graph = tf.function(fn, autograph=False).get_concrete_function(X).graph
        operations = graph.get_operations()
        order = hlo_region._resource_order(operations)
        reads = [op.name for op in operations if op.type == "ReadVariableOp"]
        (write,) = (op.name for op in operations if op.type == "AssignAddVariableOp")
        assert reads[0] in order[write]
        assert write in order[reads[1]]


class TestHost:
    def test_prints(self):
        def fn(x):
            y = tf.tanh(x)
            tf.print("sum", tf.reduce_sum(y), y)
            return y

        module = traced(fn, X).module
        (call,) = of_opcode(module, "host-call")
        types = {i.name: str(i.type) for i in instructions(module)}
        assert [types[name] for name in call.operands] == ["f32[]", "f32[4,8]"]
        assert call.op_type == "StringFormat"
        assert len(of_opcode(simplify(module), "host-call")) == 1

    def test_python_functions(self):
        def fn(x):
            y = tf.py_function(lambda v: v + 1, [x], tf.float32)
            y.set_shape(x.shape)
            return y * 2.0

        (call,) = of_opcode(traced(fn, X).module, "host-call")
        assert str(call.type) in ("(f32[4,8])", "f32[4,8]")

    def test_python_functions_need_a_shape(self):
        def fn(x):
            return tf.reduce_sum(tf.py_function(lambda v: v + 1, [x], tf.float32))

        message = "of unknown shape from the host.*set the shapes .* with `tf.ensure_shape`"
        with pytest.raises(UncompilableProgram, match=message):
            traced(fn, X)

    def test_python_functions_in_loops_have_the_shapes_that_are_ensured(self):
        def fn(x):
            def body(i, y):
                result = tf.py_function(lambda v: v + 1, [y], tf.float32)
                return i + 1, tf.ensure_shape(result, [4, 8])

            return tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]

        (call,) = of_opcode(traced(fn, X).module, "host-call")
        assert str(call.type) in ("(f32[4,8])", "f32[4,8]")

    def test_in_loops_and_branches(self):
        def fn(x):
            def body(i, y):
                tf.print(y)
                return i + 1, tf.tanh(y)

            y = tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]
            return tf.cond(y[0, 0] > 0, lambda: _printed(y), lambda: y)

        module = simplify(traced(fn, X).module)
        verify(module)
        assert len(of_opcode(module, "host-call")) == 2
        assert [i.attributes["trip_count"] for i in of_opcode(module, "while")] == [5]

    def test_iterators_read_in_loops_are_infeeds(self):
        data = iter(tf.data.Dataset.from_tensors(X).repeat())

        @tf.function
        def fn(x):
            for _ in tf.range(7):
                x = x + next(data)
            return x

        module = simplify(traced(fn, X).module)
        (infeed,) = of_opcode(module, "infeed")
        assert infeed.op_type == "IteratorGetNext"
        (loop,) = of_opcode(module, "while")
        assert loop.attributes["trip_count"] == 7

    def test_assertions_cost_nothing(self):
        def fn(x):
            tf.debugging.Assert(tf.reduce_all(x > 0), [x])
            return tf.tanh(x)

        module = simplify(traced(fn, X).module)
        assert {i.opcode for i in instructions(module)} == {"parameter", "tanh"}


def _printed(y):
    tf.print(y)
    return -y


class TestFunctions:
    def test_nested_functions_and_conditions(self):
        weight = variable(8, 2)

        @tf.function
        def product(x):
            return x @ weight

        def fn(x):
            twice = tf.cond(x[0, 0] > 0, lambda: product(x), lambda: product(-x))
            return twice + product(x)

        module = traced(fn, X).module
        assert len(of_opcode(module, "dot")) == 3
        assert len(of_opcode(simplify(module), "dot")) == 3

    def test_lists_are_as_long_as_is_known(self):
        """Gradients towards what a loop reads: lists whose length XLA has to know."""

        def fn(x):
            with tf.GradientTape() as tape:
                tape.watch(x)
                parts = tf.TensorArray(tf.float32, size=4).unstack(x)
                total = tf.while_loop(
                    lambda i, _: i < 4,
                    lambda i, t: (i + 1, t + parts.read(i) ** 2),
                    (0, x[0]),
                    maximum_iterations=4,
                )[1]
            return tape.gradient(total, x)

        module = simplify(traced(fn, X).module)
        assert [i.attributes["trip_count"] for i in of_opcode(module, "while")] == [4, 4]

    def test_random_ops(self):
        def fn(x):
            return x + tf.random.normal((4, 8)) + tf.random.stateless_uniform((4, 8), seed=[1, 2])

        module = simplify(traced(fn, X).module)
        opcodes = {i.opcode for i in instructions(module)}
        assert {"rng", "rng-bit-generator"} <= opcodes
        assert "xor" not in opcodes


class TestRefusals:
    def test_ops_are_named_with_their_layers(self):
        class Speller(keras.layers.Layer):
            def call(self, x):
                return tf.strings.length(tf.strings.as_string(x))

        layer = Speller(name="speller")
        message = r"(?s)put the layer in `Dataset\.map`.*layer 'speller': .*AsString"
        with pytest.raises(UncompilableProgram, match=message) as caught:
            traced(layer, X, name="net.step")
        assert "'net.step' cannot be compiled for the IPU" in str(caught.value)
        (op,) = caught.value.refused
        assert (op.op_type, op.layer) == ("AsString", "speller")

    def test_sizes_have_to_be_constants(self):
        def fn(x):
            return tf.reshape(x, tf.cast(tf.stack([x[0, 0], x[0, 1]]), tf.int32))

        message = r"(?s)compile-time constant.*layer 'none': Reshape \(Reshape\)"
        with pytest.raises(UncompilableProgram, match=message):
            traced(fn, X)


class TestLayerScopes:
    SCOPES = LayerScopes(paths={"net_1/dense_1": "net/dense", "net_1": "net"})

    @pytest.mark.parametrize(
        ("op_name", "layer"),
        [
            ("net_1/dense_1/MatMul", "net/dense"),
            ("net_1/dense_1/inner/MatMul", "net/dense"),
            ("gradient_tape/net_1/dense_1/MatMul/MatMul_1", "net/dense"),
            ("gradient_tape/net_1/while/gradients/net_1/dense_1/MatMul_grad/MatMul", "net/dense"),
            ("gradient_tape/net_1/dense_1/while/gradients/AddN", "net/dense"),
            ("net_1/Shape", "net"),
            ("other/MatMul", ""),
            ("MatMul", ""),
        ],
    )
    def test_the_nearest_scope_counts(self, op_name, layer):
        assert self.SCOPES.layer_of(op_name) == layer

    def test_scopes_stand_in(self):
        assert self.SCOPES.layer_or_scope("gradient_tape/other/MatMul/MatMul_1") == "other"
