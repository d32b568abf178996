"""Options of models in the `.h5` files and SavedModels of tf_keras.

They are an entry of the metadata that tf_keras writes there beside the configuration; tf_keras
itself does not read it. `.keras` files have them as an asset, as those of Keras 3 do.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import tf_keras

from ipu_tf.internals import patches
from ipu_tf.internals.tf_keras import (
    FILE_METADATA,
    H5_LOADING,
    SAVED_MODEL_LOADING,
    h5_attribute,
    saved_model_metadata,
)
from ipu_tf.keras.extensions import IPUExtensions
from ipu_tf.keras.saving.model_files import ENTRY
from ipu_tf.keras.saving.options_config import set_options


def _metadata(stock: Callable[..., dict[str, object]]) -> Callable[..., dict[str, object]]:
    """Adds the options of a model to what a file holds of it."""

    def model_metadata(model: tf_keras.Model, *args: object, **kwargs: object) -> dict[str, object]:
        metadata = stock(model, *args, **kwargs)
        options = model.ipu_option_files.kept_options(model) if is_ours(model) else None
        return {**metadata, ENTRY: options} if options else metadata

    return model_metadata


def _h5_loading(stock: Callable[..., tf_keras.Model]) -> Callable[..., tf_keras.Model]:
    """Sets the options of a model that is loaded from an `.h5` file."""

    def load_model_from_hdf5(file: object, *args: object, **kwargs: object) -> tf_keras.Model:
        model = stock(file, *args, **kwargs)
        options = h5_attribute(file, ENTRY) if is_ours(model) else None
        if options is not None:
            set_options(model, json.loads(options))
        return model

    return load_model_from_hdf5


def _saved_model_loading(stock: Callable[..., tf_keras.Model]) -> Callable[..., tf_keras.Model]:
    """Sets the options of a model that is loaded from a SavedModel."""

    def load(*args: object, **kwargs: object) -> tf_keras.Model:
        model = stock(*args, **kwargs)
        options: Any = saved_model_metadata(model).get(ENTRY) if is_ours(model) else None
        if options is not None:
            set_options(model, options)
        return model

    return load


def is_ours(model: object) -> bool:
    """Returns whether a model has options of the IPU."""
    return isinstance(model, IPUExtensions)


WRITING: Mapping[patches.Patch, patches.Wrap] = MappingProxyType({FILE_METADATA: _metadata})
"""What `save` of a model replaces, and a strategy's scope, for `models.save_model`."""

READING: Mapping[patches.Patch, patches.Wrap] = MappingProxyType(
    {H5_LOADING: _h5_loading, SAVED_MODEL_LOADING: _saved_model_loading}
)
"""What the scope of a strategy replaces, so that models of files in it have their options."""
