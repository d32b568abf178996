"""The optimizers in models: fit in the scope, files, mixed precision."""

import itertools

import keras
import numpy as np
import pytest

from ipu_tf.keras.optimizers import (
    AdamIpuOptimizer,
    ALSGradientAccumulationOptimizer,
    ALSOptimizer,
    GradientAccumulationOptimizer,
    LAMBIpuOptimizer,
    SGDIpuOptimizer,
)
from tests.grids import mostly_slow
from tests.keras.small_models import compile_model, sequential

# Keras reads its variables through an older NumPy protocol when it saves them.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy")

MAKERS = {
    "adam": lambda: AdamIpuOptimizer(0.01),
    "lamb": lambda: LAMBIpuOptimizer(0.01),
    "sgd": lambda: SGDIpuOptimizer(0.1, momentum=0.9),
    "als": lambda: ALSOptimizer(AdamIpuOptimizer(0.01), update_frequency=2),
    "accumulation": lambda: GradientAccumulationOptimizer(AdamIpuOptimizer(0.01), 2),
    "als accumulation": lambda: ALSGradientAccumulationOptimizer(
        ALSOptimizer(keras.optimizers.Adam(0.01), update_frequency=2), 2
    ),
}
# With a small epsilon, which Keras' Adam adds elsewhere.
PAIRS = {
    "adam": (
        lambda: AdamIpuOptimizer(0.01, epsilon=1e-12),
        lambda: keras.optimizers.Adam(0.01, epsilon=1e-12),
    ),
    "lamb": (MAKERS["lamb"], lambda: keras.optimizers.Lamb(0.01, epsilon=1e-6)),
    "sgd": (MAKERS["sgd"], lambda: keras.optimizers.SGD(0.1, momentum=0.9)),
    "als": (
        lambda: ALSOptimizer(keras.optimizers.Adam(0.01), update_frequency=2),
        lambda: keras.optimizers.Adam(0.01),
    ),
}

FROM_FILES = {("adam", ".weights.h5"), ("als", ".keras"), ("accumulation", ".keras")}


def model_with(optimizer, build=sequential):
    keras.utils.set_random_seed(7)
    return compile_model(build(), optimizer=optimizer)


def fit(model, data, **kwargs):
    return model.fit(*data, batch_size=16, shuffle=False, verbose=0, **kwargs).history["loss"]


@pytest.mark.slow
@pytest.mark.parametrize(("ours", "stock"), PAIRS.values(), ids=PAIRS.keys())
@pytest.mark.fast_cells(2)
def test_fit_equals_stock(strategy, data, ours, stock):
    with strategy.scope():
        model = model_with(ours())
    stock = model_with(stock())
    losses = fit(model, data, epochs=2), fit(stock, data, epochs=2)
    np.testing.assert_allclose(*losses, rtol=1e-5)
    for ours, theirs in zip(model.get_weights(), stock.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", mostly_slow(list(MAKERS), fast=["adam", "als accumulation"]))
@pytest.mark.slow
def test_fit_in_several_steps_per_execution(strategy, data, kind):
    losses = []
    for steps_per_execution in (1, 3):
        with strategy.scope():
            model = model_with(MAKERS[kind]())
            model.steps_per_execution = steps_per_execution
        fit(model, data, epochs=2)
        losses.append(model.evaluate(*data, batch_size=16, verbose=0)[0])
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        pytest.param(*cell, marks=[] if cell in FROM_FILES else pytest.mark.slow)
        for cell in itertools.product(MAKERS, [".keras", ".weights.h5"])
    ],
)
@pytest.mark.fast_cells(1)
def test_training_goes_on_from_a_file(tmp_path, strategy, data, kind, suffix):
    """Four epochs at once end where two epochs, a file and two epochs end."""
    path = tmp_path / f"model{suffix}"
    with strategy.scope():
        whole = model_with(MAKERS[kind]())
        fit(whole, data, epochs=4)
        first = model_with(MAKERS[kind]())
        fit(first, data, epochs=2)
        if suffix == ".keras":
            first.save(path)
            second = keras.models.load_model(path)
        else:
            first.save_weights(path)
            second = model_with(MAKERS[kind]())
            second.optimizer.build(second.trainable_variables)
            second.load_weights(path)
    assert type(second.optimizer) is type(whole.optimizer)
    fit(second, data, epochs=2)
    for ours, theirs in zip(second.get_weights(), whole.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)
    pairs = zip(second.optimizer.variables, whole.optimizer.variables, strict=True)
    for ours, theirs in pairs:
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", mostly_slow(list(MAKERS), fast=["lamb", "accumulation"]))
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_mixed_precision(strategy, data, kind):
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        with strategy.scope():
            model = model_with(MAKERS[kind]())
        losses = fit(model, data, epochs=20)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("kind", ["als", "als accumulation"])
def test_compile_adds_no_second_loss_scaling(kind):
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        optimizer = MAKERS[kind]()
        assert model_with(optimizer).optimizer is optimizer
    finally:
        keras.mixed_precision.set_global_policy("float32")


@pytest.mark.slow
def test_the_gradients_of_a_float16_model_move_the_factor(strategy, data):
    keras.mixed_precision.set_global_policy("float16")
    try:
        with strategy.scope():
            model = model_with(
                ALSOptimizer(
                    SGDIpuOptimizer(1e-4), initial_loss_scaling_factor=4096, update_frequency=2
                )
            )
        fit(model, data)
        shrunk = float(model.optimizer.loss_scaling_factor)
        fit(model, data, epochs=20)
    finally:
        keras.mixed_precision.set_global_policy("float32")
    assert shrunk in (2048.0, 8192.0)
    counted = float(model.optimizer.loss_scaling_factor)
    assert 1 < counted < 32768
