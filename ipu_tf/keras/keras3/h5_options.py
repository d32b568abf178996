"""Options of models in the `.h5` files of Keras 3, which have no assets.

There they are in the entry of the first layer: Keras would pass an unknown part of the
configuration itself on to the constructor.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ipu_tf.internals.keras import keras_global_attribute
from ipu_tf.keras.saving import options_config
from ipu_tf.keras.saving.model_files import ENTRY, OptionFiles
from ipu_tf.keras.training_state import StatefulModel


class H5Options(OptionFiles):
    """Keeps the options of one model in its files, `.h5` files included."""

    def __init__(self) -> None:
        super().__init__()
        self._was_asked = False

    def check_config(self, model: StatefulModel, path: str | os.PathLike[str]) -> None:
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

    def add_options(self, model: StatefulModel, config: dict[str, object]) -> None:
        """Adds the options of a model to its configuration if that goes to an `.h5` file."""
        self._was_asked = True
        layers: Any = config.get("layers")
        if keras_global_attribute("use_legacy_config", False) and layers:
            options = self.kept_options(model)
            if options:
                layers[0][ENTRY] = options


def take_options(config: Mapping[str, object]) -> dict[str, object] | None:
    """Removes the options from a configuration, which Keras would not know, and returns them."""
    layers: Any = config.get("layers")
    first = next(iter(layers or ()), None)
    options: dict[str, object] | None = first.pop(ENTRY, None) if isinstance(first, dict) else None
    return options
