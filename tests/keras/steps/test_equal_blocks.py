"""Equal blocks are traced four times at most in estimates, and cost what they cost apart."""

import re

import keras
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf import zoo
from ipu_tf.compiler import compile as compile_module
from ipu_tf.compiler.compile import compile_simplified, simplified_step
from ipu_tf.compiler.equal_blocks.repetition import NotRepeated
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.internals.keras_graphs import nodes_by_depth
from ipu_tf.keras.keras3 import estimate_adapter
from ipu_tf.keras.keras3.equal_blocks import equal_blocks_of
from ipu_tf.ops.pipelining_ops import RecomputationMode
from ipu_tf.runtime.programs import device_programs
from ipu_tf.runtime.tracing.tracer import Tracer
from ipu_tf.zoo import language

WIDTH, DEPTH = 8, 7
SMALL = {"depth": 8, "width": 16, "heads": 2}


def perceptron(depth=DEPTH, optimizer="adam", keeps=False, **options):
    """A residual network of dense layers, with checkpoints after all of them if it `keeps`."""
    inputs = x = keras.Input((WIDTH,))
    for number in range(depth):
        y = keras.layers.Dense(WIDTH, "relu", name=f"dense{number}", **options)(x)
        x = keras.layers.Add(name=f"sum{number}")([x, y])
        if keeps:
            x = ipu_tf.keras.layers.RecomputationCheckpoint(name=f"kept{number}")(x)
    model = keras.Model(inputs, keras.layers.Dense(1, name="head")(x))
    model.compile(optimizer, "mse")
    return model


def estimated(make, monkeypatch, *, whole, **options):
    """The report of a step, and how many ops were traced."""
    keras.backend.clear_session()  # Layers and optimizers are named anew.
    count, create_op = [], Tracer.create_op
    with monkeypatch.context() as patch:
        patch.setattr(Tracer, "create_op", lambda *a, **k: count.append(1) or create_op(*a, **k))
        if whole:
            patch.setattr(estimate_adapter, "equal_blocks_of", lambda model, training: None)
        report = ipu_tf.estimate(make, batch_size=4, insights=False, **options)
    return report, len(count)


def cycles_by_layer(device):
    found = {}
    for step in device.steps:
        cycles = sum(superstep.total_cycles for superstep in step.supersteps) * step.repeats
        # A sum of gradients outside of all layers is numbered by the sums before it.
        place = re.sub(r"^AddN_\d+$", "AddN", step.layer), step.phase
        found[place] = found.get(place, 0) + cycles
    return found


def names(report):
    (program,) = report.programs
    return sorted((op.name, op.layer, repr(op.plan)) for op in program.tile_ops)


def check_equal(make, monkeypatch, **options):
    """Checks that a model's estimate is that of a trace of all of its layers."""
    together, few_ops = estimated(make, monkeypatch, whole=False, **options)
    apart, all_ops = estimated(make, monkeypatch, whole=True, **options)
    device, expected = together.programs[0].device, apart.programs[0].device
    assert few_ops < all_ops
    assert names(together) == names(apart)
    cycles, others = cycles_by_layer(device), cycles_by_layer(expected)
    assert sorted(cycles) == sorted(others)
    assert cycles == pytest.approx(others, rel=0.005)
    assert device.cycles == pytest.approx(expected.cycles, rel=0.005)
    tensors, others = (
        sorted((t.layer, t.category, t.bytes) for t in one.tensors if t.always_live)
        for one in (device, expected)
    )
    assert tensors == others
    assert fullest_tiles(device) == pytest.approx(fullest_tiles(expected), rel=0.01)
    check_simplified(together)


def check_simplified(report):
    """Checks that passes on the trace of four blocks change nothing: all steps, all tiles."""
    (program,) = report.programs
    step, deployment = program.source.step, program.source.deployment
    assert step.outer is not None
    recompute = deployment is not None and deployment.recompute
    short, whole = (
        simplified_step(module, recompute=recompute, outer=step.outer)
        for module in (step.module, step.module.replace())
    )
    assert short.parameters == whole.parameters
    one, other = (
        compile_simplified(module, step.options, step.plans, 4, deployment)
        for module in (short, whole)
    )
    assert steps_of(one) == steps_of(other)
    for ipu, like in zip(one.ipus, other.ipus, strict=True):
        assert (ipu.memory.peak_tile_bytes == like.memory.peak_tile_bytes).all()


def steps_of(device):
    """The steps without the numbers in names of instructions."""
    return [
        (step.opcode, step.layer, step.phase, step.op_name, step.supersteps, step.repeats)
        for step in device.steps
    ]


def fullest_tiles(device):
    return [int(ipu.memory.peak_tile_bytes.max()) for ipu in device.ipus]


def test_equal_blocks_cost_what_they_cost_apart(monkeypatch):
    models = []

    def make():
        models.append(perceptron())
        return models[-1]

    check_equal(make, monkeypatch)
    model = models[0]  # It is left as it was.
    assert len(nodes_by_depth(model)) == 2 * DEPTH + 2
    assert len(model.trainable_weights) == 2 * DEPTH + 2
    assert not model.optimizer.built


def gpt2():
    model = language.gpt2(sequence_length=16, vocabulary=64, **SMALL)
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.AdamW(1e-3), logits)
    return model


def accumulating():
    model = gpt2()
    model.set_gradient_accumulation_options(gradient_accumulation_steps_per_replica=4)
    return model


def bert():
    model = language.bert_base_squad(sequence_length=16, vocabulary=64, **SMALL)
    logits = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Lamb(1e-3), [logits, logits])
    return model


def pipelined():
    blocks = tuple(map(str, range(SMALL["depth"])))
    return zoo.pipelined(
        "gpt2",
        zoo.StagePlacement(stages=("3",), checkpoints=blocks),
        micro_batches=8,
        pipelining={"recomputation_mode": RecomputationMode.RecomputeAndBackpropagateInterleaved},
        sequence_length=16,
        vocabulary=64,
        **SMALL,
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", [gpt2, accumulating, bert, pipelined])
def test_transformers_train_at_the_cost_of_all_layers(make, monkeypatch):
    config = ipu_tf.IPUConfig()
    config.auto_select_ipus = 2 if make is pipelined else 1
    check_equal(make, monkeypatch, config=config)


@pytest.mark.slow
@pytest.mark.parametrize("make", [gpt2, bert])
def test_transformers_predict_at_the_cost_of_all_layers(make, monkeypatch):
    check_equal(make, monkeypatch, training=False)


@pytest.mark.parametrize("keeps", [False, True])
def test_cheapest_checkpoints_need_passes_on_four_blocks_alone(keeps, monkeypatch):
    sizes = []

    def counted(module):
        sizes.append(sum(parameter.role == "weight" for parameter in module.parameters))
        return simplify(module)

    monkeypatch.setattr(compile_module, "simplify", counted)
    report, _ = estimated(
        lambda: perceptron(keeps=keeps), monkeypatch, whole=False, recompute="auto"
    )
    assert set(sizes) == {2 * 4 + 2}
    step = report.programs[0].source.step
    assert step.outer.longer is step.module
    assert len(step.module.parameters) > len(step.outer.trace.parameters)


class OwnSchedule(keras.optimizers.schedules.LearningRateSchedule):
    """A schedule of a script."""

    def __call__(self, step):
        return 0.1

    def get_config(self):
        return {}


def exempting():
    optimizer = keras.optimizers.AdamW(1e-3)
    optimizer.exclude_from_weight_decay(var_names=["dense3"])
    return optimizer


@pytest.mark.parametrize(
    ("make", "count"),
    [
        (perceptron, DEPTH),
        (lambda: perceptron(optimizer=keras.optimizers.SGD(OwnSchedule())), None),
        (lambda: perceptron(optimizer=exempting()), None),
        (lambda: perceptron(depth=5), None),
        (lambda: perceptron(optimizer=keras.optimizers.SGD(global_clipnorm=1.0)), None),
        (lambda: perceptron(activity_regularizer="l2"), DEPTH),
    ],
)
def test_blocks_are_found(make, count):
    blocks = equal_blocks_of(make(), training=True)
    assert (blocks and blocks.count) == count


def test_blocks_that_do_not_follow_are_traced_as_a_whole(monkeypatch):
    asked = []

    def refused(step, repetition):
        asked.append(repetition.copies)
        raise NotRepeated

    monkeypatch.setattr(device_programs, "lengthened", refused)
    report, _ = estimated(perceptron, monkeypatch, whole=False, training=False)
    layers = {op.layer for op in report.programs[0].tile_ops}
    assert asked == [DEPTH - 4]
    assert layers == {"head", *(f"dense{number}" for number in range(DEPTH))}


@pytest.mark.slow
def test_losses_of_layers_are_those_of_all(monkeypatch):
    def make():
        return perceptron(activity_regularizer="l2")

    report, _ = estimated(make, monkeypatch, whole=False)
    expected, _ = estimated(make, monkeypatch, whole=True)
    assert report.programs[0].device.cycles == expected.programs[0].device.cycles


class Own(keras.layers.Layer):
    """A layer of a script."""

    def call(self, x):
        return tf.tanh(x)


def test_layers_of_scripts_and_other_sizes_are_no_blocks():
    def model(layer):
        inputs = x = keras.Input((WIDTH,))
        for number in range(8):
            x = layer(number)(x)
        return keras.Model(inputs, x)

    assert equal_blocks_of(model(lambda _: Own()), training=False) is None
    sizes = model(lambda number: keras.layers.Dense(8 + number))
    assert equal_blocks_of(sizes, training=False) is None
    shared = keras.layers.Dense(WIDTH)
    assert equal_blocks_of(model(lambda _: shared), training=False) is None
