"""Trains a variational autoencoder on handwritten digits, in Keras 3.

The encoder gives a normal distribution for the code of each image, a layer draws a code from it,
and the decoder turns the code back into an image. The layer adds the divergence from the prior to
the loss.

python -m tutorials.vae [--epochs N]
"""

from __future__ import annotations

import keras
from keras import ops

from ipu_tf import IPUConfig, IPUStrategy
from tutorials import digits

CODES, UNITS, BATCH_SIZE = 2, 64, 32


class Code(keras.layers.Layer):
    """Draws a code from the normal distribution of each image, of given means and log-variances."""

    def __init__(self, seed: int, **options: object) -> None:
        super().__init__(**options)
        self.generator = keras.random.SeedGenerator(seed)

    def call(self, parameters: tuple[keras.KerasTensor, keras.KerasTensor]) -> keras.KerasTensor:
        """Returns codes of the shape of the means; adds the divergence from the prior."""
        mean, log_variance = parameters
        divergence = -0.5 * ops.sum(1 + log_variance - mean**2 - ops.exp(log_variance), -1)
        self.add_loss(ops.mean(divergence))
        noise = keras.random.normal(ops.shape(mean), seed=self.generator)
        return mean + ops.exp(0.5 * log_variance) * noise


def make_model() -> keras.Model:
    """Returns the autoencoder, which gives logits of pixels."""
    image = keras.Input((digits.PIXELS,))
    hidden = keras.layers.Dense(UNITS, "relu", name="encoder")(image)
    mean = keras.layers.Dense(CODES, name="mean")(hidden)
    log_variance = keras.layers.Dense(CODES, name="log_variance")(hidden)
    code = Code(seed=1, name="code")([mean, log_variance])
    hidden = keras.layers.Dense(UNITS, "relu", name="decoder")(code)
    return keras.Model(image, keras.layers.Dense(digits.PIXELS, name="pixels")(hidden))


def reconstruction(images: keras.KerasTensor, logits: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the cross-entropy of an image, summed over its pixels."""
    return ops.sum(ops.binary_crossentropy(images, logits, from_logits=True), -1)


def main(arguments: list[str] | None = None) -> None:
    """Trains the autoencoder, and prints the loss before and after and the cost on the device."""
    epochs = digits.epochs(__doc__, arguments, default=20)
    cfg = IPUConfig()
    cfg.auto_select_ipus = 1
    cfg.configure_ipu_system()
    keras.utils.set_random_seed(1)
    images, _ = digits.load_digits()
    steps = len(images) // BATCH_SIZE
    images = images[: steps * BATCH_SIZE]
    strategy = IPUStrategy()
    with strategy.scope():
        model = make_model()
        model.compile("adam", reconstruction, steps_per_execution=steps)
        history = model.fit(images, images, BATCH_SIZE, epochs=epochs, verbose=0).history
    print(
        f"loss {history['loss'][0]:.2f} in the first epoch, {history['loss'][-1]:.2f} in the last"
    )
    print(strategy.report(insights=False).summary())


if __name__ == "__main__":
    main()
