"""The table of the zoo's networks, and how each is trained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from ipu_tf.ops.pipelining_ops import RecomputationMode
from ipu_tf.strategy import IPUStrategyV1
from ipu_tf.zoo import (
    applications,
    efficientnet,
    graphs,
    language,
    resnet,
    science,
    swin,
    temporal_graph,
    tlr_mvm,
    unet,
    vit,
)
from ipu_tf.zoo.pipelines import PublishedPipeline, with_head_on_first_ipu
from ipu_tf.zoo.stage_placement import WHOLE, StagePlacement

Loss: TypeAlias = "str | Callable[..., keras.KerasTensor]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network and how its publication trains it.

    Attributes:
        make: Returns the network; its keyword arguments are the network's options.
        optimizer: A key of `OPTIMIZERS`.
        loss: As `compile` takes it.
        reads_embeddings: Whether the block "head" reads the weights of the first block.
        items: The option with the number of items of a batch, of networks whose inputs have no axis
            that counts them; "" for others, which take batches of any size.
        pipeline: How it runs where no single IPU holds it; None for others.
    """

    make: Callable[..., keras.Model]
    optimizer: str
    loss: Loss | list[Loss]
    reads_embeddings: bool = False
    items: str = ""
    pipeline: PublishedPipeline | None = None

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the network's options."""
        return tuple(inspect.signature(self.make).parameters)


OPTIMIZERS: Mapping[str, Callable[[], keras.optimizers.Optimizer]] = {
    "adam": lambda: keras.optimizers.Adam(1e-3),
    "adamw": lambda: keras.optimizers.AdamW(1e-3),
    "lamb": lambda: keras.optimizers.Lamb(1e-3),
    "rmsprop": lambda: keras.optimizers.RMSprop(1e-3),
    "sgd": lambda: keras.optimizers.SGD(0.01),
    "sgd_momentum": lambda: keras.optimizers.SGD(0.01, momentum=0.9),
}
"""Optimizers by name; no figure depends on their rates."""

_CLASSES = "sparse_categorical_crossentropy"
_LOGITS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
_SQUARES = "mean_squared_error"

_GPT3_PIPELINE = PublishedPipeline(
    # Three layers on two of the 64 IPUs of a replica, and 3.2 million tokens an update.
    placement=StagePlacement(stages=tuple(str((3 * stage + 1) // 2) for stage in range(1, 64))),
    micro_batches=390,
    options={
        "recomputation_mode": RecomputationMode.RecomputeThenBackpropagate,
        "offload_weight_update_variables": True,
        "replicated_optimizer_state_sharding": True,
        "offload_gradient_accumulation_buffers": True,
        "offload_activations": True,
        "replicated_weight_sharding": True,
        "offload_weights": True,
    },
)
"""GPT-3 on 256 IPUs: everything that waits is in streaming memory."""


def _images(make: Callable[..., keras.Model], optimizer: str = "sgd_momentum") -> Network:
    return Network(make=make, optimizer=optimizer, loss=_CLASSES)


def _numbers(make: Callable[..., keras.Model], items: str = "") -> Network:
    return Network(make=make, optimizer="adam", loss=_SQUARES, items=items)


NETWORKS: Mapping[str, Network] = {
    "bert_base": Network(
        make=language.bert_base, optimizer="lamb", loss=[_LOGITS, _LOGITS], reads_embeddings=True
    ),
    "bert_base_squad": Network(
        make=language.bert_base_squad, optimizer="adamw", loss=[_LOGITS, _LOGITS]
    ),
    "bert_large": Network(
        make=language.bert_large, optimizer="lamb", loss=[_LOGITS, _LOGITS], reads_embeddings=True
    ),
    "bert_large_squad": Network(
        make=language.bert_large_squad, optimizer="adamw", loss=[_LOGITS, _LOGITS]
    ),
    "braggnn": _numbers(science.braggnn),
    "cookienetae": _numbers(science.cookienetae),
    "efficientnet_b0": _images(applications.efficientnet_b0, "rmsprop"),
    "efficientnet_b0_g16": _images(efficientnet.efficientnet_b0_g16),
    "efficientnet_b4": _images(applications.efficientnet_b4, "rmsprop"),
    "efficientnet_b4_g16": _images(efficientnet.efficientnet_b4_g16),
    "gpt2": Network(make=language.gpt2, optimizer="adamw", loss=_LOGITS, reads_embeddings=True),
    "gpt2_medium": Network(
        make=language.gpt2_medium, optimizer="adamw", loss=_LOGITS, reads_embeddings=True
    ),
    "gpt3_175b": Network(
        make=language.gpt3_175b,
        optimizer="adam",
        loss=_LOGITS,
        reads_embeddings=True,
        pipeline=_GPT3_PIPELINE,
    ),
    "mobilenet_v2": _images(applications.mobilenet_v2, "rmsprop"),
    "mobilenet_v3_large": _images(applications.mobilenet_v3_large, "rmsprop"),
    "mobilenet_v3_small": _images(applications.mobilenet_v3_small, "rmsprop"),
    "mpnn": _numbers(graphs.mpnn, items="graphs"),
    "resnet50": _images(resnet.resnet50),
    "resnext101_32x4d": _images(resnet.resnext101_32x4d),
    "schnet": _numbers(graphs.schnet, items="molecules"),
    "swin_t": _images(swin.swin_t, "adamw"),
    "tgn": Network(
        make=temporal_graph.tgn,
        optimizer="adam",
        loss=keras.losses.BinaryCrossentropy(from_logits=True),
    ),
    "tlr_mvm": _numbers(tlr_mvm.tlr_mvm),
    "unet_572": _images(unet.unet_572),
    "uno": _numbers(science.uno),
    "vit_b16": _images(vit.vit_b16, "lamb"),
    "weather_mlp": Network(make=science.weather_mlp, optimizer="adam", loss=science.normal_crps),
}
"""The networks by name."""


def network(name: str) -> Network:
    """Returns the network of a name.

    Raises:
        ValueError: The zoo has no such network.
    """
    if name not in NETWORKS:
        raise ValueError(
            f"the zoo has no network of that name. Choose one of {', '.join(NETWORKS)}. "
            f"Received: {name!r}."
        )
    return NETWORKS[name]


def compiled(
    name: str, *, optimizer: str | None = None, placement: StagePlacement = WHOLE, **options: object
) -> keras.Model:
    """Returns a network of the zoo, compiled with its loss.

    In the scope of an `IPUStrategy`, a network that no single IPU holds gets the stages of its
    pipeline, unless `placement` has others.

    Args:
        name: A key of `NETWORKS`.
        optimizer: A key of `OPTIMIZERS`; by default that of the network's publication.
        placement: Stages and checkpoints of its blocks.
        **options: Options of the network, such as `image_size`.

    Raises:
        ValueError: There is no such network, option, optimizer or block.
    """
    entry = network(name)
    in_scope = isinstance(tf.distribute.get_strategy(), IPUStrategyV1)
    if entry.pipeline is None or placement != WHOLE or not in_scope:
        return _compiled(name, optimizer, placement, options)
    return pipelined(
        name,
        entry.pipeline.placement,
        micro_batches=entry.pipeline.micro_batches,
        pipelining=entry.pipeline.options,
        optimizer=optimizer,
        **options,
    )


def pipelined(
    name: str,
    placement: StagePlacement,
    *,
    micro_batches: int,
    pipelining: Mapping[str, object] = MappingProxyType({}),
    optimizer: str | None = None,
    **options: object,
) -> keras.Model:
    """Returns a network of the zoo as `compiled` does, as a pipeline of the strategy's scope.

    Args:
        name: A key of `NETWORKS`.
        placement: Its stages and checkpoints. A head that reads the weights of the embeddings
            becomes a stage of its own on the first IPU.
        micro_batches: Micro-batches of a weight update on each replica.
        pipelining: Further options, as `set_pipelining_options` takes them.
        optimizer: A key of `OPTIMIZERS`; by default that of the network's publication.
        **options: Options of the network.

    Raises:
        ValueError: There is no such network, option, optimizer or block.
    """
    mapping = None
    if network(name).reads_embeddings:
        placement, mapping = with_head_on_first_ipu(placement)
    model: Any = _compiled(name, optimizer, placement, options)
    model.set_pipelining_options(
        gradient_accumulation_steps_per_replica=micro_batches,
        device_mapping=mapping,
        **pipelining,
    )
    return model


def _compiled(
    name: str, optimizer: str | None, placement: StagePlacement, options: dict[str, Any]
) -> keras.Model:
    entry = network(name)
    optimizer = entry.optimizer if optimizer is None else optimizer
    if optimizer not in OPTIMIZERS:
        raise ValueError(
            f"networks of the zoo take the optimizers {', '.join(OPTIMIZERS)}. "
            f"Received: {optimizer!r}."
        )
    if placement != WHOLE:
        options["placement"] = placement
    unknown = [option for option in options if option not in entry.options]
    if unknown:
        raise ValueError(
            f"network {name!r} has no option {', '.join(map(repr, unknown))}. Its options are "
            f"{', '.join(entry.options)}."
        )
    model = entry.make(**options)
    model.compile(optimizer=OPTIMIZERS[optimizer](), loss=entry.loss)
    return model
