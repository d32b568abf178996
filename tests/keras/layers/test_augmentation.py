"""Layers that change images at random, trained in the scope and without it."""

import keras
import numpy as np
import pytest

from ipu_tf import IPUStrategy
from tests.grids import mostly_slow

SHAPE = (8, 9, 3)
RANGE = {"value_range": (0, 1)}
LAYERS = {
    "rotation": lambda: keras.layers.RandomRotation(0.2, seed=1),
    "rotation_nearest_constant": lambda: keras.layers.RandomRotation(
        0.2, "constant", "nearest", seed=1, fill_value=0.3
    ),
    "zoom_wrap": lambda: keras.layers.RandomZoom(0.3, fill_mode="wrap", seed=1),
    "translation": lambda: keras.layers.RandomTranslation(0.2, 0.3, seed=1),
    "shear": lambda: keras.layers.RandomShear(0.2, 0.2, seed=1),
    "perspective": lambda: keras.layers.RandomPerspective(1.0, 0.5, seed=1),
    "crop": lambda: keras.layers.RandomCrop(6, 7, seed=1),
    "crop_that_resizes": lambda: keras.layers.RandomCrop(12, 10, seed=1),
    "erasing": lambda: keras.layers.RandomErasing(**RANGE, seed=1),
    "mix_up": lambda: keras.layers.MixUp(seed=1),
    "cut_mix": lambda: keras.layers.CutMix(seed=1),
    "colour_jitter": lambda: keras.layers.RandomColorJitter(
        **RANGE, brightness_factor=0.2, contrast_factor=0.2, seed=1
    ),
    "flip_contrast_brightness": lambda: keras.Sequential(
        [
            keras.layers.RandomFlip(seed=1),
            keras.layers.RandomContrast(0.3, **RANGE, seed=2),
            keras.layers.RandomBrightness(0.2, **RANGE, seed=3),
            keras.layers.CenterCrop(6, 6),
            keras.layers.Rescaling(2.0, -1.0),
        ]
    ),
    "resizing_nearest": lambda: keras.layers.Resizing(5, 11, "nearest"),
    "resizing_bilinear_to_aspect_ratio": lambda: keras.layers.Resizing(
        5, 7, crop_to_aspect_ratio=True
    ),
    "resizing_bicubic": lambda: keras.layers.Resizing(5, 11, "bicubic"),
    "resizing_lanczos": lambda: keras.layers.Resizing(5, 11, "lanczos3", antialias=True),
    "upsampling_bicubic": lambda: keras.layers.UpSampling2D(2, interpolation="bicubic"),
}

# One of each kind of op: tests/runtime/extraction/test_compositions.py has the others.
FAST = ["rotation", "crop_that_resizes", "flip_contrast_brightness"]


def trained(make_layer):
    """Returns losses, predictions and weights of a network with the layer between two others."""
    keras.utils.set_random_seed(3)
    model = keras.Sequential(
        [
            keras.Input(SHAPE),
            keras.layers.Dense(3, activation="sigmoid"),
            make_layer(),
            keras.layers.Conv2D(4, 3),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2),
        ]
    )
    model.compile("sgd", "mse")
    random = np.random.default_rng(1)
    x, y = random.uniform(size=(8, *SHAPE)), random.normal(size=(8, 2))
    history = model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
    predictions = model.predict(x, batch_size=4, verbose=0)
    return [np.array(history.history["loss"]), predictions, *model.get_weights()]


@pytest.mark.parametrize("name", mostly_slow(list(LAYERS), FAST))
@pytest.mark.fast_cells(1)
@pytest.mark.slow
def test_training_equals_stock_keras(name):
    strategy = IPUStrategy()
    with strategy.scope():
        ours = trained(LAYERS[name])
    for value, stock in zip(ours, trained(LAYERS[name]), strict=True):
        np.testing.assert_allclose(value, stock, rtol=1e-4, atol=1e-5)
    assert all(program.device is not None for program in strategy.report().programs)


def test_layers_may_have_other_shapes_in_training():
    """`RandomCrop` crops in training alone, so what follows it fits the shapes of training."""

    def trained_on_crops():
        keras.utils.set_random_seed(3)
        model = keras.Sequential(
            [
                keras.Input((8, 9, 3)),
                keras.layers.RandomCrop(6, 7, seed=1),
                keras.layers.Flatten(),
                keras.layers.Dense(2),
            ]
        )
        model.compile("sgd", "mse", metrics=["mae"])
        random = np.random.default_rng(1)
        x, y = random.uniform(size=(8, 8, 9, 3)), random.normal(size=(8, 2))
        return model.fit(x, y, batch_size=4, epochs=2, shuffle=False, verbose=0).history

    with IPUStrategy().scope():
        ours = trained_on_crops()
    stock = trained_on_crops()
    assert ours.keys() == stock.keys()
    for name in stock:
        np.testing.assert_allclose(ours[name], stock[name], rtol=1e-4)
