"""Writes a model's options to its files, and reads them back.

In a `.keras` file they are an asset, a separate file beside the configuration and the weights.
So stock Keras reads the files, and `get_config` of a user's class need not know the options.

An `.h5` file has no assets. There the options are in the entry of the first layer: Keras would
pass an unknown part of the configuration itself on to the constructor.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from ipu_tf.internals.keras import keras_global_attribute
from ipu_tf.keras.saving import options_config
from ipu_tf.keras.training_state import StatefulModel

logger = logging.getLogger(__name__)

_ASSET = "ipu_tf.json"
_ENTRY = "ipu_tf"


class OptionFiles:
    """Keeps the options of one model in its files.

    It warns once for each option that files do not keep.
    """

    def __init__(self) -> None:
        self._warnings: frozenset[str] = frozenset()
        self._was_asked = False

    def write_options(self, model: StatefulModel, folder: str) -> None:
        """Writes the options of a model to a file of the folder if any option is set."""
        options = self._options_to_keep(model)
        if options:
            (Path(folder) / _ASSET).write_text(json.dumps(options))

    def check_config(self, model: StatefulModel, path: Any) -> None:
        """Checks that the configuration of a model with options has them, for an `.h5` file.

        Raises:
            RuntimeError: The class has a `get_config` of its own without the one it overrides.
        """
        if not str(path).endswith((".h5", ".hdf5")) or not options_config.options_of(model):
            return
        self._was_asked = False
        model.get_config()
        if not self._was_asked:
            raise RuntimeError(
                f"The file {path} would lose the IPU options of model '{model.name}': `get_config` "
                f"of {type(model).__name__} does not call super().get_config(). Call it, or save "
                "the model to a .keras file, which keeps options apart from the configuration."
            )

    def add_options(self, model: StatefulModel, config: dict[str, Any]) -> None:
        """Adds the options of a model to its configuration if that goes to an `.h5` file."""
        self._was_asked = True
        if keras_global_attribute("use_legacy_config", False) and config.get("layers"):
            options = self._options_to_keep(model)
            if options:
                config["layers"][0][_ENTRY] = options

    def _options_to_keep(self, model: StatefulModel) -> dict[str, Any]:
        unkept = options_config.unkept_options(model.ipu_training_state)
        if not self._warnings.issuperset(unkept):
            logger.warning(
                "Model '%s': its files do not keep these options, which you must set again after "
                "loading: %s.",
                model.name,
                ", ".join(unkept),
            )
            self._warnings |= set(unkept)
        return options_config.options_of(model)


def read_options(model: StatefulModel, folder: str | None) -> None:
    """Sets the options that are in the folder; it is None for a file without assets.

    Raises:
        ValueError: The options do not fit the model.
    """
    path = Path(folder) / _ASSET if folder else None
    if path is not None and path.exists():
        options_config.set_options(model, json.loads(path.read_text()))


def take_options(config: dict[str, Any]) -> dict[str, Any] | None:
    """Removes the options from a configuration, which Keras would not know, and returns them."""
    first = next(iter(config.get("layers") or ()), None)
    options: dict[str, Any] | None = first.pop(_ENTRY, None) if isinstance(first, dict) else None
    return options
