"""The zoo: published networks as Keras models, each with its source.

`ipu_tf.zoo.resnet50()` makes a network; `ipu_tf.zoo.compiled("resnet50")` also compiles it as its
publication trains it. In an `IPUStrategy`'s scope the models are IPU models, whose blocks may be
placed in stages; see `StagePlacement`.
"""

from ipu_tf.zoo.efficientnet import efficientnet_b0_g16, efficientnet_b4_g16
from ipu_tf.zoo.networks import NETWORKS, OPTIMIZERS, Network, compiled, network
from ipu_tf.zoo.placement import StagePlacement
from ipu_tf.zoo.resnet import resnet50, resnext101_32x4d
from ipu_tf.zoo.vit import vit_b16

__all__ = [
    "NETWORKS",
    "OPTIMIZERS",
    "Network",
    "StagePlacement",
    "compiled",
    "efficientnet_b0_g16",
    "efficientnet_b4_g16",
    "network",
    "resnet50",
    "resnext101_32x4d",
    "vit_b16",
]
