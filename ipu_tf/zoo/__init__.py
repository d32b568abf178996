"""The zoo: published networks as Keras models, each with its source.

`ipu_tf.zoo.resnet50()` makes a network; `ipu_tf.zoo.compiled("resnet50")` also compiles it as its
publication trains it. In an `IPUStrategy`'s scope the models are IPU models, whose blocks may be
placed in stages; see `StagePlacement`.
"""

from ipu_tf.zoo.applications import (
    efficientnet_b0,
    efficientnet_b4,
    mobilenet_v2,
    mobilenet_v3_large,
    mobilenet_v3_small,
)
from ipu_tf.zoo.efficientnet import efficientnet_b0_g16, efficientnet_b4_g16
from ipu_tf.zoo.graphs import mpnn, schnet
from ipu_tf.zoo.language import (
    bert_base,
    bert_base_squad,
    bert_large,
    bert_large_squad,
    gpt2,
    gpt2_medium,
    gpt3_175b,
)
from ipu_tf.zoo.networks import NETWORKS, OPTIMIZERS, Network, compiled, network, pipelined
from ipu_tf.zoo.resnet import resnet50, resnext101_32x4d
from ipu_tf.zoo.science import braggnn, cookienetae, uno, weather_mlp
from ipu_tf.zoo.stage_placement import StagePlacement
from ipu_tf.zoo.swin import swin_t
from ipu_tf.zoo.temporal_graph import tgn
from ipu_tf.zoo.tlr_mvm import tlr_mvm
from ipu_tf.zoo.unet import unet_572
from ipu_tf.zoo.vit import vit_b16

__all__ = [
    "NETWORKS",
    "OPTIMIZERS",
    "Network",
    "StagePlacement",
    "bert_base",
    "bert_base_squad",
    "bert_large",
    "bert_large_squad",
    "braggnn",
    "compiled",
    "cookienetae",
    "efficientnet_b0",
    "efficientnet_b0_g16",
    "efficientnet_b4",
    "efficientnet_b4_g16",
    "gpt2",
    "gpt2_medium",
    "gpt3_175b",
    "mobilenet_v2",
    "mobilenet_v3_large",
    "mobilenet_v3_small",
    "mpnn",
    "network",
    "pipelined",
    "resnet50",
    "resnext101_32x4d",
    "schnet",
    "swin_t",
    "tgn",
    "tlr_mvm",
    "unet_572",
    "uno",
    "vit_b16",
    "weather_mlp",
]
