"""The zoo's networks at sizes that train in a second, with a batch of data for each."""

import numpy as np

from ipu_tf.zoo import (
    applications,
    efficientnet,
    graphs,
    language,
    resnet,
    science,
    swin,
    temporal_graph,
    unet,
    vit,
)
from ipu_tf.zoo.tlr_mvm import tlr_mvm

RANDOM = np.random.default_rng(7)
BATCH = 2


def pixels(size):
    return RANDOM.integers(0, 256, (BATCH, size, size, 3), "uint8")


def classes(number):
    return RANDOM.integers(0, number, BATCH).astype("int32")


def residual(**changes):
    network = resnet.Residual(
        **{"name": "tiny", "units": (1, 2), "stem_channels": 8, "group_width": 8, **changes}
    )
    return resnet.residual(network, image_size=32, classes=4)


def efficient():
    scaled = efficientnet.CompoundScaling(
        name="tiny",
        width=0.5,
        depth=0.3,
        dropout=0.0,
        group_size=16,
        expansion=4,
        norm="group",
        drop_connect=0.0,
    )
    return efficientnet.efficientnet(scaled, image_size=32, classes=4)


def vision():
    return vit.vit_b16(image_size=32, classes=4, dropout=0.0, depth=1, width=16, heads=2)


def floats(*shape):
    return RANDOM.normal(size=shape).astype("float32")


def integers(below, *shape):
    return RANDOM.integers(0, below, shape).astype("int32")


LANGUAGE = {"dropout": 0.0, "depth": 1, "width": 8, "heads": 2, "vocabulary": 11}


def words(*lengths):
    """Tokens, segments, and a mask that hides the last token."""
    tokens, segments, mask = integers(11, BATCH, 6), integers(2, BATCH, 6), np.ones((BATCH, 6))
    mask[:, -1] = 0
    return [tokens, segments, mask.astype("int32"), *(integers(6, BATCH, n) for n in lengths)]


def masked_words():
    return words(3), [integers(11, BATCH, 3), integers(2, BATCH)]


def answers():
    return words(), [integers(6, BATCH), integers(6, BATCH)]


def text():
    return integers(11, BATCH, 6), integers(11, BATCH, 6)


def molecules():
    graph = np.array([0, 0, 0, 1, 1], "int32")
    inputs = [floats(5, 13), floats(7, 5), integers(5, 7), integers(5, 7), graph]
    return inputs, floats(2, 1)


def atoms():
    molecule = np.array([0, 0, 0, 1, 1], "int32")
    inputs = [integers(9, 5), np.abs(floats(7)), integers(5, 7), integers(5, 7), molecule]
    return inputs, floats(2, 1)


def events():
    inputs = [integers(9, BATCH, 3), integers(9, BATCH, 3, 4)]
    inputs += [floats(BATCH, 3, 4, 6), np.abs(floats(BATCH, 3, 4))]
    return inputs, np.array([[1, 0]] * BATCH, "float32")


def cells():
    return [floats(BATCH, n) for n in (5, 7, 3, 1)], floats(BATCH, 1)


def forecasts():
    return [floats(BATCH, 4), integers(3, BATCH, 1)], floats(BATCH, 1)


def application(make):
    return lambda: make(image_size=32, classes=4)


def labelled():
    return pixels(32), classes(4)


NETWORKS = {
    "bert_base": (
        lambda: language.bert_base(sequence_length=6, masked_tokens=3, **LANGUAGE),
        masked_words,
    ),
    "bert_base_squad": (
        lambda: language.bert_base_squad(sequence_length=6, **LANGUAGE),
        answers,
    ),
    "braggnn": (
        lambda: science.braggnn(patch_size=8),
        lambda: (floats(BATCH, 8, 8, 1), floats(BATCH, 2)),
    ),
    "cookienetae": (
        lambda: science.cookienetae(channels=4, energies=8),
        lambda: (floats(BATCH, 4, 8, 1), floats(BATCH, 4, 8, 1)),
    ),
    "efficientnet_b0": (application(applications.efficientnet_b0), labelled),
    "efficientnet_b0_g16": (efficient, labelled),
    "gpt2": (lambda: language.gpt2(sequence_length=6, **LANGUAGE), text),
    "mobilenet_v2": (application(applications.mobilenet_v2), labelled),
    "mobilenet_v3_small": (application(applications.mobilenet_v3_small), labelled),
    "mpnn": (lambda: graphs.mpnn(graphs=2, nodes=5, edges=7, width=8, steps=2), molecules),
    "resnet50": (residual, labelled),
    "resnext101_32x4d": (
        lambda: residual(groups=2, group_width=32, stem_channels=32, norm="group"),
        labelled,
    ),
    "schnet": (
        lambda: graphs.schnet(
            molecules=2, atoms=5, pairs=7, width=8, interactions=1, gaussians=12, cutoff=3.0
        ),
        atoms,
    ),
    "swin_t": (
        lambda: swin.swin_t(
            image_size=32, classes=4, width=32, depths=(2, 1), window=4, drop_path=0.0
        ),
        labelled,
    ),
    "tgn": (
        lambda: temporal_graph.tgn(nodes=9, features=6, time_features=4, neighbours=4),
        events,
    ),
    "tlr_mvm": (
        lambda: tlr_mvm(tiles=3, tile_size=4, rank=2),
        lambda: (floats(BATCH, 2, 12), floats(BATCH, 2, 12)),
    ),
    "unet_572": (
        lambda: unet.unet_572(image_size=188, width=2),
        lambda: (floats(BATCH, 188, 188, 1), integers(2, BATCH, 4, 4)),
    ),
    "uno": (
        lambda: science.uno(genes=5, descriptors=7, fingerprints=3, width=8),
        cells,
    ),
    "vit_b16": (vision, labelled),
    "weather_mlp": (
        lambda: science.weather_mlp(predictors=4, stations=3, width=8),
        forecasts,
    ),
}
"""The small network, and its data: inputs and targets."""
