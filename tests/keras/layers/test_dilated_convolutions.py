"""Layers of dilated and grouped convolutions, trained in the scope and without it."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy
from tests.grids import mostly_slow

IMAGES = (9, 8, 4)
SEQUENCES = (9, 4)
LAYERS = {
    "conv2d_same": (IMAGES, lambda: keras.layers.Conv2D(8, 3, padding="same", dilation_rate=2)),
    "grouped_conv2d_same": (
        IMAGES,
        lambda: keras.layers.Conv2D(8, 3, padding="same", dilation_rate=2, groups=2),
    ),
    "grouped_conv2d_valid": (
        IMAGES,
        lambda: keras.layers.Conv2D(8, 3, dilation_rate=(2, 3), groups=4),
    ),
    "grouped_conv1d_same": (
        SEQUENCES,
        lambda: keras.layers.Conv1D(8, 3, padding="same", dilation_rate=2, groups=2),
    ),
    "grouped_conv1d_causal": (
        SEQUENCES,
        lambda: keras.layers.Conv1D(8, 3, padding="causal", dilation_rate=2, groups=2),
    ),
    "depthwise_conv2d": (
        IMAGES,
        lambda: keras.layers.DepthwiseConv2D(3, dilation_rate=(2, 3), depth_multiplier=2),
    ),
    "depthwise_conv1d": (
        SEQUENCES,
        lambda: keras.layers.DepthwiseConv1D(3, padding="same", dilation_rate=2),
    ),
    "separable_conv2d": (
        IMAGES,
        lambda: keras.layers.SeparableConv2D(6, 3, padding="same", dilation_rate=2),
    ),
    "separable_conv1d": (
        SEQUENCES,
        lambda: keras.layers.SeparableConv1D(6, 3, padding="same", dilation_rate=2),
    ),
    "conv2d_transpose": (
        IMAGES,
        lambda: keras.layers.Conv2DTranspose(6, 3, padding="same", dilation_rate=2),
    ),
}

FAST = ["grouped_conv2d_same", "depthwise_conv2d", "conv2d_transpose"]


def trained(make_layer, shape):
    """Returns the losses and weights of a network with the layer between two others."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input(shape),
            keras.layers.Dense(shape[-1]),
            make_layer(),
            keras.layers.GlobalAveragePooling2D()
            if len(shape) == 3
            else keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(2),
        ]
    )
    model.compile("sgd", "mse")
    random = np.random.default_rng(1)
    x, y = random.normal(size=(8, *shape)), random.normal(size=(8, 2))
    history = model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0)
    return [np.array(history.history["loss"]), *model.get_weights()]


@pytest.mark.parametrize("name", mostly_slow(list(LAYERS), FAST))
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_training_equals_stock_keras(name):
    shape, make_layer = LAYERS[name]
    strategy = IPUStrategy()
    with strategy.scope():
        ours = trained(make_layer, shape)
    for value, stock in zip(ours, trained(make_layer, shape), strict=True):
        np.testing.assert_allclose(value, stock, rtol=1e-4, atol=1e-5)
    assert strategy.report().programs[0].device is not None
