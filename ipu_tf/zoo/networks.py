"""The table of the zoo's networks, and how each is trained."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras

from ipu_tf.zoo.efficientnet import efficientnet_b0_g16, efficientnet_b4_g16
from ipu_tf.zoo.placement import WHOLE, StagePlacement
from ipu_tf.zoo.resnet import resnet50, resnext101_32x4d
from ipu_tf.zoo.vit import vit_b16


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

NETWORKS: Mapping[str, Network] = {
    "efficientnet_b0_g16": Network(
        make=efficientnet_b0_g16, optimizer="sgd_momentum", loss=_CLASSES
    ),
    "efficientnet_b4_g16": Network(
        make=efficientnet_b4_g16, optimizer="sgd_momentum", loss=_CLASSES
    ),
    "resnet50": Network(make=resnet50, optimizer="sgd_momentum", loss=_CLASSES),
    "resnext101_32x4d": Network(make=resnext101_32x4d, optimizer="sgd_momentum", loss=_CLASSES),
    "vit_b16": Network(make=vit_b16, optimizer="lamb", loss=_CLASSES),
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
