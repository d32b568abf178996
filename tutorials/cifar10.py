"""Trains a small convolutional network on a simulated IPU and reports its programs.

python tutorials/cifar10.py                 the CIFAR-10 photographs (downloaded by Keras)
python tutorials/cifar10.py --data digits   handwritten digits, which need no download
"""

from __future__ import annotations

import argparse
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy

CLASSES = 10
TEST_DIGITS = 384  # six batches of 64; the other 1,413 digits are for training

Images = tuple[np.ndarray, np.ndarray]


def load_cifar10() -> tuple[Images, Images]:
    """The CIFAR-10 training and test images with their labels.

    Returns:
        Twice (uint8 `[n, 32, 32, 3]` from 0 to 255, integer labels `[n]`).

    Raises:
        SystemExit: The images are neither in Keras' cache nor can they be downloaded.
    """
    try:
        (x_train, y_train), (x_test, y_test) = keras.datasets.cifar10.load_data()
    except Exception as error:  # Keras raises a plain Exception for every failed download.
        raise SystemExit(
            f"CIFAR-10 could not be downloaded: {error}\n"
            "Use the handwritten digits that come with scikit-learn: --data digits"
        ) from None
    return (x_train, y_train.reshape(-1)), (x_test, y_test.reshape(-1))


def load_digits() -> tuple[Images, Images]:
    """Scikit-learn's handwritten digits, enlarged to the shape of CIFAR-10 images.

    Returns:
        Twice (float32 `[n, 32, 32, 3]` from 0 to 255, integer labels `[n]`): 1,413 images for
        training and 384 for the test, with all digits equally frequent in both.

    Raises:
        SystemExit: scikit-learn is not installed.
    """
    try:
        from sklearn import datasets, model_selection
    except ModuleNotFoundError:
        raise SystemExit(
            "--data digits needs scikit-learn. Install it: pip install scikit-learn"
        ) from None
    digits = datasets.load_digits()
    images = tf.image.resize(digits.images[..., np.newaxis], (32, 32)).numpy()
    images = np.repeat(images * (255.0 / 16.0), 3, axis=-1)  # the digits have 17 shades of grey
    x_train, x_test, y_train, y_test = model_selection.train_test_split(
        images, digits.target, test_size=TEST_DIGITS, stratify=digits.target, random_state=0
    )
    return (x_train, y_train), (x_test, y_test)


def make_dataset(images: Images, batch_size: int, *, training: bool) -> tf.data.Dataset:
    """Batches of float32 images from 0 to 1 and one-hot labels; a short last batch is dropped."""
    x, y = images
    x = x.astype(np.float32) / 255.0
    y = keras.utils.to_categorical(y, CLASSES).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    if training:
        dataset = dataset.shuffle(len(x))
    return dataset.batch(batch_size, drop_remainder=True).prefetch(tf.data.AUTOTUNE)


def make_model() -> keras.Sequential:
    """The network: two blocks of convolutions and two dense layers."""
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((32, 32, 3)),
            layers.Conv2D(32, 3, padding="same"),
            layers.Activation("relu"),
            layers.Conv2D(32, 3),
            layers.Activation("relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Conv2D(64, 3, padding="same"),
            layers.Activation("relu"),
            layers.Conv2D(32, 3),
            layers.Activation("relu"),
            layers.MaxPooling2D(2),
            layers.Dropout(0.25),
            layers.Flatten(),
            layers.Dense(512),
            layers.Activation("relu"),
            layers.Dropout(0.5),
            layers.Dense(CLASSES),
            layers.Activation("softmax"),
        ]
    )


def train(train_images: Images, test_images: Images, options: argparse.Namespace) -> float:
    """Trains and evaluates on simulated IPUs, and prints the report.

    Args:
        train_images: Images from 0 to 255 and integer labels to learn from.
        test_images: The same to be judged by.
        options: The command line: epochs, batch_size, num_ipus, report.

    Returns:
        The accuracy on the test images, from 0 to 1.

    Raises:
        SystemExit: The batch size is larger than one of the two sets.
    """
    ds_train = make_dataset(train_images, options.batch_size, training=True)
    ds_test = make_dataset(test_images, options.batch_size, training=False)
    if not len(ds_train) or not len(ds_test):
        raise SystemExit(
            f"--batch-size {options.batch_size} leaves no full batch: there are "
            f"{len(train_images[0])} images for training and {len(test_images[0])} for the test."
        )

    cfg = IPUConfig()
    cfg.auto_select_ipus = options.num_ipus
    cfg.configure_ipu_system()
    strategy = IPUStrategy(profile=options.report is not None)
    with strategy.scope():
        model = make_model()
        model.compile(
            loss="categorical_crossentropy",
            optimizer=keras.optimizers.SGD(0.016),
            metrics=["accuracy"],
        )
        # The dataset shuffles itself; Keras would warn about its own default.
        model.fit(ds_train, epochs=options.epochs, shuffle=False, verbose=2)
        _, accuracy = model.evaluate(ds_test, verbose=0)
    print(f"Test accuracy: {accuracy:.2%} on {len(ds_test) * options.batch_size} images")
    print(strategy.report())
    if options.report is not None:
        # Shows what to change, too; every change is planned again, which takes some seconds.
        options.report.parent.mkdir(parents=True, exist_ok=True)
        strategy.report().to_html(options.report)
        print(f"The report with charts is {options.report}: open it in a browser.")
    return accuracy


def positive(text: str) -> int:
    """A command line value that must be a whole number above zero."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1. Received: {text}")
    return value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options of the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=["cifar10", "digits"], default="cifar10")
    parser.add_argument("--epochs", type=positive, default=40)
    parser.add_argument("--batch-size", type=positive, default=64)
    parser.add_argument("--num-ipus", type=positive, default=1)
    parser.add_argument("--report", type=Path, help="write a report with charts as an HTML file")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Runs the tutorial with the options of the command line."""
    options = parse(arguments)
    keras.utils.set_random_seed(1)
    load = load_cifar10 if options.data == "cifar10" else load_digits
    train_images, test_images = load()
    train(train_images, test_images, options)


if __name__ == "__main__":
    main()
