"""Writes a model's options to its files, and reads them back.

In a `.keras` file they are an asset, a separate file beside the configuration and the weights.
So stock Keras reads the files, and `get_config` of a user's class need not know the options.

An `.h5` file has no assets. There the options are in the entry of the first layer: Keras would
pass an unknown part of the configuration itself on to the constructor.
"""

from __future__ import annotations

import functools
import json
import logging
from pathlib import Path
from typing import Any

from ipu_tf.internals.keras import keras_global_attribute
from ipu_tf.keras.pipeline.extension import PipelineExtensions
from ipu_tf.keras.saving import saved_options
from ipu_tf.keras.saving.random_states import RandomStates

logger = logging.getLogger(__name__)

_ASSET = "ipu_tf.json"
_ENTRY = "ipu_tf"


class SavedExtensions(PipelineExtensions):
    """Keeps the options of a model, and the states of its random generators, in its files."""

    _said_unkept: frozenset[str] = frozenset()

    @functools.cached_property
    def _ipu_tf_random_states(self) -> RandomStates:
        """The states, an attribute that Keras finds when it saves the model."""
        return RandomStates(self)

    def __dir__(self) -> list[str]:
        # By default these are the names of `__class__`, which is the stock class for our models.
        return [*super().__dir__(), "_ipu_tf_random_states"]

    def save_assets(self, dir_path: str) -> None:
        """Writes the options to a file of the folder if any option is set."""
        options = self._options_to_keep()
        if options:
            (Path(dir_path) / _ASSET).write_text(json.dumps(options))

    def load_assets(self, dir_path: str | None) -> None:
        """Sets the options that are in the folder; it is None for a file without assets.

        Raises:
            ValueError: The options do not fit the model.
        """
        path = Path(dir_path) / _ASSET if dir_path else None
        if path is not None and path.exists():
            saved_options.set_options(self, json.loads(path.read_text()))

    def get_config(self) -> dict[str, Any]:
        """Returns Keras' configuration; for an `.h5` file it includes the options."""
        config: dict[str, Any] = super().get_config()
        if keras_global_attribute("use_legacy_config", False) and config.get("layers"):
            options = self._options_to_keep()
            if options:
                config["layers"][0][_ENTRY] = options
        return config

    def _options_to_keep(self) -> dict[str, Any]:
        """Returns the options that files keep; warns once for each option that they do not keep."""
        unkept = saved_options.unkept_options(self)
        if not self._said_unkept.issuperset(unkept):
            logger.warning(
                "Model '%s': its files do not keep these options, which you must set again after "
                "loading: %s.",
                self.name,
                ", ".join(unkept),
            )
            self._said_unkept |= set(unkept)
        return saved_options.options_of(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """Returns a model from Keras' configuration, with the options in it."""
        first = next(iter(config.get("layers") or ()), None)
        options = first.pop(_ENTRY, None) if isinstance(first, dict) else None
        model = super().from_config(config, custom_objects=custom_objects)
        if options and isinstance(model, PipelineExtensions):
            saved_options.set_options(model, options)
        return model
