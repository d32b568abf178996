"""Networks of the sciences: BraggNN, CookieNetAE, UNO, and post-processing of weather forecasts.

Sources: Liu et al., "BraggNN: Fast X-ray Bragg Peak Analysis Using Deep Learning", arXiv
2008.08198, figure 2. Liu et al., "Bridging Data Center AI Systems with Edge Computing for
Actionable Information Retrieval", arXiv 2105.13967, section on CookieNetAE: eight convolutions with
ReLU of 343,937 weights together, from 16 channels of 128 energies; the widths of its convolutions
are not published, those here are modelled. UNO of the CANDLE benchmarks: towers and trunk of three
layers of 1,000, 19,274,001 weights. Rasp and Lerch, "Neural Networks for Postprocessing Ensemble
Weather Forecasts", arXiv 1805.09091, network NN-aux-emb of table 2: 24,116 weights.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import layers

from ipu_tf.zoo.stage_placement import WHOLE, Block, StagePlacement, chain

_LEAK = 0.01
_COOKIE_CHANNELS = (32, 64, 128, 128, 64, 32, 32)


def braggnn(*, patch_size: int = 11, placement: StagePlacement = WHOLE) -> keras.Model:
    """Returns BraggNN, from patches around a peak to the place of its centre, both in [0, 1].

    Blocks are "first", "attention", "convolutions" and "dense".
    """
    inputs = keras.Input((patch_size, patch_size, 1), name="patch")

    def convolutions(x: Any) -> Any:
        for filters in (32, 8):
            x = layers.LeakyReLU(_LEAK, name=f"relu_{filters}")(x)
            x = layers.Conv2D(filters, 3, name=f"conv_{filters}")(x)
        return layers.LeakyReLU(_LEAK, name="relu_last")(x)

    def dense(x: Any) -> Any:
        x = layers.Flatten(name="flatten")(x)
        for width in (64, 32, 16, 8):
            x = layers.Dense(width, name=f"dense_{width}")(x)
            x = layers.LeakyReLU(_LEAK, name=f"dense_{width}_relu")(x)
        return layers.Dense(2, name="centre")(x)

    blocks: list[Block] = [
        ("first", layers.Conv2D(64, 3, name="conv_64")),
        ("attention", _non_local),
        ("convolutions", convolutions),
        ("dense", dense),
    ]
    return keras.Model(inputs, chain(inputs, blocks, placement), name="braggnn")


def _non_local(x: Any) -> Any:
    """Returns a feature map with what every pixel finds in all others added."""
    height, width, channels = x.shape[1:]
    parts = [
        layers.Reshape((height * width, channels // 2), name=f"attention_{name}_rows")(
            layers.Conv2D(channels // 2, 1, name=f"attention_{name}")(x)
        )
        for name in ("theta", "phi", "g")
    ]
    theta, phi, g = parts
    scores = layers.Dot((2, 2), name="attention_scores")([theta, phi])
    weights = layers.Softmax(name="attention_weights")(scores)
    context = layers.Dot((2, 1), name="attention_found")([weights, g])
    context = layers.Reshape((height, width, channels // 2), name="attention_map")(context)
    context = layers.Conv2D(channels, 1, name="attention_out")(context)
    return layers.Add(name="attention_sum")([x, context])


def cookienetae(
    *, channels: int = 16, energies: int = 128, placement: StagePlacement = WHOLE
) -> keras.Model:
    """Returns CookieNetAE, from histograms of electrons to their densities, [channels, energies].

    Blocks are the convolutions, "0" to "7".
    """
    inputs = keras.Input((channels, energies, 1), name="histograms")
    blocks: list[Block] = [
        (
            str(number),
            layers.Conv2D(filters, 3, padding="same", activation="relu", name=f"conv_{number}"),
        )
        for number, filters in enumerate((*_COOKIE_CHANNELS, 1))
    ]
    return keras.Model(inputs, chain(inputs, blocks, placement), name="cookienetae")


def uno(
    *,
    genes: int = 942,
    descriptors: int = 5270,
    fingerprints: int = 2048,
    width: int = 1000,
    dropout: float = 0.0,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns UNO, from features of a cell, a drug and its dose to the growth of the cell.

    Blocks are "towers" and "trunk".
    """
    sizes = {"genes": genes, "descriptors": descriptors, "fingerprints": fingerprints}
    inputs = {name: keras.Input((size,), name=name) for name, size in sizes.items()}
    dose = keras.Input((1,), name="dose")

    def towers(features: dict[str, Any]) -> Any:
        ends = [_perceptron(x, name, width, dropout) for name, x in features.items()]
        return layers.Concatenate(name="features")([*ends, dose])

    def trunk(x: Any) -> Any:
        return layers.Dense(1, name="growth")(_perceptron(x, "trunk", width, dropout))

    outputs = chain(inputs, [("towers", towers), ("trunk", trunk)], placement)
    return keras.Model([*inputs.values(), dose], outputs, name="uno")


def _perceptron(x: Any, name: str, width: int, dropout: float) -> Any:
    for number in range(3):
        x = layers.Dense(width, activation="relu", name=f"{name}_{number}")(x)
        if dropout:
            x = layers.Dropout(dropout, name=f"{name}_{number}_dropout")(x)
    return x


def weather_mlp(
    *,
    predictors: int = 40,
    stations: int = 537,
    width: int = 512,
    placement: StagePlacement = WHOLE,
) -> keras.Model:
    """Returns a network from forecasts at a station to the mean and deviation of its temperature.

    Blocks are "station" and "dense".
    """
    forecast = keras.Input((predictors,), name="forecast")
    station = keras.Input((1,), dtype="int32", name="station")

    def embedded(number: Any) -> Any:
        place = layers.Embedding(stations, 2, name="station_embedding")(number)
        place = layers.Flatten(name="station_vector")(place)
        return layers.Concatenate(name="features")([forecast, place])

    def dense(x: Any) -> Any:
        return layers.Dense(2, name="moments")(
            layers.Dense(width, activation="relu", name="hidden")(x)
        )

    outputs = chain(station, [("station", embedded), ("dense", dense)], placement)
    return keras.Model([forecast, station], outputs, name="weather_mlp")


@keras.saving.register_keras_serializable("ipu_tf.zoo")
def normal_crps(observed: keras.KerasTensor, moments: keras.KerasTensor) -> keras.KerasTensor:
    """Returns the continuous ranked probability score of a normal distribution, [batch].

    Args:
        observed: [batch, 1].
        moments: Mean and deviation, [batch, 2]; the sign of the deviation does not count.
    """
    mean, deviation = moments[:, :1], keras.ops.abs(moments[:, 1:])
    z = (observed[:, :1] - mean) / keras.ops.maximum(deviation, keras.config.epsilon())
    density = keras.ops.exp(-0.5 * z * z) / (2 * 3.141592653589793) ** 0.5
    excess = z * keras.ops.erf(z / 2**0.5) + 2 * density - 3.141592653589793**-0.5
    return keras.ops.mean(deviation * excess, axis=-1)
