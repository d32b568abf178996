"""A pipeline trains and predicts as its micro-batches do one after the other."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from ipu_tf.config import reset_ipu_configuration
from ipu_tf.eager.backprop import GradientCaptureContext, GradientCaptureTape
from ipu_tf.feeds.infeed_queue import IPUInfeedQueue
from ipu_tf.feeds.outfeed_queue import IPUOutfeedQueue
from ipu_tf.gradient_accumulation import GradientAccumulationReductionMethod as Method
from ipu_tf.ops.grad_util_ops import capture_upstream_gradients
from ipu_tf.ops.internal_ops import get_current_iteration_counter
from ipu_tf.ops.pipelining_ops import (
    PipelineSchedule,
    RecomputationMode,
    recomputation_checkpoint,
)
from ipu_tf.pipelining import OptimizerFunctionOutput, pipeline

V1 = tf.compat.v1.train


def configure(ipus):
    config = IPUConfig()
    config.auto_select_ipus = ipus
    config.configure_ipu_system()


@pytest.fixture(autouse=True)
def two_ipus():
    configure(2)
    yield
    reset_ipu_configuration()


class Model:
    """Two stages with a weight each, and what the sequential program makes of them."""

    def __init__(self):
        rng = np.random.default_rng(1)
        self.strategy = IPUStrategy()
        self.start = [rng.normal(size=shape).astype("float32") for shape in ((4, 16), (16, 3))]
        self.batches = rng.normal(size=(8, 5, 4)).astype("float32")
        with self.strategy.scope():
            self.weights = [tf.Variable(value) for value in self.start]

    def first(self, batch):
        return tf.nn.relu(tf.matmul(batch, self.weights[0]))

    def second(self, x):
        return tf.reduce_mean(tf.square(tf.matmul(x, self.weights[1])))

    def run(self, optimizer_function, count=4, jit_compile=None, **options):
        infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(self.batches))
        outfeed = IPUOutfeedQueue()

        @tf.function(jit_compile=jit_compile)
        def train():
            pipeline(
                [self.first, self.second],
                count,
                infeed_queue=infeed,
                outfeed_queue=outfeed,
                optimizer_function=optimizer_function,
                **options,
            )

        self.strategy.run(train)
        self.outfeed_values = tf.nest.map_structure(
            lambda values: values.numpy(), outfeed.dequeue()
        )
        return [weight.numpy() for weight in self.weights]

    def sequential(self, optimizer, updates, count=4, reduce=sum):
        """Trains one micro-batch after the other on one IPU; returns weights and losses."""
        configure(1)
        with self.strategy.scope():
            weights = [tf.Variable(value) for value in self.start]

        @tf.function
        def micro_batch(batch):
            with tf.GradientTape() as tape:
                x = tf.nn.relu(tf.matmul(batch, weights[0]))
                loss = tf.reduce_mean(tf.square(tf.matmul(x, weights[1])))
            return loss, tape.gradient(loss, weights)

        @tf.function
        def update(gradients):
            optimizer.apply_gradients(list(zip(gradients, weights, strict=True)))

        batches, losses = iter(self.batches), []
        for _ in range(updates):
            gradients = []
            for _ in range(count):
                loss, found = self.strategy.run(micro_batch, args=(tf.constant(next(batches)),))
                losses.append(loss.numpy())
                gradients.append([gradient.numpy() for gradient in found])
            reduced = [tf.constant(reduce(values)) for values in zip(*gradients, strict=True)]
            self.strategy.run(update, args=(reduced,))
        return [weight.numpy() for weight in weights], losses


@pytest.fixture
def model():
    return Model()


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def mean(values):
    return sum(value * np.float32(1 / len(values)) for value in values)


def running_mean(values):
    kept = np.float32(0)
    for count, value in enumerate(np.float32(values)):
        share = np.float32(1) / np.float32(count + 1)
        kept = kept * (np.float32(count) * share) + value * share
    return kept


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("method", "reduce"),
    [
        ("sum", sum),
        (Method.MEAN, mean),
        ("running_mean", running_mean),
    ],
)
def test_trains_as_the_sequential_program(model, method, reduce):
    optimizer = V1.MomentumOptimizer(0.1, 0.9)
    found = model.run(
        lambda loss: OptimizerFunctionOutput(optimizer, loss),
        repeat_count=2,
        reduction_method=method,
        outfeed_loss=True,
    )
    expected, losses = model.sequential(V1.MomentumOptimizer(0.1, 0.9), 2, reduce=reduce)
    assert_same(found, expected)
    assert_same(model.outfeed_values, losses)


@pytest.mark.slow
@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("by", ["variables", "tape"])
def test_trains_with_a_keras_optimizer(model, by):
    with model.strategy.scope():
        optimizer = keras.optimizers.Adam(0.1)

    def optimize(loss):
        if by == "variables":
            return OptimizerFunctionOutput(optimizer, loss, variables=model.weights)
        with tf.GradientTape() as tape:
            for weight in model.weights:
                tape.watch(weight)
        return OptimizerFunctionOutput(optimizer, loss, tape=tape)

    found = model.run(optimize, repeat_count=2)
    with model.strategy.scope():
        expected, _ = model.sequential(keras.optimizers.Adam(0.1), 2)
    assert_same(found, expected)


def of_tf_keras(kind):
    optimizers = pytest.importorskip("tf_keras").optimizers
    if kind == "scaled":
        scaling = pytest.importorskip("tf_keras").mixed_precision.LossScaleOptimizer
        return scaling(optimizers.legacy.SGD(0.1), dynamic=False, initial_scale=64.0)
    return (optimizers if kind == "new" else optimizers.legacy).SGD(0.1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["legacy", "new", "scaled"])
def test_trains_with_an_optimizer_of_tf_keras(model, kind):
    with model.strategy.scope():
        optimizer = of_tf_keras(kind)
    found = model.run(
        lambda loss: OptimizerFunctionOutput(optimizer, loss, variables=model.weights),
        repeat_count=2,
    )
    expected, _ = model.sequential(V1.GradientDescentOptimizer(0.1), 2)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


def test_the_optimizer_reads_results_of_the_last_stage(model):
    """Scripts pass the learning rate from stage to stage."""
    second = model.second
    model.second = lambda x: (tf.constant(0.1), second(x))
    found = model.run(
        lambda rate, loss: OptimizerFunctionOutput(V1.GradientDescentOptimizer(rate), loss),
        outfeed_mask=[True, False],
    )
    expected, losses = model.sequential(V1.GradientDescentOptimizer(0.1), 1)
    assert_same(found, expected)
    assert_same(model.outfeed_values, [losses])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("loss_only", [True, False])
def test_accumulates_for_the_outfeed(model, loss_only):
    optimizer = V1.GradientDescentOptimizer(0.1)
    model.run(
        lambda loss: OptimizerFunctionOutput(optimizer, loss),
        repeat_count=2,
        accumulate_outfeed=True,
        outfeed_loss=loss_only,
    )
    _, losses = model.sequential(V1.GradientDescentOptimizer(0.1), 2)
    sums = [sum(losses[:4]), sum(losses[4:])]
    assert_same(model.outfeed_values, sums if loss_only else [sums])


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [("float16", tf.float16), (lambda tensor: tf.float16, tf.float16), (None, tf.float32)],
)
@pytest.mark.slow
def test_sums_for_the_outfeed_have_the_type_of_the_option(model, dtype, expected):
    model.run(None, accumulate_outfeed=True, accumulate_outfeed_dtype=dtype)
    _, losses = model.sequential(V1.GradientDescentOptimizer(0.0), 1)
    total = expected.as_numpy_dtype(0)
    for loss in losses:
        total += loss.astype(total.dtype)
    assert [value.dtype for value in tf.nest.flatten(model.outfeed_values)] == [expected]
    np.testing.assert_array_equal(tf.nest.flatten(model.outfeed_values), [[total]])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("flags", "streaming_bytes"),
    [
        (["offload_weight_update_variables"], [256, 192]),
        (["replicated_optimizer_state_sharding"], [0, 0]),
        (
            ["offload_weight_update_variables", "replicated_optimizer_state_sharding"],
            [128, 96],
        ),
        (["offload_activations"], [640, 320]),  # Inputs and hidden values of waiting batches.
        (["offload_gradient_accumulation_buffers"], [256, 192]),
        (["replicated_weight_sharding"], [0, 0]),
        (["replicated_weight_sharding", "offload_weights"], [128, 96]),
    ],
    ids=str,
)
@pytest.mark.slow
def test_where_data_lies_does_not_change_numbers(model, flags, streaming_bytes):
    configure(4)

    def optimize(loss):
        return OptimizerFunctionOutput(optimizer, loss)

    optimizer = V1.MomentumOptimizer(0.1, 0.9)
    expected = model.run(optimize)
    other = Model()
    optimizer = V1.MomentumOptimizer(0.1, 0.9)
    assert_same(other.run(optimize, **dict.fromkeys(flags, True)), expected)
    (program,) = other.strategy.report().programs
    assert [stage.streaming_bytes for stage in program.device.stages] == streaming_bytes
    assert program.device.replicas == 2


@pytest.mark.slow
def test_serialized_batches_are_as_many_micro_batches(model):
    configure(1)
    optimizer = V1.GradientDescentOptimizer(0.1)
    found = model.run(
        lambda loss: OptimizerFunctionOutput(optimizer, loss),
        count=2,
        batch_serialization_iterations=4,
    )
    expected, _ = model.sequential(V1.GradientDescentOptimizer(0.1), 1, count=8)
    assert_same(found, expected)


def test_predicts_with_forward_passes_alone(model):
    model.run(None, pipeline_schedule=PipelineSchedule.Interleaved, repeat_count=2)
    (program,) = model.strategy.report().programs
    _, losses = model.sequential(V1.GradientDescentOptimizer(0.0), 2)
    assert_same(model.outfeed_values, losses)
    assert [stage.backward_cycles for stage in program.device.stages] == [0, 0]


class Checkpointed(Model):
    """Its first stage has two layers, with a checkpoint between them."""

    def first(self, batch):
        kept = recomputation_checkpoint(tf.math.tanh(tf.tile(batch, [1, 16])))
        wide = tf.tile(tf.reduce_sum(tf.reshape(tf.math.tanh(kept), [5, 16, 4]), 1), [1, 1])
        return super().first(tf.math.tanh(wide))


@pytest.mark.slow
def test_stages_recompute_from_their_inputs_or_their_checkpoints():
    cycles, weights = [], []
    for mode in RecomputationMode:
        model = Checkpointed()
        optimizer = V1.GradientDescentOptimizer(0.1)
        weights.append(
            model.run(
                lambda loss, optimizer=optimizer: OptimizerFunctionOutput(optimizer, loss),
                recomputation_mode=mode,
            )
        )
        (program,) = model.strategy.report().programs
        cycles.append(program.device.stages[0].recomputed_cycles)
    none, whole, between = cycles
    assert none == 0 < between < whole
    for found in weights[1:]:
        assert_same(found, weights[0])


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize("schedule", list(PipelineSchedule))
def test_compiles_its_stages_for_their_ipus(model, schedule):
    optimizer = V1.MomentumOptimizer(0.1, 0.9)
    model.run(
        lambda loss: OptimizerFunctionOutput(optimizer, loss),
        pipeline_schedule=schedule,
        offload_weight_update_variables=True,
        name="two_stages",
    )
    (program,) = model.strategy.report().programs
    device = program.device
    assert program.name == "train.two_stages"
    assert (device.schedule, device.micro_batches) == (schedule.name.lower(), 4)
    assert [stage.ipu for stage in device.stages] == [0, 1]
    for stage in device.stages:
        layers = {step.layer for step in stage.program.steps if step.phase == "forward"}
        assert f"two_stages_stage_{stage.index}" in layers
        assert f"two_stages_stage_{1 - stage.index}" not in layers
        assert stage.backward_cycles > 0
        assert stage.streaming_bytes  # The momentum.
    assert {op.op_type for op in program.tile_ops} == {"MatMul"}


def test_replicas_sum_gradients_as_the_optimizer_says(model):
    configure(4)
    optimizer = V1.GradientDescentOptimizer(0.1)  # In a strategy it sums over replicas.
    found = model.run(lambda loss: OptimizerFunctionOutput(optimizer, loss))
    (program,) = model.strategy.report().programs
    assert (program.device.replicas, program.device.replica_ipus) == (2, 2)
    assert program.device.all_reduce_cycles > 0
    configure(1)
    expected, _ = model.sequential(V1.GradientDescentOptimizer(0.1), 1, count=8)
    for one, other in zip(found, expected, strict=True):  # The replicas' sums are added up.
        np.testing.assert_allclose(one, other, rtol=1e-5)


def run_stages(stages, optimizer_function=None, count=4, jit_compile=None, data=None, **options):
    """Runs a pipeline on a dataset; returns what it gives to its outfeed, and its program."""
    infeed = None if data is None else IPUInfeedQueue(data)
    outfeed = IPUOutfeedQueue()
    strategy = IPUStrategy()

    @tf.function(jit_compile=jit_compile)
    def program():
        pipeline(
            stages,
            count() if callable(count) else count,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=optimizer_function,
            **options,
        )

    strategy.run(program)
    (traced,) = strategy.report().programs
    return tf.nest.map_structure(lambda values: values.numpy(), outfeed.dequeue()), traced.device


def test_stages_of_keras_layers_take_a_dict_of_the_infeed_by_name():
    with IPUStrategy().scope():
        layers = keras.layers.Dense(3, name="one"), keras.layers.Dense(2, name="two")
        for layer, width in zip(layers, (5, 3), strict=True):
            layer.build((4, width))
    x = np.random.default_rng(1).normal(size=(4, 4, 5)).astype("float32")
    element = {"x": x, "scale": np.arange(4.0, dtype="float32")}
    data = tf.data.Dataset.from_tensor_slices({"features": element})

    def first_stage(features):
        features["x"] = tf.identity(features["x"])  # It may change what it gets.
        return layers[0](features["x"]), features["scale"]

    stages = [
        first_stage,
        lambda x, scale: {"scaled": layers[1](x) * scale},
    ]
    found, device = run_stages(stages, data=data, jit_compile=True)
    expected = x @ layers[0].kernel.numpy() @ layers[1].kernel.numpy()
    expected *= np.arange(4).reshape(4, 1, 1)
    np.testing.assert_allclose(found["scaled"], expected, rtol=1e-5, atol=1e-6)
    for number, path in enumerate(("one", "two")):
        assert path in {step.layer for step in device.stages[number].program.steps}


@pytest.mark.slow
def test_a_weight_with_a_constant_gradient_is_updated_on_the_ipu_of_its_stage():
    weights = [tf.Variable([2.0, 3.0], name="scale"), tf.Variable([1.0, 1.0], name="shift")]

    @tf.function
    def train(x):
        pipeline(
            [lambda x: x * weights[0], lambda x: tf.reduce_sum(x + weights[1])],
            4,
            inputs=[x],
            outfeed_queue=IPUOutfeedQueue(),
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                V1.GradientDescentOptimizer(0.5), loss
            ),
        )

    strategy = IPUStrategy()
    strategy.run(train, args=(tf.constant([1.0, 2.0]),))
    np.testing.assert_array_equal(weights[0], [0.0, -1.0])
    np.testing.assert_array_equal(weights[1], [-1.0, -1.0])
    (program,) = strategy.report().programs
    assert all(stage.update_cycles > 0 for stage in program.device.stages)


def test_the_program_knows_the_count():
    total = tf.Variable(4)
    found, device = run_stages([lambda x: x + 1, lambda x: x * 2], count=total.value, inputs=[1.0])
    np.testing.assert_array_equal(found, [4.0] * 4)
    assert device.micro_batches == 1


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("dtype", "expected"), [(None, 2050.0), (tf.float32, 2052.0)])
def test_sums_have_the_type_of_the_option(dtype, expected):
    """In float16, 2048 + 1 is 2048, so that only 2 is added."""
    weight = tf.Variable(np.float16(0))
    optimizer = V1.GradientDescentOptimizer(np.float16(-1))
    values = np.array([2048, 1, 1, 2], "float16")
    run_stages(
        [lambda x: weight * x, lambda x: x],
        lambda loss: OptimizerFunctionOutput(optimizer, loss),
        data=tf.data.Dataset.from_tensor_slices(values),
        gradient_accumulation_dtype=lambda variable: dtype,
    )
    assert weight.numpy() == expected


class Captures(V1.GradientDescentOptimizer):
    """Keeps the captured gradients that it gets."""

    kept = tf.Variable([0.0, 0.0])

    def apply_gradients(self, grads_and_vars, global_step=None, name=None, captured_grads=None):
        self.kept.assign(captured_grads["x"][0])
        return super().apply_gradients(grads_and_vars, global_step, name)


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(("sums", "expected"), [(True, [12.0, 24.0]), (False, [6.0, 12.0])])
def test_the_optimizer_gets_captured_gradients(sums, expected):
    weight, optimizer, captured = tf.Variable([1.0, 2.0]), Captures(0.0), IPUOutfeedQueue()
    context = GradientCaptureContext()

    def first(x):
        with context:
            return capture_upstream_gradients(weight * x, tag="x"), x

    run_stages(
        [first, lambda x, scale: tf.reduce_sum(x * scale * [1.0, 2.0])],
        lambda loss: OptimizerFunctionOutput(
            optimizer, loss, gradient_capture_context=context, captured_gradient_outfeed=captured
        ),
        data=tf.data.Dataset.from_tensor_slices(np.array([1, 2, 3, 6], "float32")),
        gradient_accumulation_for_captured_grads=sums,
    )
    np.testing.assert_array_equal(Captures.kept.numpy(), expected)
    np.testing.assert_array_equal(captured.dequeue()["x"][0][0], expected)


@pytest.mark.slow
def test_an_outfeed_gets_what_a_tape_captures():
    strategy, captured = IPUStrategy(), IPUOutfeedQueue()
    with strategy.scope():
        weight, optimizer = tf.Variable(3.0), keras.optimizers.SGD(0.5)

    @tf.function
    def train():
        with GradientCaptureTape() as tape:
            pipeline(
                [lambda: capture_upstream_gradients(2.0 * weight, tag="x"), tf.square],
                4,
                outfeed_queue=IPUOutfeedQueue(),
                optimizer_function=lambda loss: OptimizerFunctionOutput(
                    optimizer, loss, tape=tape, captured_gradient_outfeed=captured
                ),
            )

    strategy.run(train)
    np.testing.assert_array_equal(captured.dequeue()["x"], [[4 * 2 * 6.0]])
    assert weight.numpy() == 3.0 - 0.5 * 4 * 2 * 2 * 6.0


@pytest.mark.fast_cells(1)
@pytest.mark.parametrize(
    ("mapping", "side_by_side"), [([[0, 1], 0], True), ([0, 1], False)], ids=["list", "one"]
)
def test_a_stage_may_be_functions_side_by_side(model, mapping, side_by_side):
    """Each takes what the stage takes; the next stage takes the results of all of them."""
    with model.strategy.scope():
        weight = tf.Variable(tf.ones([4, 16]))

    def other(batch):
        return tf.matmul(batch, weight), tf.reduce_sum(batch)

    def both(batch):
        return model.first(batch), *other(batch)

    def last(x, y, total):
        return model.second(x - y) + total

    infeed = IPUInfeedQueue(tf.data.Dataset.from_tensor_slices(model.batches))
    outfeed = IPUOutfeedQueue()

    @tf.function
    def train():
        pipeline(
            [[model.first, other] if side_by_side else both, last],
            4,
            infeed_queue=infeed,
            outfeed_queue=outfeed,
            optimizer_function=lambda loss: OptimizerFunctionOutput(
                V1.GradientDescentOptimizer(0.1), loss
            ),
            device_mapping=mapping,
        )

    model.strategy.run(train)
    weights, (first, second) = [*model.weights, weight], model.start
    loss = 0.0
    with tf.GradientTape(persistent=True) as tape:
        values = [tf.Variable(value) for value in (first, second, np.ones((4, 16), "float32"))]
        for batch in model.batches[:4]:
            x = tf.nn.relu(batch @ values[0]) - batch @ values[2]
            loss += tf.reduce_mean(tf.square(x @ values[1]))
    for weight, value in zip(weights, values, strict=True):
        expected = value - 0.1 * tape.gradient(loss, value)
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-5)
    assert len(model.strategy.report().programs[-1].device.stages) == 2 + side_by_side


def test_stages_know_the_number_of_the_micro_batch(model):
    """Whether the pipeline is in a loop, or the stage has loops, does not matter."""
    outfeed = IPUOutfeedQueue()

    def first(x):
        numbers = tf.map_fn(lambda _: get_current_iteration_counter(), tf.zeros([2]), tf.int32)
        return get_current_iteration_counter(), numbers, x

    def second(number, numbers, x):
        return number, numbers, get_current_iteration_counter()

    @tf.function
    def program(x):
        for _ in tf.range(2):
            pipeline([first, second], 4, repeat_count=2, inputs=[x], outfeed_queue=outfeed)

    model.strategy.run(program, args=(tf.constant(1.0),))
    before, inside, after = outfeed.dequeue()
    np.testing.assert_array_equal(before, np.tile(np.arange(4), 4))
    np.testing.assert_array_equal(after, before)
    np.testing.assert_array_equal(inside, np.tile([0, 1], (16, 1)))


def test_stages_enqueue_themselves():
    inner = IPUOutfeedQueue()

    def first(x):
        inner.enqueue(x + 1)
        return x

    run_stages([first, lambda x: x * 2], inputs=[1.0])
    np.testing.assert_array_equal(inner.dequeue(), [2.0] * 4)
