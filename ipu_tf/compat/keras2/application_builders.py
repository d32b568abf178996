"""The functions that build the networks of `keras.applications`, under their names of Keras 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any

import keras

from ipu_tf.compat.spellings.spelling import Provider, Spelling
from ipu_tf.internals.keras import application_builder

_ARGUMENTS: Mapping[tuple[str, str], tuple[str, ...]] = MappingProxyType(
    {
        ("resnet", "ResNet"): ("stack_fn", "preact", "use_bias", "model_name"),
        ("densenet", "DenseNet"): ("blocks",),
        ("efficientnet", "EfficientNet"): (
            "width_coefficient",
            "depth_coefficient",
            "default_size",
            "dropout_rate",
            "drop_connect_rate",
            "depth_divisor",
            "activation",
            "blocks_args",
            "model_name",
        ),
    }
)
"""The builders of Keras 2 and their arguments before `include_top`."""

_OF_ALL = (
    "include_top",
    "weights",
    "input_tensor",
    "input_shape",
    "pooling",
    "classes",
    "classifier_activation",
)
_MODULES = ("backend", "layers", "models", "utils")


def _builder(module: str, name: str) -> Callable[..., keras.Model]:
    """Returns a builder that takes the arguments of Keras 2."""
    build = application_builder(module, name)
    names = (*_ARGUMENTS[module, name], *_OF_ALL)

    def build_network(*args: Any, **kwargs: Any) -> keras.Model:
        given = dict(zip(names, args, strict=False)) | kwargs
        for of_keras in _MODULES:
            given.pop(of_keras, None)
        if "model_name" in given:
            given["name"] = given.pop("model_name")
        model: keras.Model = build(**given)
        return model

    return build_network


def _names() -> dict[str, Mapping[str, Provider]]:
    found: dict[str, dict[str, Provider]] = {}
    for module, name in _ARGUMENTS:
        for place in (module, "resnet_common") if module == "resnet" else (module,):
            found.setdefault(f"applications.{place}", {})[name] = partial(_builder, module, name)
    return {module: MappingProxyType(names) for module, names in found.items()}


SPELLINGS = (
    Spelling(
        name="`keras.applications.resnet.ResNet`, `keras.applications.densenet.DenseNet`, "
        "`keras.applications.efficientnet.EfficientNet`",
        keras_2="The functions that build a network of given blocks.",
        here="They build it of Keras 3's layers. `layers=`, `backend=`, `models=` and `utils=`, "
        "the modules of Keras to use, are left out.",
        names=MappingProxyType(_names()),
    ),
)
