"""Pipelines that ran on a Pod16 in the vendor's public examples fit as they were configured.

The examples train in float16 with float16 partials and recompute from one layer to the next. BERT
and GPT-2 keep the head on the IPU of the embeddings, and the optimizer's state in streaming memory.
BERT large, at 8 sequences of 128 and at 2 of 384, fits as well; its estimate takes minutes.
"""

from typing import Any

import pytest

import ipu_tf
from ipu_tf import IPUConfig, zoo
from ipu_tf.ops.pipelining_ops import RecomputationMode
from ipu_tf.zoo.policies import dtype_policy

LAYERS = ("embeddings", *map(str, range(12)))
AWAY = {"offload_weight_update_variables": True}
SHARED = {**AWAY, "replicated_optimizer_state_sharding": True}

PIPELINES = {
    "bert_base": (("0", "4", "8"), LAYERS, 32, 510, "0.28", AWAY),
    "gpt2": (("0", "4", "8"), LAYERS, 1, 2048, "0.15", SHARED),
    "unet_572": (("down3", "up4", "up2"), (), 1, 24, "0.5", {}),
}
"""Blocks that begin stages, blocks after which activations are kept, the micro-batch, micro-batches
of an update, the share of memory of products, and other options of the pipeline."""


@pytest.mark.slow
@pytest.mark.parametrize("name", PIPELINES)
def test_it_fits(name):
    stages, checkpoints, micro_batch, micro_batches, proportion, options = PIPELINES[name]
    config = IPUConfig()
    config.auto_select_ipus = 16
    config.allow_recompute = True
    products = {"partialsType": "half", "availableMemoryProportion": proportion}
    config.convolutions.poplar_options = config.matmuls.poplar_options = products
    mode = RecomputationMode.RecomputeAndBackpropagateInterleaved
    pipelining: dict[str, Any] = {"recomputation_mode": mode, **options}

    def model():
        return zoo.pipelined(
            name,
            zoo.StagePlacement(stages=stages, checkpoints=checkpoints),
            micro_batches=micro_batches,
            pipelining=pipelining,
        )

    with dtype_policy("float16"):
        report = ipu_tf.estimate(model, batch_size=micro_batch, config=config, insights=False)
    device = report.programs[0].device
    assert device.replicas == 4
    assert [ipu.memory.overflow_bytes for ipu in device.ipus] == [0, 0, 0, 0]
