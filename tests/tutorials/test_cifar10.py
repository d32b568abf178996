"""The main script: its data, its network, its errors and a short run of it."""

import builtins

import keras
import numpy as np
import pytest

from tutorials import cifar10


def generated(count, seed):
    random = np.random.default_rng(seed)
    return random.integers(0, 256, (count, 32, 32, 3), np.uint8), random.integers(0, 10, count)


def test_digits_are_split_and_scaled_like_cifar10():
    (x_train, y_train), (x_test, y_test) = cifar10.load_digits()
    assert x_train.shape == (1413, 32, 32, 3)
    assert x_test.shape == (384, 32, 32, 3)
    assert x_train.min() == 0.0
    assert x_train.max() == pytest.approx(255.0)
    np.testing.assert_array_equal(x_train[..., 0], x_train[..., 2])
    shares = [np.bincount(labels, minlength=10) / len(labels) for labels in (y_train, y_test)]
    np.testing.assert_allclose(shares[0], shares[1], atol=0.005)


def test_digits_split_is_always_the_same():
    first, second = cifar10.load_digits(), cifar10.load_digits()
    np.testing.assert_array_equal(first[1][0], second[1][0])


def test_dataset_gives_full_batches_of_scaled_images_and_one_hot_labels():
    dataset = cifar10.make_dataset(generated(150, seed=1), 64, training=True)
    batches = list(dataset.as_numpy_iterator())
    assert len(batches) == 2
    for x, y in batches:
        assert (x.shape, x.dtype) == ((64, 32, 32, 3), np.float32)
        assert (y.shape, y.dtype) == ((64, 10), np.float32)
        assert 0.0 <= x.min() < x.max() <= 1.0
        np.testing.assert_array_equal(y.sum(axis=1), 1.0)


def test_test_data_keeps_its_order():
    images = generated(64, seed=2)
    _, y = next(cifar10.make_dataset(images, 64, training=False).as_numpy_iterator())
    np.testing.assert_array_equal(y.argmax(axis=1), images[1])


def test_network_has_the_layers_of_the_main_script():
    model = cifar10.make_model()
    weights = [tuple(variable.shape) for variable in model.trainable_variables]
    assert weights[::2] == [
        (3, 3, 3, 32),
        (3, 3, 32, 32),
        (3, 3, 32, 64),
        (3, 3, 64, 32),
        (1152, 512),
        (512, 10),
    ]
    dropouts = [layer.rate for layer in model.layers if isinstance(layer, keras.layers.Dropout)]
    assert dropouts == [0.25, 0.25, 0.5]


def test_failed_download_names_the_other_data(monkeypatch):
    def no_network():
        raise Exception("URL fetch failure")

    monkeypatch.setattr(keras.datasets.cifar10, "load_data", no_network)
    with pytest.raises(SystemExit, match=r"(?s)URL fetch failure.*--data digits"):
        cifar10.load_cifar10()


def test_missing_scikit_learn_says_what_to_install(monkeypatch):
    original = builtins.__import__

    def without_sklearn(name, *args, **kwargs):
        if name.startswith("sklearn"):
            raise ModuleNotFoundError(name)
        return original(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without_sklearn)
    with pytest.raises(SystemExit, match="pip install scikit-learn"):
        cifar10.load_digits()


def test_too_large_batch_is_refused():
    options = cifar10.parse(["--batch-size", "64"])
    with pytest.raises(SystemExit, match="--batch-size 64 leaves no full batch: there are 64"):
        cifar10.train(generated(64, seed=1), generated(32, seed=2), options)


@pytest.mark.parametrize("option", ["--epochs", "--batch-size", "--num-ipus"])
def test_numbers_must_be_positive(option, capsys):
    with pytest.raises(SystemExit):
        cifar10.parse([option, "0"])
    assert "must be at least 1. Received: 0" in capsys.readouterr().err


@pytest.mark.slow
def test_script_trains_on_tile_ops_and_prints_the_report(monkeypatch, capsys, tmp_path):
    images = generated(16, seed=1), generated(8, seed=2)
    monkeypatch.setattr(cifar10, "load_digits", lambda: images)
    page = tmp_path / "build" / "demo.html"
    arguments = ["--data", "digits", "--epochs", "1", "--batch-size", "8", "--report", str(page)]
    cifar10.main(arguments)
    printed = capsys.readouterr().out
    assert printed.endswith(f"The report with charts is {page}: open it in a browser.\n")
    assert page.read_text().startswith("<!doctype html>")
    assert "Test accuracy: " in printed
    assert "Conv2D" in printed
