"""Chains of element-wise ops, joined: of optimizers and of the gradient of softmax."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.ops.kernels import library
from ipu_tf.runtime.execution import fusion
from ipu_tf.runtime.tracing import assignments
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import live_types, traced

CHAINS = {"IpuScaledDifference", "IpuAdamStep"}


@pytest.fixture
def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def adam(gradient, mean, square, rate):
    mean = mean + (gradient - mean) * 0.1
    square = square + (tf.square(gradient) - square) * 0.001
    return mean, square, mean * rate / (tf.sqrt(square) + 1e-7)


def softmax_gradient(scores, grad):
    with tf.GradientTape() as tape:
        tape.watch(scores)
        y = tf.nn.softmax(scores)
    return tape.gradient(y, scores, grad)


def positive(*shape, seed=0):
    return tf.constant(np.abs(normals(seed, shape)) + 0.1)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("shape", [(3,), (5, 7), (2, 3, 4, 33), (300, 300)])
def test_an_update_of_adam_has_the_bits_of_its_pieces(strategy, shape):
    moments = [tf.constant(normals(seed, shape)) for seed in range(2)]
    operands = [*moments, positive(*shape, seed=2), tf.constant(0.003)]
    function = traced(strategy, adam, operands)
    assert set(live_types(function)) >= CHAINS
    assert not {"Sub", "Square", "Sqrt", "RealDiv"} & set(live_types(function))
    for ours, stock in zip(function(*operands), adam(*operands), strict=True):
        np.testing.assert_array_equal(ours, stock)


def descent(variables, gradient, rate):
    variables[0].assign_sub(gradient * rate)


def adam_of_variables(variables, gradient, rate):
    weights, mean, square = variables
    mean.assign_add((gradient - mean) * 0.1)
    square.assign_add((tf.square(gradient) - square) * 0.001)
    weights.assign_sub(mean * rate / (tf.sqrt(square) + 1e-7))


def descent_by_product(variables, x, dy, rate):
    variables[0].assign_sub(tf.matmul(x, dy, transpose_a=True) * rate)


def descent_by_transposed(variables, x, dy, rate):
    variables[0].assign_sub(rate * tf.matmul(x, dy, transpose_b=True))


def accumulation(variables, gradient, rate):
    variables[0].assign_add(gradient * rate)


def accumulation_by_product(variables, x, dy, rate):
    variables[0].assign_add(tf.matmul(x, dy, transpose_a=True) * rate)


def momentum(variables, gradient, rate):
    variables[0].assign(-gradient * rate + variables[0] * 0.9)


def momentum_by_product(variables, x, dy, rate):
    variables[0].assign(-tf.matmul(x, dy, transpose_a=True) * rate + variables[0] * 0.9)


def momentum_then_weights(variables, gradient, rate):
    weights, velocity, _ = variables
    velocity.assign(velocity * 0.9 - gradient * rate)
    weights.assign_add(velocity)


def updated(strategy, update, shape, operands):
    """Returns the variables after three updates, and the types of the ops that are read."""
    variables = [tf.Variable(abs(normals(seed, shape)) + 1) for seed in range(3)]

    @tf.function(autograph=False)
    def step(*operands):
        strategy.run(lambda *values: update(variables, *values), args=operands)

    for _ in range(3):
        step(*operands)
    graph = step.get_concrete_function(*operands).graph
    assigned = [op.inputs[1].op.type for op in graph.get_operations() if "Assign" in op.type]
    return [variable.numpy() for variable in variables], set(assigned)


UPDATE_CASES = [
    (descent, (5, 7), [(5, 7)], {"IpuScaledUpdate"}),
    (descent, (3, 3, 4, 130), [(3, 3, 4, 130)], {"IpuScaledUpdate"}),
    (adam_of_variables, (5, 7), [(5, 7)], {"IpuAdamUpdate", "IpuScaledDifference"}),
    (adam_of_variables, (300, 301), [(300, 301)], {"IpuAdamUpdate", "IpuScaledDifference"}),
    (descent_by_product, (5, 7), [(3, 5), (3, 7)], {"IpuMatMulUpdate"}),
    (descent_by_product, (100, 90), [(64, 100), (64, 90)], {"IpuMatMulUpdate"}),
    (descent_by_product, (33, 45), [(2100, 33), (2100, 45)], {"IpuMatMulUpdate"}),
    (descent_by_transposed, (70, 41), [(70, 20), (41, 20)], {"IpuMatMulUpdate"}),
    (accumulation, (5, 7), [(5, 7)], {"IpuScaledUpdate"}),
    (accumulation_by_product, (100, 90), [(64, 100), (64, 90)], {"IpuMatMulUpdate"}),
    (momentum, (5, 7), [(5, 7)], {"IpuScaledUpdate"}),
    (momentum_by_product, (5, 7), [(3, 5), (3, 7)], {"IpuMatMulUpdate"}),
    (momentum_then_weights, (5, 7), [(5, 7)], {"IpuScaledUpdate"}),
]


@pytest.mark.fast_cells(4)
@pytest.mark.parametrize("case", UPDATE_CASES, ids=lambda case: f"{case[0].__name__}{case[1]}")
def test_updates_of_variables_have_the_bits_of_their_pieces(monkeypatch, strategy, case):
    update, shape, shapes, types = case
    operands = [*(tf.constant(normals(n, one)) for n, one in enumerate(shapes)), tf.constant(0.01)]
    ours, ours_types = updated(strategy, update, shape, operands)
    monkeypatch.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
    plain, plain_types = updated(strategy, update, shape, operands)
    assert ours_types == types
    assert plain_types <= {"AddV2", "Sub"}
    for one, other in zip(ours, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def layers(variables, x):
    """Two dense layers, and steps of their weights; nothing needs the gradient by `x`."""
    first, second, _ = variables
    hidden = tf.matmul(x, first)
    tf.matmul(hidden, first, transpose_b=True)
    by_hidden = tf.matmul(hidden, second, transpose_b=True)
    old = second.value()
    second.assign_sub(tf.matmul(hidden, hidden, transpose_a=True) * 0.1)
    first.assign_sub(tf.matmul(x, by_hidden, transpose_a=True) * 0.1)
    return tf.matmul(second, old)


def test_weights_are_updated_after_products_by_them_that_run(strategy):
    variables = [tf.Variable(normals(seed, (4, 4))) for seed in range(3)]

    @tf.function(autograph=False)
    def step(x):
        return strategy.run(lambda x: layers(variables, x), args=(x,))

    graph = step.get_concrete_function(tf.zeros((3, 4))).graph
    updates = [op for op in graph.get_operations() if op.type == "IpuMatMulUpdate"]
    after = [[one.op.get_attr("transpose_b") for one in op.inputs[4:]] for op in updates]
    assert after == [[True], [False]]


def read_twice(variables, x, rate):
    variables[0].assign_sub(x * rate)
    variables[0].assign_sub(variables[0] * rate)
    variables[1].assign_add((x - variables[1]) * rate)
    variables[1].assign_add((x - variables[1]) * rate)


def test_updates_of_one_variable_follow_each_other(strategy):
    operands = [tf.constant(normals(5, (4, 6))), tf.constant(0.5)]
    ours, types = updated(strategy, read_twice, (4, 6), operands)
    # The read of a mean that was assigned before is another than that of the difference.
    assert types == {"IpuScaledUpdate", "IpuScaledDifference", "AddV2"}
    expected = [tf.Variable(abs(normals(seed, (4, 6))) + 1) for seed in range(2)]
    for _ in range(3):
        read_twice(expected, *operands)
    for one, other in zip(ours, expected, strict=False):
        np.testing.assert_array_equal(one, other)


def a_float16(variables, x, rate):
    variables[0].assign_sub(tf.cast(tf.cast(x, tf.float16) * tf.cast(rate, tf.float16), tf.float32))


def a_gradient_that_is_read(variables, x, rate):
    gradient = tf.matmul(x, x, transpose_b=True)
    variables[0].assign_sub(gradient * rate)
    variables[1].assign(gradient)


def a_rate_for_each(variables, x, rate):
    variables[0].assign_sub(x * (x + rate))


@pytest.mark.parametrize("update", [a_float16, a_gradient_that_is_read, a_rate_for_each])
def test_other_updates_stay_apart(strategy, update):
    operands = [tf.constant(normals(5, (4, 4))), tf.constant(0.5)]
    _, types = updated(strategy, update, (4, 4), operands)
    assert not types & {"IpuMatMulUpdate", "IpuAdamUpdate"}


def test_an_assignment_of_another_shape_is_refused(strategy):
    def update(variables, x, rate):
        tf.raw_ops.AssignSubVariableOp(resource=variables[0].handle, value=x * rate)

    with pytest.raises(ValueError, match="must be equal rank|be equal"):
        updated(strategy, update, (4, 4), [tf.constant(normals(5, (4,))), tf.constant(0.5)])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("shape", [(4, 1), (5, 7), (2, 3, 4, 33), (70, 40, 128)])
def test_the_gradient_of_a_softmax_is_that_of_float64(strategy, shape):
    operands = [tf.constant(normals(seed, shape)) for seed in range(2)]
    function = traced(strategy, softmax_gradient, operands)
    assert "IpuSoftmaxGrad" in live_types(function)
    assert not {"Sub", "Sum"} & set(live_types(function))
    exact = softmax_gradient(*[tf.cast(value, tf.float64) for value in operands])
    np.testing.assert_allclose(function(*operands), exact, rtol=1e-5, atol=2e-7)


GRADIENTS = {
    "difference": (
        lambda a, b, f: library.load().ipu_scaled_difference(a, b, f),
        lambda a, b, f: (a - b) * f,
        [(3, 5), (3, 5), ()],
    ),
    "difference of a square": (
        lambda a, b, f: library.load().ipu_scaled_difference(a, b, f, square=True),
        lambda a, b, f: (tf.square(a) - b) * f,
        [(3, 5), (3, 5), ()],
    ),
    "step": (
        lambda *operands: library.load().ipu_adam_step(*operands),
        lambda mean, square, rate, epsilon: mean * rate / (tf.sqrt(square) + epsilon),
        [(3, 5), (3, 5), (), ()],
    ),
    "moving mean of a square": (
        lambda a, b, f: library.load().ipu_scaled_difference(a, b, f, square=True, add=True),
        lambda a, b, f: b + (tf.square(a) - b) * f,
        [(3, 5), (3, 5), ()],
    ),
    "update": (
        lambda *operands: library.load().ipu_scaled_update(*operands, after=[]),
        lambda weights, gradient, rate: weights - gradient * rate,
        [(3, 5), (3, 5), ()],
    ),
    "update of adam": (
        lambda *operands: library.load().ipu_adam_update(*operands, after=[]),
        lambda w, mean, square, rate, epsilon: w - mean * rate / (tf.sqrt(square) + epsilon),
        [(3, 5), (3, 5), (3, 5), (), ()],
    ),
    "update by a product": (
        lambda *operands: library.load().ipu_mat_mul_update(
            *operands, after=[], transpose_a=True, plan=[]
        ),
        lambda a, b, weights, rate: weights - tf.matmul(a, b, transpose_a=True) * rate,
        [(4, 3), (4, 5), (3, 5), ()],
    ),
    "softmax": (
        lambda y, dy: library.load().ipu_softmax_grad(y, dy),
        lambda y, dy: (dy - tf.reduce_sum(dy * y, -1, keepdims=True)) * y,
        [(3, 5), (3, 5)],
    ),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_of_joined_ops_are_those_of_their_pieces(name):
    op, pieces, shapes = GRADIENTS[name]
    operands = [positive(*shape, seed=seed) for seed, shape in enumerate(shapes)]

    def gradients(fn):
        with tf.GradientTape() as tape:
            tape.watch(operands)
            value = tf.sin(fn(*operands))
        return value, *tape.gradient(value, operands)

    for ours, stock in zip(gradients(op), gradients(pieces), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-6)


UNJOINED = {
    "float16": lambda a, b: (
        (tf.cast(a, tf.float16) - tf.cast(b, tf.float16)) * tf.cast(a, tf.float16)
    ),
    "other shapes": lambda a, b: (a - b[:1]) * 2.0,
    "no last dimension": lambda a, b: (a - tf.reduce_sum(a * b, 0, keepdims=True)) * b,
    "another sum": lambda a, b: (a - tf.reduce_sum(a * a, -1, keepdims=True)) * b,
    "no root": lambda a, b: a * 2.0 / (b + 1.0),
}


@pytest.mark.fast_cells(2)
@pytest.mark.parametrize("name", UNJOINED)
def test_what_is_not_the_same_stays(strategy, name):
    operands = [tf.constant(normals(seed, (4, 6))) for seed in range(2)]
    types = set(live_types(traced(strategy, UNJOINED[name], operands)))
    assert not types & {*CHAINS, "IpuSoftmaxGrad"}


def test_what_is_read_elsewhere_stays(strategy):
    def fn(a, b):
        difference = a - b
        return difference, difference * 2.0

    operands = [tf.constant(normals(seed, (4, 6))) for seed in range(2)]
    assert "IpuScaledDifference" not in live_types(traced(strategy, fn, operands))


@pytest.mark.slow
@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("optimizer", "types"),
    [
        ("adam", {"IpuAdamUpdate", "IpuScaledDifference"}),
        ("sgd", {"IpuMatMulUpdate", "IpuScaledUpdate"}),
    ],
)
def test_optimizers_of_keras_are_joined_at_the_same_cost(monkeypatch, optimizer, types):
    data = tf.constant(normals(0, (4, 6))), tf.constant(normals(1, (4, 2)))

    def step():
        own = IPUStrategy()
        with own.scope():
            keras.utils.set_random_seed(1)
            model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(2)])
            model.compile(optimizer, "mse")
        train = tf.function(lambda data: own.run(model.train_step, args=(data,)))
        function = train.get_concrete_function(data)
        for _ in range(3):
            function(data)
        read = {tensor.op.type for op in function.graph.get_operations() for tensor in op.inputs}
        steps = [(s.name, s.cycles) for s in own.report().programs[0].device.steps]
        return read, steps, model.get_weights()

    read, steps, weights = step()
    monkeypatch.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
    monkeypatch.setattr(assignments, "split_assignment", lambda request: request)
    _, plain_steps, plain_weights = step()
    assert read >= types
    assert steps == plain_steps
    for ours, plain in zip(weights, plain_weights, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


def test_the_optimizer_of_keras_2_is_joined_at_the_same_cost(monkeypatch):
    optimizers = pytest.importorskip("tf_keras").optimizers.legacy
    x = tf.constant(normals(0, (4, 6)))

    def step():
        own = IPUStrategy()
        weights = [tf.Variable(normals(1, (6, 2))), tf.Variable(normals(2, (2,)))]
        optimizer = optimizers.SGD(0.1)

        def train(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum((x @ weights[0] + weights[1]) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))

        function = tf.function(lambda x: own.run(train, args=(x,))).get_concrete_function(x)
        for _ in range(3):
            function(x)
        read = {op.type for op in function.graph.get_operations()}
        steps = [(s.name.split(".")[0], s.cycles) for s in own.report().programs[0].device.steps]
        return read, steps, [value.numpy() for value in weights]

    read, steps, weights = step()
    monkeypatch.setattr(assignments, "split_descent", lambda request: request)
    plain_read, plain_steps, plain_weights = step()
    assert read >= {"IpuMatMulUpdate", "IpuScaledUpdate"}
    assert "ResourceApplyGradientDescent" in plain_read - read
    assert steps == plain_steps
    for ours, plain in zip(weights, plain_weights, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-6)


def test_shapes_are_checked():
    a, b = tf.zeros((2, 3)), tf.zeros((3, 2))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"have one shape. Received: \[2,3\]"):
        library.load().ipu_softmax_grad(a, b)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input 2 is a scalar. .*\[2,3\]"):
        library.load().ipu_scaled_difference(a, a, a)
    update = library.load().ipu_mat_mul_update
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"the product, \[2,2\]. .*\[2,3\]"):
        update(a, b, a, 1.0, after=[], plan=[])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"the rate is a scalar. .*\[2,3\]"):
        update(a, b, tf.zeros((2, 2)), a, after=[], plan=[])
