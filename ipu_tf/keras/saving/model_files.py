"""Writes a model's options to its files, and reads them back.

In a `.keras` file they are an asset, a separate file beside the configuration and the weights.
So stock Keras reads the files, and `get_config` of a user's class need not know the options. Where
other files keep them is up to the room of each Keras.
"""

from __future__ import annotations

import json
import logging
from pathlib import Path

from ipu_tf.keras.saving import options_config
from ipu_tf.keras.training_state import StatefulModel

logger = logging.getLogger(__name__)

ENTRY = "ipu_tf"
"""The name of the options among what a file holds of a model."""

_ASSET = f"{ENTRY}.json"


class OptionFiles:
    """Keeps the options of one model in its files.

    It warns once for each option that files do not keep.
    """

    def __init__(self) -> None:
        self._warnings: frozenset[str] = frozenset()

    def write_options(self, model: StatefulModel, folder: str) -> None:
        """Writes the options of a model to a file of the folder if any option is set."""
        options = self.kept_options(model)
        if options:
            (Path(folder) / _ASSET).write_text(json.dumps(options))

    def kept_options(self, model: StatefulModel) -> dict[str, object]:
        """Returns the options of a model that are about to be written; warns about others."""
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
