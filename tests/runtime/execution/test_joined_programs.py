"""Joined ops that reach the compiler: it reads the ops that they stand for."""

import functools
import re
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUStrategy
from ipu_tf.internals.tensorflow import eager_context
from ipu_tf.ops.kernels import library
from ipu_tf.ops.kernels.joined_ops import JOINED
from ipu_tf.ops.kernels.twins import STOCK_OF
from ipu_tf.runtime.execution import fusion
from ipu_tf.runtime.extraction.hlo_stock import StockFunctions
from tests.ops.kernels.test_xla_kernels import FUSED_CASES, call
from tests.ops.tile_cases import normals
from tests.runtime.execution.test_fusion import (
    NETWORK_OPERANDS,
    RESIDUAL_OPERANDS,
    gradients_of,
    layer,
    live_types,
    network,
    random,
    residual,
    traced,
)

IMAGES, POOLED = (2, 6, 4, 20), (2, 3, 2, 20)
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}


def pool_gradient(x, dy, *, relu):
    y = tf.raw_ops.MaxPool(input=x, **POOL)
    return library.load().ipu_max_pool_grad(x, y, dy, relu=relu, **POOL)


def product(x, w, bias):
    return library.load().ipu_mat_mul_bias(x, w, bias, plan=[], relu=False)


def mask():
    key, counter = tf.constant([7], tf.uint64), tf.constant([11, 2], tf.uint64)
    return library.load().ipu_dropout_mask(key, counter, rate=0.3, shape=[5, 9])


def kept(x):
    return library.load().ipu_masked_scale(x, x > 0, tf.constant(1.5))


def moments_of_vectors(x):
    return library.load().ipu_moments(x, rank=2, keep_dims=False)


SEGMENTS = [2, 0, -1, 2, 2, 0, 3]


def segment_sum(x):
    return library.load().ipu_segment_sum(x, SEGMENTS, 4)


def gathered_rows(x):
    return library.load().ipu_gather_rows(x, np.maximum(SEGMENTS, 0), SEGMENTS)


def gathered_segment_sum(x):
    return library.load().ipu_gather_segment_sum(
        x, [0, 1, 1, 2, 0, 2, 2], SEGMENTS[::-1], SEGMENTS, 4
    )


def loss(x):
    return tuple(library.load().ipu_sparse_softmax_loss(x, tf.constant([4, 0, 7], tf.int64)))


def joined_call(op):
    return lambda *operands: call(op, operands)


# Each joined op, called directly: no chain is in the graph.
CALLS = {
    **{op: (joined_call(op), shapes) for op, (_, shapes) in FUSED_CASES.items()},
    "ipu_mat_mul_bias without relu": (product, FUSED_CASES["ipu_mat_mul_bias"][1]),
    "ipu_max_pool_grad": (functools.partial(pool_gradient, relu=True), (IMAGES, POOLED)),
    "ipu_max_pool_grad without relu": (
        functools.partial(pool_gradient, relu=False),
        (IMAGES, POOLED),
    ),
    "ipu_moments of vectors": (moments_of_vectors, ((9, 5),)),
    "ipu_sparse_softmax_loss": (loss, ((3, 9),)),
    "ipu_segment_sum": (segment_sum, ((7, 9),)),
    "ipu_gather_segment_sum": (gathered_segment_sum, ((3, 9),)),
    "ipu_gather_rows": (gathered_rows, ((4, 9),)),
    "ipu_dropout_mask": (mask, ()),
    "ipu_masked_scale": (kept, ((5, 9),)),
}


def strategy():
    return IPUStrategy(enable_keras_extensions=False)


def steps(program):
    """Returns what a report says of a program's steps."""
    return [(s.name, s.op_name, s.layer, s.phase, s.cycles, s.repeats) for s in program.steps]


def compiled(fn, *args):
    """Returns what a function gives in a run, and its device program."""
    own = strategy()
    results = own.run(fn, args=args)
    (program,) = own.report().programs
    return results, program.device


def unjoined(monkeypatch, fn, operands):
    """Returns the concrete function of a run in which nothing was joined."""
    with monkeypatch.context() as patched:
        patched.setattr(fusion, "fuse", lambda graph, outputs, **_: outputs)
        return traced(strategy(), fn, operands)


# A cast, checks, what a second run needs, and what moves tensors between replicas, or between host
# and device.
_APART = re.compile(
    "Ipu(Cast|FloatingPointCheck|IndexCheck|(Keep)?Replica|Infeed|(Keep|Read)Dataset|Outfeed|Enqueue|Dequeue|"
    "CheckFeed|CallApplication|CheckNumber|Nonfinite(Flag|Replay)|Rewind|Replay)"
)


def test_every_op_of_the_library_is_known_to_the_compiler():
    sources = (Path(__file__).parents[3] / "ops" / "tf").glob("*.cc")
    found = {name for s in sources for name in re.findall(r'REGISTER_OP\("(\w+)"\)', s.read_text())}
    found = {name for name in found if not _APART.match(name)}
    assert found - STOCK_OF.keys() == JOINED.keys()


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("case", CALLS)
def test_chains_give_the_numbers_of_the_op(case):
    op, shapes = CALLS[case]
    operands = [tf.constant(normals(seed, shape)) for seed, shape in enumerate(shapes)]
    function = tf.function(lambda *x: tf.nest.flatten(op(*x))).get_concrete_function(*operands)
    assert live_types(function) & JOINED.keys()
    context = eager_context()
    chain = StockFunctions(context.get_function_def).convert(function.function_def)
    assert not [node.op for node in chain.node_def if node.op.startswith("Ipu")]
    context.add_function_def(chain)
    results = tf.raw_ops.PartitionedCall(
        args=operands,
        Tout=[tf.as_dtype(result.type) for result in chain.signature.output_arg],
        f=chain.signature.name,
    )
    context.remove_function(chain.signature.name)
    for ours, stock in zip(function(*operands), results, strict=True):
        np.testing.assert_allclose(ours, stock, rtol=1e-5, atol=1e-4)


def test_an_op_without_its_chain_is_compiled():
    x = tf.constant(normals(0, (5, 9)))
    _, program = compiled(tf.function(kept), x)
    _, stock = compiled(tf.function(lambda x: tf.where(x > 0, x, 0.0) * 1.5), x)
    assert program.cycles == stock.cycles


def dense(x, w, b):
    """Every joined op of matmuls, with gradients by a tape of its own."""
    return gradients_of(lambda *operands: layer("dense", relu=True)[0](*operands), (x, w, b))


def convolution(x, w, b):
    return gradients_of(lambda *operands: layer("conv", relu=False)[0](*operands), (x, w, b))


def images(x, w):
    return gradients_of(network, (x, w))


def block(x, w, v):
    return gradients_of(residual, (x, w, v))


LAYER_OPERANDS = layer("conv", relu=True)[1]
PROGRAMS = {
    "dense": (dense, LAYER_OPERANDS),
    "convolution": (convolution, LAYER_OPERANDS),
    "images": (images, NETWORK_OPERANDS),
    "residual": (block, RESIDUAL_OPERANDS),
}


def called(function):
    return tf.function(lambda *args: function(*args))


def repeated(function):
    def loop(*args):
        def body(i, *values):
            return i + 1, *function(*values)

        return tf.while_loop(lambda i, *_: i < 3, body, (0, *args), parallel_iterations=1)[1:]

    return tf.function(loop)


def in_a_branch(function):
    def choose(x, *args):
        return tf.cond(tf.reduce_sum(x) > 0, lambda: function(x, *args), lambda: (x, *args))

    return tf.function(choose)


def beside_stock_ops(function):
    """It is copied with the function that calls it, whose ops become tile ops."""

    def both(x, w):
        return *function(x, w), tf.nn.conv2d(x, w, 1, "SAME")

    return tf.function(both).get_concrete_function(*NETWORK_OPERANDS)


class TestFunctionsThatWereJoined:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", PROGRAMS)
    def test_cost_what_they_cost_before(self, monkeypatch, name):
        fn, operands = PROGRAMS[name]
        joined, plain = traced(strategy(), fn, operands), unjoined(monkeypatch, fn, operands)
        assert live_types(joined) != live_types(plain)
        results, program = compiled(joined, *operands)
        _, expected = compiled(plain, *operands)
        assert steps(program) == steps(expected)
        assert program.memory.max_tile_bytes.tolist() == expected.memory.max_tile_bytes.tolist()
        for again, first in zip(results, joined(*operands), strict=True):
            np.testing.assert_array_equal(again, first)

    @pytest.mark.slow
    @pytest.mark.parametrize("use", [called, repeated, in_a_branch, beside_stock_ops])
    @pytest.mark.fast_cells(1)
    def test_are_called_by_others(self, monkeypatch, use):
        joined = traced(strategy(), images, NETWORK_OPERANDS)
        plain = unjoined(monkeypatch, images, NETWORK_OPERANDS)
        results, program = compiled(use(joined), *NETWORK_OPERANDS)
        expected_results, expected = compiled(use(plain), *NETWORK_OPERANDS)
        assert steps(program) == steps(expected)
        for ours, other in zip(results, expected_results, strict=True):
            np.testing.assert_allclose(ours, other, rtol=1e-4, atol=1e-4)

    @pytest.mark.slow
    def test_have_gradients_in_another_run(self, monkeypatch):
        def gradients_through(function):
            return tf.function(lambda *args: gradients_of(function, args))

        joined = traced(strategy(), network, NETWORK_OPERANDS)
        results, program = compiled(gradients_through(joined), *NETWORK_OPERANDS)
        assert program.complete
        expected = gradients_of(network, NETWORK_OPERANDS)
        for ours, stock in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, stock, rtol=1e-4, atol=1e-4)

    @pytest.mark.slow
    def test_are_loaded_from_a_file(self, tmp_path):
        x, w = NETWORK_OPERANDS
        saved, own = tf.Module(), strategy()
        saved.weights = tf.Variable(w)

        @tf.function(input_signature=[tf.TensorSpec.from_tensor(x)])
        def step(x):
            return own.run(images, args=(x, saved.weights))

        saved.step = step
        expected = saved.step(x)
        tf.saved_model.save(saved, str(tmp_path))
        loaded = tf.saved_model.load(str(tmp_path))
        results, program = compiled(loaded.step, x)
        assert program.cycles == own.report().programs[0].device.cycles
        for ours, first in zip(results, expected, strict=True):
            np.testing.assert_array_equal(ours, first)

    @pytest.mark.parametrize("extensions", [False, True])
    @pytest.mark.slow
    def test_are_steps_of_keras_models(self, extensions):
        keras.utils.set_random_seed(1)
        own = IPUStrategy(enable_keras_extensions=extensions)
        with own.scope():
            model = keras.Sequential(
                [
                    keras.Input((6, 6, 1)),
                    keras.layers.Conv2D(4, 3, activation="relu"),
                    keras.layers.MaxPooling2D(),
                    keras.layers.Dropout(0.5, seed=3),
                    keras.layers.Flatten(),
                    keras.layers.Dense(2, activation="relu"),
                ]
            )
            model.compile(optimizer="sgd", loss="mse")
        data = random(4, 6, 6, 1), random(4, 2)
        step = tf.function(lambda data: own.run(model.train_step, args=(data,)))
        step = step.get_concrete_function(data)
        assert "IpuDropoutMask" in {op.type for op in step.graph.get_operations()}
        losses = [float(own.run(step, args=(data,))["loss"]) for _ in range(30)]
        assert losses[-1] < losses[0]
        assert [program.device.complete for program in own.report().programs] == [True, True]
