"""Where the first NaN of a program came from: planted faults, legitimate infinities, replays."""

import itertools
import logging

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import (
    IPUConfig,
    IPUStrategy,
    config,
    ipu_infeed_queue,
    ipu_outfeed_queue,
    loops,
    scopes,
)
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.tracing import tracer

LOG = "ipu_tf.runtime.execution.nonfinite_replay"


@pytest.fixture
def traced(caplog):
    """Returns a function that runs another one on a traced IPU, and gives what was found."""
    configure()
    caplog.set_level(logging.WARNING)

    def run(function, *args):
        strategy = IPUStrategy(enable_keras_extensions=False)
        strategy.run(tf.function(function), args=args)
        (program,) = strategy.report(insights=False).programs
        messages = [record.getMessage() for record in caplog.records if record.name == LOG]
        assert [str(found) for found in program.nonfinite] == messages
        return program.nonfinite

    yield run
    config.reset_ipu_configuration()


def configure(*, esr=False, **simulator):
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    if esr:
        cfg.floating_point_behaviour.esr = config.StochasticRoundingBehaviour.ON
    for name, value in {"trace_numerics": True, **simulator}.items():
        setattr(cfg.simulator, name, value)
    cfg.configure_ipu_system()


def in_layer(operation):
    def function(*args):
        with tf.name_scope("block"):
            result = operation(*args)
        return result * 2.0

    return function


def normalised(x):
    mean, variance = tf.nn.moments(x, [0])
    return (x - mean) / tf.sqrt(variance)


def gradient_of_root(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(tf.sqrt(x))
    return tape.gradient(y, x)


def in_loop(x):
    _, y = tf.while_loop(lambda i, y: i < 20, lambda i, y: (i + 1, tf.square(y)), (0, x))
    return y


def in_branch(x):
    return tf.cond(x[0] > 0.0, lambda: tf.math.log(x - x), lambda: x)


def in_function(x):
    return tf.function(lambda x: tf.exp(x))(x)


def constant(*values, dtype=tf.float32):
    return tf.constant(values, dtype)


FAULTS = {
    "log of zero": (tf.math.log, [constant(0.0, 1.0)], "Log", "division by zero"),
    "root of a negative": (tf.sqrt, [constant(-1.0, 1.0)], "Sqrt", "invalid operation"),
    "overflow of a sum": (tf.add, [constant(3e38, 1.0)] * 2, "AddV2", "overflow"),
    "overflow of float16": (tf.square, [constant(300.0, dtype=tf.float16)], "Square", "overflow"),
    "norm of equal values": (normalised, [constant(2.0, 2.0)], "RealDiv", "invalid operation"),
    "division by zero": (tf.divide, [constant(1.0), constant(0.0)], "RealDiv", "division by zero"),
    "softmax of infinity": (
        lambda x: tf.nn.softmax(tf.reshape(x, [1, 2])),
        [constant(np.inf, 1.0)],
        "Softmax",
        "invalid operation",
    ),
    "overflow of exp": (tf.exp, [constant(100.0)], "Exp", "overflow"),
    "huge weight": (
        tf.matmul,
        [tf.fill([2, 2], 1e30), tf.fill([2, 2], 1e30)],
        "MatMul",
        "overflow",
    ),
    "difference of infinities": (
        tf.subtract,
        [constant(np.inf), constant(np.inf)],
        "Sub",
        "invalid operation",
    ),
    "arc of more than 1": (tf.acos, [constant(2.0)], "Acos", "invalid operation"),
    "power of a negative": (tf.pow, [constant(-2.0), constant(0.5)], "Pow", "invalid operation"),
    "product of a reduction": (tf.reduce_prod, [constant(1e30, 1e30)], "Prod", "overflow"),
    "variance of large values": (
        lambda x: tf.math.reduce_variance(x),
        [constant(1e25, -1e25)],
        "Square",
        "overflow",
    ),
    "gradient": (gradient_of_root, [constant(0.0, 1.0)], "SqrtGrad", "division by zero"),
    "loop": (in_loop, [constant(2.0)], "Square", "overflow"),
    "branch": (in_branch, [constant(1.0)], "Log", "division by zero"),
    "called function": (in_function, [constant(100.0)], "Exp", "overflow"),
}


FAST = {"log of zero", "root of a negative", "overflow of float16", "gradient", "loop", "branch"}


@pytest.mark.fast_cells(3)
@pytest.mark.parametrize(
    "case", [c if c in FAST else pytest.param(c, marks=pytest.mark.slow) for c in FAULTS]
)
def test_faults_are_named_by_layer_and_op(traced, case):
    operation, args, op_type, fault = FAULTS[case]
    (found,) = traced(in_layer(operation), *args)
    assert (found.op_type, found.fault, found.run) == (op_type, fault, 1)
    assert "block" in found.layer or case in ("gradient", "loop", "branch", "called function")
    assert not np.isfinite(found.around).all()
    assert f"op '{found.op}' ({op_type})" in str(found)
    assert fault in str(found)


def test_the_report_has_ranges_values_and_the_superstep(traced):
    (found,) = traced(in_layer(tf.math.log), constant(1.0, 0.0, 2.0))
    (operand,), (result,) = found.operands, found.results
    assert (operand.low, operand.high, operand.nans, operand.infinities) == (0.0, 2.0, 0, 0)
    assert (result.infinities, result.shape, result.dtype) == (1, (3,), "float32")
    assert found.position == (1,)
    assert found.around == pytest.approx((0.0, -np.inf, np.log(2.0)))
    assert found.step is not None
    assert found.tiles >= 1
    assert str(found) == (
        "Program 'function', run 1: the first result that is not finite is of layer 'block', op "
        f"'block/Log' (Log), step {found.step} of the device program, superstep "
        "'log' on 1 tile (0), the first on tile 0: division by zero. "
        "Operands: args_0 float32[3]: 0 to 2. Result: result 0 float32[3]: 0 to 0.693147, 1 "
        "infinite; the first is at [1], among 0, -inf, 0.693147. To do: keep its operand above 0, "
        "such as by `keras.ops.maximum(x, keras.config.epsilon())`; for losses of probabilities "
        "take `from_logits=True`."
    )


def masked_softmax(x):
    return tf.nn.softmax(tf.where(x > 0.0, x, -np.inf)[tf.newaxis])


def entropy(x):
    return -tf.reduce_sum(x * tf.math.log(x))


def test_the_infinity_behind_a_nan_is_the_cause(traced):
    (found,) = traced(in_layer(entropy), constant(0.0, 1.0))
    assert (found.op_type, found.fault) == ("Log", "division by zero")
    assert (found.nan_op, found.nan_layer) == ("block/mul", "block")
    assert "'block/mul' of layer 'block' makes a NaN of it." in str(found)


def masked_then_root(x):
    mask = tf.math.log(tf.constant([1.0, 0.0]) * tf.abs(x[0]))  # Minus infinity for the second.
    with tf.name_scope("later"):
        bad = tf.sqrt(x)
    return tf.nn.softmax(tf.reshape(mask, [1, 2])) + bad


def dropped_branch_then_root(x):
    kept = tf.where(x > 9.0, tf.sqrt(x), 0.0)
    return kept + tf.math.acos(x)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("function", "name"), [(masked_then_root, "later/Sqrt"), (dropped_branch_then_root, "Acos")]
)
def test_only_what_led_to_the_result_is_named(traced, function, name):
    (found,) = traced(function, constant(-2.0, 1.0))
    assert (found.op, found.nan_op) == (name, "")


def test_the_iteration_of_a_loop_is_named(traced):
    def nested(x):
        def outer(i, x):
            _, y = tf.while_loop(lambda j, _: j < 3, lambda j, y: (j + 1, tf.square(y)), (0, x))
            return i + 1, tf.identity(y)

        _, y = tf.while_loop(lambda i, _: i < 4, outer, (0, x))
        return y

    (found,) = traced(nested, constant(2.0))
    assert found.op_type == "Square"  # 2 ** 2 ** 7 is the first beyond the largest number.
    assert [number for _, number in found.iterations] == [2, 0]
    assert f"iteration 2 of '{found.iterations[0][0]}', iteration 0 of" in str(found)


def test_what_a_variable_keeps_is_followed(traced):
    weight = tf.Variable([1.0, 1.0])

    def step(x):
        for _ in tf.range(3):
            weight.assign(tf.math.log(weight) + x)
        return tf.reduce_sum(weight)

    (found,) = traced(step, constant(1.0, 0.0))
    assert (found.op_type, found.nan_op.endswith("Log_1")) == ("Log", False)
    assert [number for _, number in found.iterations] == [1]


def test_the_update_of_a_variable_is_checked(traced):
    weight = tf.Variable([3e38, 1.0])
    (found,) = traced(lambda x: weight.assign_add(x), constant(3e38, 1.0))
    assert (found.op_type, found.fault) == ("AssignAddVariableOp", "overflow")
    assert [(one.low, one.high) for one in found.operands] == [(1.0, pytest.approx(3e38))] * 2


LEGITIMATE = {
    "attention mask": masked_softmax,
    "log-domain sum": lambda x: tf.reduce_logsumexp(tf.where(x > 0.0, x, -np.inf)),
    "log-domain state": lambda x: tf.concat([x, [-np.inf]], 0) + 1.0,
    "largest of none": lambda x: tf.reduce_max(tf.where(x > 9.0, x, -np.inf)),
}


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("case", LEGITIMATE)
def test_legitimate_infinities_raise_nothing(traced, case):
    assert not traced(LEGITIMATE[case], constant(1.0, -1.0, 2.0))


def test_a_nan_after_a_legitimate_infinity_is_found(traced, caplog):
    @tf.function
    def scores(x):
        return tf.concat([tf.sqrt(x), [-np.inf]], 0)

    strategy = IPUStrategy(enable_keras_extensions=False)
    for values in (1.0, 4.0), (4.0, -1.0), (-1.0, -1.0):
        strategy.run(scores, args=(constant(*values),))
    (program,) = strategy.report(insights=False).programs
    assert [(found.run, found.op_type) for found in program.nonfinite] == [(2, "Sqrt")]
    strategy.reset_report()
    assert not program.nonfinite


def test_values_from_outside(traced):
    (found,) = traced(lambda x: x * 2.0, constant(np.nan, 1.0))
    assert (found.fault, found.op) == ("from outside", "")
    assert "values were not finite before it read them: " in str(found)
    assert "float32[2]: 1 to 1, 1 NaN" in str(found)


def trained(steps):
    """Returns the states of a program with random numbers, step by step; its third has a NaN."""
    weight = tf.Variable([1.0, 2.0])
    seeds = tf.Variable([3, 4])

    @tf.function
    def step(x):
        key = tf.random.stateless_uniform([2], tf.identity(seeds))
        other = tf.random.uniform([2], seed=7)
        seeds.assign_add([1, 1])
        weight.assign_add(key + other + x)
        weight.assign(weight * 0.5)
        return tf.math.log(x)

    tf.random.set_seed(5)
    strategy = IPUStrategy(enable_keras_extensions=False)
    states = []
    for number in range(steps):
        x = constant(-1.0 if number == 2 else 1.0, 1.0)
        result = strategy.run(step, args=(x,))
        states.append([result.numpy(), weight.numpy(), seeds.numpy()])
    (program,) = strategy.report(insights=False).programs
    return states, program.nonfinite


def test_a_replay_changes_nothing():
    configure(trace_numerics=False)
    stock, found = trained(5)
    assert not found
    configure()
    ours, (found,) = trained(5)
    assert (found.run, found.op_type) == (3, "Log")
    for a, b in zip(ours, stock, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    config.reset_ipu_configuration()


def rounded_at_random(steps):
    """Returns the weights of a program that rounds at random, step by step; the third has a NaN."""
    weight = tf.Variable(tf.ones([64], tf.float16))

    @tf.function
    def step(sign):
        wide = tf.cast(weight, tf.float32) * 1.0003
        weight.assign(tf.cast(wide, tf.float16))
        return tf.sqrt(tf.cast(weight, tf.float32) * sign)

    library.reset_seed(3)
    strategy = IPUStrategy(enable_keras_extensions=False)
    states = []
    for number in range(steps):
        strategy.run(step, args=(tf.constant(-1.0 if number == 2 else 1.0),))
        states.append(weight.numpy())
    (program,) = strategy.report(insights=False).programs
    return states, program.nonfinite


def test_a_replay_rounds_as_the_run_did(monkeypatch):
    monkeypatch.setattr(tracer, "_programs", itertools.count(900))
    configure(trace_numerics=False, esr=True)
    stock, _ = rounded_at_random(5)
    monkeypatch.setattr(tracer, "_programs", itertools.count(900))
    configure(esr=True)
    ours, (found,) = rounded_at_random(5)
    np.testing.assert_array_equal(ours, stock)
    assert len(np.unique(stock[2])) > 1  # By chance.
    assert (found.run, found.op_type) == (3, "Sqrt")
    (operand,) = found.operands
    assert (operand.low, operand.high) == (-stock[2].max(), -stock[2].min())
    assert (
        sum(count for exponent, count in operand.exponents if exponent >= 0)
        == (stock[2] >= 1).sum()
    )
    config.reset_ipu_configuration()


def test_device_programs_are_the_same():
    def cycles():
        strategy = IPUStrategy(enable_keras_extensions=False)
        weight = tf.Variable(tf.ones([4, 4]))

        @tf.function
        def step(x):
            weight.assign_sub(tf.matmul(weight, x))
            return tf.reduce_sum(weight)

        strategy.run(step, args=(tf.ones([4, 4]),))
        (program,) = strategy.report(insights=False).programs
        return program.device.cycles, [step.name for step in program.device.steps]

    configure(trace_numerics=False)
    without = cycles()
    configure()
    assert cycles() == without
    config.reset_ipu_configuration()


def test_programs_that_cannot_run_twice_say_so(traced, caplog):
    counter = tf.Variable(0.0)

    def body(i):
        with scopes.outside_compilation_scope():
            text = tf.numpy_function(lambda: b"1.0", [], tf.string)
            number = tf.ensure_shape(tf.strings.to_number(text), [])
        counter.assign_add(number)
        return i + 1

    @tf.function
    def loop(x):
        tf.while_loop(lambda i: i < 2, lambda i: [body(i)], [0])
        return tf.math.log(x)

    IPUStrategy(enable_keras_extensions=False).run(loop, args=(constant(0.0),))
    (message,) = caplog.messages
    assert "Program 'loop' is not traced" in message
    assert "changes variables, and its 'while/outside/PyFunc' (PyFunc) cannot run twice" in message
    assert counter == 2.0


def stepping():
    """Returns a step with random numbers and a Python function in its loop, and its variable."""
    given = iter([1.0, -1.0, 2.0, 3.0])
    total = tf.Variable(0.0)

    @tf.function
    def step(x):
        def body(i, x):
            noise = tf.random.uniform([2]) + tf.random.normal([2])
            with scopes.outside_compilation_scope():
                y = tf.numpy_function(lambda: np.float32(next(given)), [], tf.float32)
                y = tf.ensure_shape(y, [])
            total.assign_add(tf.sqrt(y) + tf.reduce_sum(noise) * 0.0)
            return i + 1, x + noise

        return tf.while_loop(lambda i, _: i < 2, body, [0, x])[1]

    return step, total


@pytest.mark.slow
def test_effects_in_loops_are_not_repeated(traced):
    step, total = stepping()
    strategy = IPUStrategy(enable_keras_extensions=False)
    strategy.run(step, args=(constant(1.0, 2.0),))
    assert np.isnan(total)
    total.assign(0.0)
    strategy.run(step, args=(constant(1.0, 2.0),))  # Had the replay asked, nothing would be left.
    assert total.numpy() == pytest.approx(np.sqrt(2.0) + np.sqrt(3.0))
    (program,) = strategy.report(insights=False).programs
    (found,) = program.nonfinite
    assert (found.op_type, found.operands[0].low) == ("Sqrt", -1.0)
    assert [number for _, number in found.iterations] == [1]


@pytest.mark.slow
def test_loops_with_feeds_are_traced(traced):
    weight = tf.Variable([1.0, 1.0])
    data = np.array([[1, 1], [2, 2], [3, 3], [-40, 1], [5, 5], [6, 6]], np.float32)
    infeed = ipu_infeed_queue.IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(data))
    outfeed = ipu_outfeed_queue.IPUOutfeedQueue()

    def body(x):
        with tf.name_scope("root"):
            weight.assign(tf.sqrt(weight + x))
        outfeed.enqueue(weight)

    @tf.function
    def program():
        loops.repeat(3, body, infeed_queue=infeed)

    strategy = IPUStrategy(enable_keras_extensions=False)
    strategy.run(program)
    strategy.run(program)
    (found,) = strategy.report(insights=False).programs[0].nonfinite
    assert (found.op_type, found.layer, found.run) == ("Sqrt", "while/root", 2)
    assert [number for _, number in found.iterations] == [0]
    assert found.operands[0].low == pytest.approx(-37.7982)
    fed = outfeed.dequeue()
    assert fed.shape == (6, 2)
    assert np.isfinite(fed[:, 1]).all()


def test_what_has_effects_runs_once(traced, caplog):
    outside = []

    def note(x):
        outside.append(float(x))
        return x

    @tf.function
    def step(x):
        with scopes.outside_compilation_scope():
            y = tf.ensure_shape(tf.numpy_function(note, [x], tf.float32), [])
        return tf.math.log(y)

    strategy = IPUStrategy(enable_keras_extensions=False)
    strategy.run(step, args=(tf.constant(0.0),))
    assert outside == [0.0]
    (program,) = strategy.report(insights=False).programs
    assert [found.op_type for found in program.nonfinite] == ["Log"]


def test_the_xla_engine_is_replayed_as_a_graph(traced):
    configure(engine="xla")
    (found,) = traced(in_layer(tf.math.log), constant(0.0, 1.0))
    assert (found.op_type, found.layer) == ("Log", "block")


def network(layers, steps=1, **compiled):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), *layers], name="net")
    compiled = {"optimizer": "sgd", "loss": "mse"} | compiled
    model.compile(steps_per_execution=steps, **compiled)
    return model


def small(steps=1):
    first = keras.layers.Dense(5, name="first", kernel_initializer="ones")
    return network([first, keras.layers.Dense(3, name="second")], steps)


def fitted(model, x=None, **options):
    x = np.ones((8, 4), np.float32) if x is None else x
    model.fit(
        x, np.ones((len(x), 3), np.float32), batch_size=4, verbose=0, shuffle=False, **options
    )
    programs = model.distribute_strategy.report(insights=False).programs
    return [found for program in programs for found in program.nonfinite]


def test_fit_names_the_layer():
    configure()
    with IPUStrategy().scope():
        model = small()
        model.layers[1].kernel.assign(np.full((5, 3), 3e38))
        (found,) = fitted(model)
    assert (found.layer, found.op_type, found.fault) == ("net/second", "MatMul", "overflow")
    assert (found.program, found.run) == ("net.train_step", 1)
    config.reset_ipu_configuration()


def diverging():
    model = small()
    model.optimizer.learning_rate = 1e30
    return fitted(model, epochs=4)


def accumulating():
    model = small(steps=2)
    model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=2)
    model.layers[0].kernel.assign(np.full((4, 5), 3e38))
    return fitted(model)


def pipelined():
    model = small(steps=4)
    model.set_pipeline_stage_assignment([0, 1])
    model.set_pipelining_options(gradient_accumulation_steps_per_replica=4)
    model.layers[1].kernel.assign(np.full((5, 3), 3e38))
    return fitted(model, np.ones((16, 4), np.float32))


def logarithm(target, result):
    return -keras.ops.mean(target * keras.ops.log(result))


TRAINING = {
    "learning rate": (diverging, "", "overflow"),
    "accumulation": (accumulating, "net/first", "overflow"),
    "pipeline": (pipelined, "net/second", "overflow"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", TRAINING)
def test_training_names_the_layer(case):
    fit, layer, fault = TRAINING[case]
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.auto_select_ipus = 2 if case == "pipeline" else 1
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()
    with IPUStrategy().scope():
        (found,) = fit()
    assert found.layer == layer or not layer, str(found)
    assert found.fault == fault
    config.reset_ipu_configuration()


@pytest.mark.slow
@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_models_without_training(method):
    configure()
    with IPUStrategy().scope():
        layers = [keras.layers.Dense(3, name="last", kernel_initializer="ones")]
        model = network([*layers, keras.layers.Activation(keras.ops.sqrt, name="root")])
        x = -np.ones((4, 4), np.float32)
        arguments = (x, x[:, :3]) if method == "evaluate" else (x,)
        getattr(model, method)(*arguments, batch_size=4, verbose=0)
        (program,) = model.distribute_strategy.report(insights=False).programs
    (found,) = program.nonfinite
    assert (found.layer, found.op_type) == ("net/root", "Sqrt")
    config.reset_ipu_configuration()


@pytest.mark.slow
def test_replicas_and_losses():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.auto_select_ipus = 2
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()
    with IPUStrategy().scope():
        last = keras.layers.Dense(3, activation="relu", name="last", kernel_initializer="zeros")
        (found,) = fitted(network([last], loss=logarithm))
    assert (found.layer, found.op_type) == ("loss", "Log"), str(found)
    config.reset_ipu_configuration()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("trace_numerics", [False, True])
def test_off_it_adds_no_operation(trace_numerics):
    configure(trace_numerics=trace_numerics)
    strategy = IPUStrategy(enable_keras_extensions=False)
    weight = tf.Variable(1.0)

    def body(i):
        with scopes.outside_compilation_scope():
            y = tf.ensure_shape(tf.numpy_function(lambda: np.float32(1), [], tf.float32), [])
        weight.assign_add(y)
        return i + 1

    def step():
        return tf.while_loop(lambda i: i < 2, lambda i: [body(i)], [0])

    graph = tf.function(lambda: strategy.run(step)).get_concrete_function().graph.as_graph_def()
    nodes = [*graph.node, *(node for f in graph.library.function for node in f.node_def)]
    ours = {node.op for node in nodes if node.op.startswith("Ipu")}
    added = {"IpuNonfiniteFlag", "IpuReplayRecord", "IpuReplayTake", "IpuRewind", "IpuCheckNumber"}
    assert ours == (added if trace_numerics else set())
    assert any(node.name.startswith("before_run") for node in nodes) == trace_numerics
    config.reset_ipu_configuration()
