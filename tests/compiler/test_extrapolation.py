"""Steps of other batch sizes, from two: the step that a trace gives, with its figures."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

import ipu_tf
from ipu_tf.compiler.compile import compile_simplified
from ipu_tf.compiler.compiler_options import CompilerOptions
from ipu_tf.compiler.extrapolation import NotLinear, extrapolated
from ipu_tf.compiler.hlo import parse
from ipu_tf.compiler.passes.simplify import simplify
from ipu_tf.compiler.traced_step import TracedStep


def convolutions():
    return keras.Sequential(
        [
            keras.Input((12, 12, 4)),
            keras.layers.Conv2D(8, 3, strides=2, padding="same"),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
            keras.layers.MaxPooling2D(2),
            keras.layers.Dropout(0.2),
            keras.layers.Flatten(),
            keras.layers.Dense(10, "softmax"),
        ]
    )


def recurrent():
    return keras.Sequential(
        [
            keras.Input((6,), dtype="int32"),
            keras.layers.Embedding(20, 8),
            keras.layers.LSTM(8),
            keras.layers.Dense(3, "softmax"),
        ]
    )


def traced(model, samples):
    (program,) = ipu_tf.estimate(model, batch_size=samples, insights=False).programs
    step = program.source.step
    return dataclasses.replace(step, module=simplify(step.module)), program.device


@pytest.mark.parametrize(
    ("network", "optimizer"),
    [
        (convolutions, "sgd"),
        pytest.param(convolutions, "adam", marks=pytest.mark.slow),
        pytest.param(recurrent, "adam", marks=pytest.mark.slow),
    ],
)
def test_the_step_is_that_of_a_trace(network, optimizer):
    model = network()
    model.compile(optimizer, "sparse_categorical_crossentropy")
    (first, _), (second, _) = (traced(model, samples) for samples in (8, 16))
    _, expected = traced(model, 24)
    step = extrapolated(first, second, 24)
    program = compile_simplified(step.module, step.options, step.plans, step.samples_per_run)
    assert program.cycles == expected.cycles
    assert program.samples_per_run == 24
    for name in ("always_live", "not_always_live_peak"):
        ours, theirs = (getattr(each.memory, name) for each in (program, expected))
        assert all(np.array_equal(ours[category], theirs[category]) for category in theirs)


def step_of(text, samples):
    module = parse(f"module m\n\n{text}")
    return TracedStep(module=module, options=CompilerOptions(), plans={}, samples_per_run=samples)


def squares(n, flat=None, constant="1"):
    return step_of(
        f"""parameter 0 input "x"

        ENTRY main {{
          x = f32[{n},{n}] parameter(0)
          c = f32[] constant({constant})
          ROOT y = f32[{flat or n * n}] reshape(x)
        }}
        """,
        n,
    )


def test_sizes_that_are_not_linear_are_refused():
    with pytest.raises(NotLinear, match="'y' \\(reshape\\) of 'main' is of type"):
        extrapolated(squares(2), squares(4), 6)
    with pytest.raises(NotLinear, match="4 and 7 have no integer at 3 samples"):
        extrapolated(squares(2, 4), squares(4, 7), 3)
    with pytest.raises(NotLinear, match="Both steps are of 2 samples"):
        extrapolated(squares(2), squares(2), 3)


def test_other_instructions_are_refused():
    other = step_of(
        """parameter 0 input "x"

        ENTRY main {
          x = f32[4,4] parameter(0)
          c = f32[] constant(1)
          ROOT y = f32[4,4] negate(x)
        }
        """,
        4,
    )
    with pytest.raises(NotLinear, match="'y' \\(reshape\\) is another instruction, negate"):
        extrapolated(squares(2), other, 6)
    less = step_of(
        'parameter 0 input "x"\n\nENTRY main {\n  ROOT x = f32[4,4] parameter(0)\n}\n', 4
    )
    with pytest.raises(NotLinear, match="Computation 'main' has other instructions"):
        extrapolated(squares(2), less, 6)


@pytest.mark.slow
def test_a_batch_that_decides_what_is_traced_is_traced_again():
    def by_batch():
        inputs = keras.Input((8,))
        outputs = keras.layers.Lambda(lambda x: tf.nn.relu(x) if x.shape[0] == 64 else x)(inputs)
        return keras.Model(inputs, keras.layers.Dense(4)(outputs))

    model = by_batch()
    model.compile("sgd", "mse")
    (program,) = ipu_tf.estimate(model, batch_size=32, insights=True).programs
    (found,) = [each for each in program.insights if each.change == "micro_batch"]
    samples = int(found.advice.split()[2])
    assert found.cycles == traced(model, samples)[1].cycles
