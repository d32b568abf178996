"""Generated data in place of downloads."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from ipu_tf.compat.offline import way_out, without_downloads
from ipu_tf.compat.offline.arrays import images
from ipu_tf.compat.offline.files import _CLOTHES_INK, _DIGITS_INK, WRITERS

ADDRESS = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/boston_housing.npz"
WEIGHTS = "https://storage.googleapis.com/tensorflow/keras-applications/vgg16/weights.h5"

IMAGES = {
    "mnist": ((28, 28), 60_000, 10, ()),
    "fashion_mnist": ((28, 28), 60_000, 10, ()),
    "cifar10": ((32, 32, 3), 50_000, 10, (1,)),
    "cifar100": ((32, 32, 3), 50_000, 100, (1,)),
}


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.slow) for name in IMAGES])
def test_images_have_the_shapes_and_values_of_the_data_set(name):
    shape, count, classes, tail = IMAGES[name]
    with without_downloads():
        (x, y), (x_test, y_test) = getattr(tf.keras.datasets, name).load_data()
    assert (x.shape, x.dtype) == ((count, *shape), np.uint8)
    assert (x_test.shape, x_test.dtype) == ((10_000, *shape), np.uint8)
    assert (y.shape, y_test.shape) == ((count, *tail), (10_000, *tail))
    assert (x.min(), x.max()) == (0, 255)
    assert set(np.unique(y)) == set(np.unique(y_test)) == set(range(classes))
    assert not np.array_equal(x[:100], x_test[:100])


@pytest.mark.parametrize(
    ("ink", "mean", "deviation"), [(_DIGITS_INK, 33, 79), (_CLOTHES_INK, 73, 90), (1.0, 121, 63)]
)
def test_pixels_are_as_bright_as_those_of_the_data_set(ink, mean, deviation):
    x, y = images(1000, (28, 28), 10, split=0, ink=ink)
    assert abs(x.mean() - mean) < 10
    assert abs(x.std() - deviation) < 13
    pictures = {(x[y == label].mean(axis=0) > 128).tobytes() for label in range(10)}
    assert len(pictures) == 10


@pytest.mark.slow
def test_a_nearest_class_mean_finds_classes_of_the_test_images():
    with without_downloads():
        (x, y), (x_test, y_test) = keras.datasets.mnist.load_data()
    means = np.stack([x[y == label].mean(0).ravel() for label in range(10)])
    distances = ((x_test[:500].reshape(500, 1, -1) - means) ** 2).sum(-1)
    assert np.mean(distances.argmin(1) == y_test[:500]) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize(("name", "classes"), [("imdb", 2), ("reuters", 46)])
def test_texts_are_ragged_and_have_valid_words(name, classes):
    with without_downloads():
        data_set = getattr(keras.datasets, name)
        (x, y), (x_test, y_test) = data_set.load_data(num_words=1000, maxlen=300)
        index = data_set.get_word_index()
    texts = [*x, *x_test]
    assert len({len(text) for text in texts}) > 50
    assert max(len(text) for text in texts) <= 300
    assert max(max(text) for text in texts) < 1000
    assert set(y) | set(y_test) == set(range(classes))
    assert sorted(index.values()) == list(range(1, len(index) + 1))


def test_tables_have_the_shapes_of_the_data_set():
    with without_downloads():
        (x, y), (x_test, _) = keras.datasets.boston_housing.load_data()
        (large, prices), _ = keras.datasets.california_housing.load_data()
    assert (x.shape, y.shape, x_test.shape) == ((404, 13), (404,), (102, 13))
    assert (large.shape, prices.shape) == ((16_512, 8), (16_512,))
    assert prices.min() > 10_000


def test_get_file_gives_the_file_of_a_known_address_and_leaves_the_cache_alone(tmp_path):
    stock = keras.utils.get_file
    with without_downloads():
        assert keras.utils.get_file is tf.keras.utils.get_file
        path = keras.utils.get_file(origin=ADDRESS, cache_dir=str(tmp_path))
        again = keras.utils.get_file("boston.npz", origin=ADDRESS, file_hash="0" * 64)
        with np.load(path) as first, np.load(again) as second:
            np.testing.assert_array_equal(first["x"], second["x"])
    assert keras.utils.get_file is tf.keras.utils.get_file is stock
    assert not list(tmp_path.iterdir())


def test_a_network_with_published_weights_keeps_random_ones_and_a_warning_says_so(caplog):
    with without_downloads():
        network = keras.applications.MobileNet(
            (128, 128, 3), alpha=0.25, include_top=False, weights="imagenet"
        )
        kernel = network.get_layer("conv1").kernel
        assert np.std(kernel) > 0.01
        path = keras.utils.get_file(origin=WEIGHTS)
        keras.Sequential([keras.layers.Dense(2)]).load_weights(path)
        with pytest.raises(FileNotFoundError):
            network.load_weights("other.weights.h5")
        scores = np.eye(1000, dtype="float32")[:1]
        ((best, *_),) = keras.applications.mobilenet.decode_predictions(scores)
    assert best == ("n00000000", "class_0", 1.0)
    assert caplog.text.count("Random weights take the place of") == 2
    assert f"Random weights take the place of {WEIGHTS} (--offline): the model is" in caplog.text


@pytest.mark.slow
def test_a_text_has_the_characters_of_the_plays():
    address = "https://storage.googleapis.com/download.tensorflow.org/data/shakespeare.txt"
    with without_downloads(), open(keras.utils.get_file("shakespeare.txt", address)) as file:
        text = file.read()
    assert (len(text), len(set(text))) == (1_115_394, 65)


def test_another_download_fails_and_names_its_address():
    with (
        without_downloads(),
        pytest.raises(RuntimeError, match="No download of https://example.org/weights.h5: .*--off"),
    ):
        keras.utils.get_file("weights.h5", origin="https://example.org/weights.h5")


def test_files_of_the_cache_are_no_downloads(tmp_path):
    cached = tmp_path / "datasets" / "words.txt"
    cached.parent.mkdir()
    cached.write_text("to be")
    with without_downloads():
        path = keras.utils.get_file(
            "words.txt", "https://example.org/words.txt", cache_dir=str(tmp_path)
        )
    assert path == str(cached)


def test_advice_is_for_downloads_that_can_be_replaced():
    assert "gives the script generated data" in way_out(
        Exception(f"URL fetch failure on {ADDRESS}: 404")
    )
    assert ADDRESS in WRITERS
