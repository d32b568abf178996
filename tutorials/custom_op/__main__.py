"""Trains a network whose activation is a custom op in C++ for Poplar, in Keras 3.

The op is compiled at its first call, here from its source; `library_path` may also name a library
that was built before. Its gradient is C++, too. The report has the op's supersteps under its layer.

python -m tutorials.custom_op [--epochs N]
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits
from tutorials.custom_op.layer import Snake, stock_snake

SAMPLES, UNITS, BATCH_SIZE = 1024, 32, 32


def compare() -> float:
    """Returns the largest difference between the op and TensorFlow, of values and gradients."""
    generator = np.random.default_rng(1)
    x = tf.constant(generator.normal(size=(6, 4)), tf.float32)
    layer = Snake()
    layer.build(x.shape)
    layer.frequency.assign([0.5, 1.0, 1.5, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        pair = [layer(x), stock_snake(x, tf.convert_to_tensor(layer.frequency))]
        losses = [tf.reduce_sum(each**2) for each in pair]
    found, wanted = (tape.gradient(loss, (x, layer.frequency.value)) for loss in losses)
    differences = zip([pair[0], *found], [pair[1], *wanted], strict=True)
    return max(float(tf.reduce_max(tf.abs(a - b))) for a, b in differences)


def make_model() -> keras.Model:
    """Returns a network from a place to a value."""
    return keras.Sequential(
        [keras.Input((1,)), keras.layers.Dense(UNITS), Snake(name="snake"), keras.layers.Dense(1)]
    )


def main(arguments: list[str] | None = None) -> None:
    """Trains the network, and prints the loss before and after and the cost on the device."""
    epochs = digits.epochs(__doc__, arguments, default=20)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    keras.utils.set_random_seed(1)
    print(f"largest difference from TensorFlow: {compare():.1e}")
    places = np.random.default_rng(1).uniform(-6, 6, (SAMPLES, 1)).astype("float32")
    values = places + np.sin(2 * places)
    strategy = IPUStrategy()
    with strategy.scope():
        model = make_model()
        model.compile("adam", "mse")
        history = model.fit(places, values, BATCH_SIZE, epochs, verbose=0).history["loss"]
    print(f"loss: {history[0]:.3f} in the first epoch, {history[-1]:.3f} in the last")
    print(strategy.report())


if __name__ == "__main__":
    main()
