"""The table of the zoo's networks, and how each is trained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ipu_tf.zoo import (
    applications,
    efficientnet,
    graphs,
    language,
    resnet,
    science,
    temporal_graph,
    tlr_mvm,
    unet,
    vit,
)
from ipu_tf.zoo.placement import WHOLE, StagePlacement


@dataclass(frozen=True, slots=True, kw_only=True)
class Network:
    """A network and how its publication trains it.

    Attributes:
        make: Returns the network; its keyword arguments are the network's options.
        optimizer: A key of `OPTIMIZERS`.
        loss: As `compile` takes it.
    """

    make: Callable[..., keras.Model]
    optimizer: str
    loss: Any

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


def _images(make: Callable[..., keras.Model], optimizer: str = "sgd_momentum") -> Network:
    return Network(make=make, optimizer=optimizer, loss=_CLASSES)


def _numbers(make: Callable[..., keras.Model]) -> Network:
    return Network(make=make, optimizer="adam", loss=_SQUARES)


NETWORKS: Mapping[str, Network] = {
    "bert_base": Network(make=language.bert_base, optimizer="lamb", loss=[_LOGITS, _LOGITS]),
    "bert_base_squad": Network(
        make=language.bert_base_squad, optimizer="adamw", loss=[_LOGITS, _LOGITS]
    ),
    "bert_large": Network(make=language.bert_large, optimizer="lamb", loss=[_LOGITS, _LOGITS]),
    "bert_large_squad": Network(
        make=language.bert_large_squad, optimizer="adamw", loss=[_LOGITS, _LOGITS]
    ),
    "braggnn": _numbers(science.braggnn),
    "cookienetae": _numbers(science.cookienetae),
    "efficientnet_b0": _images(applications.efficientnet_b0, "rmsprop"),
    "efficientnet_b0_g16": _images(efficientnet.efficientnet_b0_g16),
    "efficientnet_b4": _images(applications.efficientnet_b4, "rmsprop"),
    "efficientnet_b4_g16": _images(efficientnet.efficientnet_b4_g16),
    "gpt2": Network(make=language.gpt2, optimizer="adamw", loss=_LOGITS),
    "gpt2_medium": Network(make=language.gpt2_medium, optimizer="adamw", loss=_LOGITS),
    "gpt3_175b": Network(make=language.gpt3_175b, optimizer="adam", loss=_LOGITS),
    "mobilenet_v2": _images(applications.mobilenet_v2, "rmsprop"),
    "mobilenet_v3_large": _images(applications.mobilenet_v3_large, "rmsprop"),
    "mobilenet_v3_small": _images(applications.mobilenet_v3_small, "rmsprop"),
    "mpnn": _numbers(graphs.mpnn),
    "resnet50": _images(resnet.resnet50),
    "resnext101_32x4d": _images(resnet.resnext101_32x4d),
    "schnet": _numbers(graphs.schnet),
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
    name: str, *, optimizer: str | None = None, placement: StagePlacement = WHOLE, **options: Any
) -> keras.Model:
    """Returns a network of the zoo, compiled with its loss.

    Args:
        name: A key of `NETWORKS`.
        optimizer: A key of `OPTIMIZERS`; by default that of the network's publication.
        placement: Stages and checkpoints of its blocks.
        **options: Options of the network, such as `image_size`.

    Raises:
        ValueError: There is no such network, option, optimizer or block.
    """
    found = network(name)
    optimizer = found.optimizer if optimizer is None else optimizer
    if optimizer not in OPTIMIZERS:
        raise ValueError(
            f"networks of the zoo take the optimizers {', '.join(OPTIMIZERS)}. "
            f"Received: {optimizer!r}."
        )
    if placement != WHOLE:
        options["placement"] = placement
    unknown = [option for option in options if option not in found.options]
    if unknown:
        raise ValueError(
            f"network {name!r} has no option {', '.join(map(repr, unknown))}. Its options are "
            f"{', '.join(found.options)}."
        )
    model = found.make(**options)
    model.compile(optimizer=OPTIMIZERS[optimizer](), loss=found.loss)
    return model
