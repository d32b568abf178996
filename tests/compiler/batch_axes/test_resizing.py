"""Steps of other batch sizes, from one: the step that a trace gives, or none."""

import dataclasses

import keras
import pytest

import ipu_tf
from ipu_tf.compiler.batch_axes.extents import NotInferable
from ipu_tf.compiler.batch_axes.resizing import resized
from ipu_tf.compiler.compile import compile_simplified
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.traced_step import TracedStep
from ipu_tf.keras.keras3.own_code import runs_own_code
from ipu_tf.keras.steps.training_steps import DeviceStep
from tests.zoo import tiny


def convolutions():
    return keras.Sequential(
        [
            keras.Input((8, 8, 4)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dense(4, "softmax"),
        ]
    )


def traced(model, samples):
    keras.utils.clear_session()  # For the same names.
    report = ipu_tf.estimate(model, batch_size=samples, insights=False)
    return report.programs[0].source.step


def program(step):
    options = dataclasses.replace(step.options, out_of_memory="report")
    return compile_simplified(simplify(step.module), options, step.plans, step.samples_per_run)


@pytest.mark.parametrize(
    "model",
    [
        convolutions,
        *(
            pytest.param(tiny.NETWORKS[name][0], marks=pytest.mark.slow, id=name)
            for name in ("bert_base_squad", "gpt2", "resnet50", "resnext101_32x4d", "vit_b16")
        ),
    ],
)
def test_it_is_the_step_that_a_trace_gives(model):
    wanted = traced(model, 6)
    found = resized(traced(model, 4), 6)
    assert found.plans == wanted.plans
    assert _without_values(simplify(found.module)) == _without_values(simplify(wanted.module))
    found, wanted = program(found), program(wanted)
    assert found.cycles == wanted.cycles
    assert found.memory.peak_tile_bytes.tolist() == wanted.memory.peak_tile_bytes.tolist()


def _without_values(module):
    """Returns every instruction by its place, without names and the values of constants."""
    found = []
    for computation in module.computations.values():
        places = {instruction.name: place for place, instruction in enumerate(computation)}
        for one in computation:
            attributes = {k: v for k, v in one.attributes.items() if k != "literal"}
            operands = [places[name] for name in one.operands]
            found.append((one.opcode, one.type, operands, attributes, one.op_name, one.layer))
    return found


def step_of(body, samples=4):
    text = f'module m\n\nparameter 1 weight "w"\n\nENTRY main {{\n{body}\n}}\n'
    module, options = parse(text), CompilerOptions()
    return TracedStep(module=module, options=options, plans={}, samples_per_run=samples)


def sizes(step):
    """Returns the size of the result."""
    entry = step.module.entry_computation
    return entry.by_name()[entry.root].type.dims


INPUT = "x = f32[4,6] parameter(0)\nw = f32[4,6] parameter(1)"


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ("ROOT y = f32[4,6] negate(x)", (10, 6)),
        ("ROOT y = f32[4,6] negate(w)", (4, 6)),
        ("ROOT y = f32[6,4] transpose(x), dimensions={1,0}", (6, 10)),
        ("y = f32[24] reshape(x)\nROOT z = f32[24] negate(y)", (60,)),
        ("y = f32[12,2] reshape(x)\nROOT z = f32[12,2] negate(y)", (30, 2)),
        ("y = f32[4,2,3] reshape(x)\nROOT z = f32[4,2,3] negate(y)", (10, 2, 3)),
    ],
)
def test_sizes_that_count_samples_grow(body, size):
    assert sizes(resized(step_of(f"{INPUT}\n{body}"), 10)) == size


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("ROOT y = f32[4,6] add(x, w)", "'y' .add.: an extent counts samples in one place"),
        ("ROOT y = f32[2,2,6] reshape(x)", "a reshape has no place for the axis"),
        ("ROOT y = f32[4,4] iota(), dimensions={0}", "nothing says which sizes of 'y' .iota"),
        ("ROOT y = f32[4,6] custom-call(x)", "'y' .custom-call.: nothing is known of"),
    ],
)
def test_a_step_whose_sizes_are_open_is_refused(body, message):
    with pytest.raises(NotInferable, match=message):
        resized(step_of(f"{INPUT}\n{body}"), 10)


@pytest.mark.parametrize(("samples", "wanted"), [(1, 4), (4, 1)])
def test_steps_of_one_sample_are_other_steps(samples, wanted):
    with pytest.raises(NotInferable, match="one sample are broadcast otherwise"):
        resized(step_of(f"{INPUT}\nROOT y = f32[4,6] negate(x)", samples), wanted)


def test_inputs_that_are_no_batches_are_refused():
    with pytest.raises(NotInferable, match="the input 'x' is no batch of 3 samples"):
        resized(step_of(f"{INPUT}\nROOT y = f32[4,6] negate(x)", 3), 6)


def relu_of(own):
    def activation(x):
        return x

    return keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(2, activation if own else "relu")]
    )


def own_layer():
    class Layer(keras.layers.Dense):
        pass

    return keras.Sequential([keras.Input((4,)), Layer(2)])


@pytest.mark.parametrize(
    ("model", "own"),
    [
        (lambda: relu_of(own=False), False),
        (lambda: relu_of(own=True), True),
        (own_layer, True),
        (lambda: keras.Sequential([keras.Input((4,)), keras.layers.Lambda(abs)]), True),
    ],
)
def test_code_of_a_user_is_traced_again(model, own):
    made = model()
    made.compile("sgd", "mse")
    assert runs_own_code(made) == own
    made.compile("sgd", lambda y, y_pred: y - y_pred)
    assert runs_own_code(made)


@pytest.mark.slow
def test_insights_of_several_samples_need_no_other_trace(monkeypatch):
    traces = []
    trace = DeviceStep.trace
    monkeypatch.setattr(
        DeviceStep, "trace", lambda *arguments: [traces.append(1), trace(*arguments)]
    )
    (program,) = ipu_tf.estimate(convolutions, batch_size=4, insights=True).programs
    assert any(insight.change == "micro_batch" for insight in program.insights)
    assert len(traces) == 1
