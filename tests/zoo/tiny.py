"""The zoo's networks at sizes that train in a second, with a batch of data for each."""

import numpy as np

from ipu_tf.zoo import efficientnet, resnet, vit

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
    scaled = efficientnet.Scaled(
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


NETWORKS = {
    "efficientnet_b0_g16": (efficient, lambda: (pixels(32), classes(4))),
    "resnet50": (residual, lambda: (pixels(32), classes(4))),
    "resnext101_32x4d": (
        lambda: residual(groups=2, group_width=32, stem_channels=32, norm="group"),
        lambda: (pixels(32), classes(4)),
    ),
    "vit_b16": (vision, lambda: (pixels(32), classes(4))),
}
"""The small network, and its data: inputs and targets."""
