"""Faults planted in layers, losses, gradients and optimizers are named by layer and operation."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy, config
from ipu_tf.keras.loop import jitting

pytestmark = pytest.mark.slow

ops = keras.ops
ONES = np.ones((4, 4), np.float32)


def constant(value):
    return keras.initializers.Constant(value)


def dense(units=4, name="dense", **options):
    return keras.layers.Dense(units, name=name, **({"kernel_initializer": "ones"} | options))


def activation(function, name):
    return keras.layers.Activation(function, name=name)


def divided_by_norm(x):
    return x / ops.norm(x, axis=-1, keepdims=True)


def masked(x):
    return ops.softmax(ops.where(x > 9.0, x, -np.inf))


# Of each: the layers, the data, what compile gets, and the layer, the type of the operation and the
# fault that the warning names.
FAULTS = {
    "huge weight of a convolution": (
        lambda: [
            keras.layers.Reshape((2, 2, 1), name="image"),
            keras.layers.Conv2D(
                2, 2, activation="relu", kernel_initializer=constant(3e38), name="conv"
            ),
            keras.layers.Flatten(name="flat"),
        ],
        (ONES, np.ones((4, 2))),
        {},
        ("net/conv", "Conv2D", "overflow"),
    ),
    "float16 loss": (
        lambda: [dense(dtype="float16")],
        (300 * np.ones((4, 4), np.float16), np.zeros((4, 4), np.float16)),
        {
            "loss": lambda y, x: ops.mean(
                ops.square(ops.cast(y, "float16") - ops.cast(x, "float16"))
            )
        },
        ("loss", "Square", "overflow"),
    ),
    "float16 product": (
        lambda: [dense(dtype="float16", kernel_initializer=constant(4e4))],
        (ONES, ONES),
        {},
        ("net/dense", "MatMul", "overflow"),
    ),
    "division by zero in a norm": (
        lambda: [activation(divided_by_norm, "norm"), dense(name="last")],
        (0 * ONES, ONES),
        {},
        ("net/norm", "RealDiv", "invalid operation"),
    ),
    "softmax of infinities": (
        lambda: [dense(), activation(masked, "scores")],
        (ONES, ONES),
        {},
        ("net/scores", "Softmax", "invalid operation"),
    ),
    "overflow of exp": (
        lambda: [dense(kernel_initializer=constant(100.0), activation="exponential")],
        (ONES, ONES),
        {},
        ("net/dense", "Exp", "overflow"),
    ),
    "infinity times zero": (
        lambda: [
            activation(lambda x: (x - x) * ops.exp(x * 100.0), "gate"),
            dense(name="last"),
        ],
        (ONES, ONES),
        {},
        ("net/gate", "Exp", "overflow"),
    ),
    "gradient of a root at zero": (
        lambda: [dense(kernel_initializer="zeros"), activation(ops.sqrt, "root")],
        (ONES, ONES),
        {},
        ("net/root", "SqrtGrad", "division by zero"),
    ),
    "logarithm in a loss": (
        lambda: [dense(kernel_initializer="zeros", activation="relu")],
        (ONES, ONES),
        {"loss": lambda y, x: -ops.mean(y * ops.log(x))},
        ("loss", "Log", "division by zero"),
    ),
    "optimizer without epsilon": (
        lambda: [dense(kernel_initializer="ones", use_bias=False)],
        (ONES, 4 * ONES),
        {"optimizer": keras.optimizers.Adam(0.1, epsilon=0.0)},
        ("", "RealDiv", "invalid operation"),
    ),
    "update of a weight": (
        lambda: [dense(use_bias=False)],
        (1e10 * ONES, ONES),
        {"optimizer": keras.optimizers.SGD(1e30)},
        ("", "Mul", "overflow"),
    ),
    "row of a table": (
        lambda: [
            keras.layers.Embedding(8, 3, name="table"),
            keras.layers.Flatten(name="flat"),
            dense(kernel_initializer=constant(2.0)),
        ],
        (np.arange(16).reshape(4, 4) % 8, ONES),
        {"table": 5},
        ("net/dense", "MatMul", "overflow"),
    ),
    "variance of large values": (
        lambda: [
            activation(lambda x: x - ops.var(x, -1, keepdims=True), "norm"),
            dense(name="last"),
        ],
        (np.array([[3e38, -3e38, 0, 1]] * 4), ONES),
        {},
        ("net/norm", None, "overflow"),
    ),
    "power of a negative": (
        lambda: [activation(lambda x: ops.power(x, 0.5), "power"), dense(name="last")],
        (-ONES, ONES),
        {},
        ("net/power", "Pow", "invalid operation"),
    ),
    "learning rate": (
        lambda: [dense(use_bias=False)],
        (ONES, 0 * ONES),
        {"optimizer": keras.optimizers.SGD(1e38)},
        ("net/dense", "MatMul", "overflow"),
    ),
    "huge weight of a dense layer": (
        lambda: [dense(kernel_initializer=constant(3e38))],
        (ONES, ONES),
        {},
        ("net/dense", "MatMul", "overflow"),
    ),
    "logarithm of zero in a layer": (
        lambda: [dense(kernel_initializer="zeros"), activation(ops.log, "log")],
        (ONES, ONES),
        {},
        ("net/log", "Log", "division by zero"),
    ),
    "normalisation of equal values without an epsilon": (
        lambda: [keras.layers.BatchNormalization(epsilon=0.0, name="norm"), dense(name="last")],
        (ONES, ONES),
        {},
        ("net/norm", "Rsqrt", "division by zero"),
    ),
    "mean of no values": (
        lambda: [
            activation(lambda x: x / ops.sum(0 * x, -1, keepdims=True), "mean"),
            dense(name="last"),
        ],
        (ONES, ONES),
        {},
        ("net/mean", "RealDiv", "division by zero"),
    ),
    "arc cosine beyond 1": (
        lambda: [dense(name="first"), activation(ops.arccos, "angle")],
        (ONES, ONES),
        {},
        ("net/angle", "Acos", "invalid operation"),
    ),
}


def test_there_are_twenty():
    assert len(FAULTS) == 20


def test_an_index_out_of_range_is_named_by_its_error():
    """What an embedding looks up is no NaN: the program ends."""
    with IPUStrategy().scope():
        layers = [keras.layers.Embedding(8, 3, name="table"), keras.layers.Flatten(), dense()]
        model = keras.Sequential([keras.Input((2,), dtype="int32"), *layers], name="net")
        model.compile("sgd", "mse")
        with pytest.raises(tf.errors.InvalidArgumentError, match="table"):
            model.fit(np.array([[1, 8]] * 4), ONES, batch_size=4, verbose=0)


@pytest.mark.parametrize("case", FAULTS)
def test_training_names_layer_and_op(case):
    layers, (x, y), compiled, (layer, op_type, fault) = FAULTS[case]
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.floating_point_behaviour.nanoo = True  # Float16 products would saturate.
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()
    options = {"optimizer": "sgd", "loss": "mse"} | compiled
    row = options.pop("table", None)
    with IPUStrategy().scope():
        model = keras.Sequential([keras.Input(x.shape[1:], dtype=x.dtype), *layers()], name="net")
        model.compile(**options)
        if row is not None:
            table = model.get_layer("table")
            values = np.zeros((8, 3), np.float32)
            values[row] = 3e38
            table.embeddings.assign(values)
        model.fit(x, y, batch_size=4, epochs=2, verbose=0, shuffle=False)
        programs = model.distribute_strategy.report(insights=False).programs
    found = [found for program in programs for found in program.nonfinite]
    config.reset_ipu_configuration()
    first = found[0]
    assert (first.fault, first.op_type) == (fault, op_type or first.op_type), str(first)
    assert first.layer == layer or not layer, str(first)


def trained(x, ipus=1, steps=2, micro_batches=1, stages=None, **compiled):
    """The faults of training a network of two layers on some samples, two a batch."""
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.auto_select_ipus = ipus
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()
    with IPUStrategy().scope():
        layers = [dense(3, "first"), activation(ops.sqrt, "root")]
        model = keras.Sequential([keras.Input((4,)), *layers], name="net")
        model.compile("sgd", "mse", steps_per_execution=steps)
        if stages:
            model.set_pipeline_stage_assignment(stages)
            model.set_pipelining_options(gradient_accumulation_steps_per_replica=micro_batches)
        else:
            model.set_gradient_accumulation_options(
                gradient_accumulation_steps_per_replica=micro_batches
            )
        model.optimizer.learning_rate = 0.0
        model.fit(x, np.ones((len(x), 3)), batch_size=2, verbose=0, shuffle=False, **compiled)
        programs = model.distribute_strategy.report(insights=False).programs
    config.reset_ipu_configuration()
    return [found for program in programs for found in program.nonfinite]


def samples(batches, bad):
    """Batches of two samples, one of which has a value that the root does not take."""
    x = np.ones((2 * batches, 4), np.float32)
    x[2 * bad + 1] = -1.0
    return x


@pytest.mark.parametrize(
    ("options", "bad", "moment"),
    [
        ({}, 5, (6, 6, None, None)),
        ({"micro_batches": 2}, 5, (6, 3, 1, None)),
        ({"micro_batches": 2, "ipus": 2, "steps": 4}, 5, (6, 2, 0, 1)),
        ({"ipus": 2}, 4, (5, 3, None, 0)),
        ({"micro_batches": 4, "stages": [0, 1], "ipus": 2, "steps": 4}, 6, (7, 2, 2, None)),
    ],
)
def test_the_update_and_the_micro_batch_are_named(options, bad, moment):
    (found,) = trained(samples(8, bad), **options)
    assert (found.op_type, found.layer) == ("Sqrt", "net/root")
    assert (found.run, found.update, found.micro_batch, found.replica) == moment
    assert f"update {found.update}" in found.moment


def test_loops_that_xla_compiles_are_searched(monkeypatch, caplog):
    monkeypatch.setattr(jitting, "JITTED_STEPS", 0)
    monkeypatch.setattr(jitting, "STEPS_PER_OPERATION", 0)
    caplog.set_level("INFO", logger=jitting.__name__)
    (found,) = trained(samples(8, 5), steps=4)
    assert "is compiled by XLA" in caplog.text
    assert (found.op_type, found.layer, found.run, found.update) == ("Sqrt", "net/root", 6, 6)
    assert found.operands[0].low == -4.0
    assert found.tiles


def test_an_operation_that_the_compiler_joins_has_the_step_of_its_reader():
    cfg = IPUConfig()
    cfg.ipu_model.tiles_per_ipu = 16
    cfg.simulator.trace_numerics = True
    cfg.configure_ipu_system()
    strategy = IPUStrategy(enable_keras_extensions=False)

    @tf.function
    def step(x):
        with tf.name_scope("block"):
            return tf.tanh(tf.math.log(x) + 1.0) * 0.5 - x

    strategy.run(step, args=(tf.constant([1.0, -1.0, 2.0]),))
    (found,) = strategy.report(insights=False).programs[0].nonfinite
    config.reset_ipu_configuration()
    assert (found.op, found.joined_with) == ("block/Log", "block/sub")
    assert found.tile_ranges
    assert f"step {found.step} of the device program, joined with 'block/sub', superstep" in str(
        found
    )
