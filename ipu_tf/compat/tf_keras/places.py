"""The place in tf_keras of each module of Keras that scripts import.

This file is loaded at the start of every Python whose environment has Keras 2 enabled: it imports
little.
"""

from __future__ import annotations

from ipu_tf.compat.modules import TF_KERAS

TYPE_CHECKING = False  # Known to type checkers; `typing` costs milliseconds at every start.
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec

TREE = TF_KERAS
"""The package that scripts get for `keras` and `tf.keras`. tf_keras itself uses `tf_keras` and
`tf_keras.src`, and so do packages that ask for tf_keras by name: they stay stock."""

SOURCES = "tf_keras.src"
"""Where tf_keras is written. Keras 2.6 was written below `keras` itself."""

MISSING = (
    "Keras 2 for scripts is the package tf_keras, which is not installed. Install it: "
    "pip install ipu_tf[keras2]"
)
"""What scripts that import Keras are told without it."""

_NAMES = {
    "keras.src": SOURCES,
    "keras": TREE,
    "tensorflow.keras": TREE,
    "tensorflow.python.keras": TREE,
    "tensorflow.compat.v1.keras": "tf_keras.api._v1.keras",
    "tensorflow.compat.v2.keras": TREE,
}
"""The names by which scripts import Keras."""

_NEW_PLACES = {
    "combinations": f"{SOURCES}.testing_infra.test_combinations",
    "engine.topology": f"{SOURCES}.engine.base_layer",
    "initializers.initializers_v2": f"{SOURCES}.initializers.initializers",
    "keras_parameterized": f"{SOURCES}.testing_infra.test_combinations",
    "layers.advanced_activations": f"{SOURCES}.layers.activation",
    "layers.convolutional": f"{TREE}.layers",
    "layers.convolutional_recurrent": f"{TREE}.layers",
    "layers.core": f"{TREE}.layers",
    "layers.cudnn_recurrent": f"{SOURCES}.layers.rnn",
    "layers.dense_attention": f"{SOURCES}.layers.attention",
    "layers.einsum_dense": f"{SOURCES}.layers.core.einsum_dense",
    "layers.embeddings": f"{SOURCES}.layers.core.embedding",
    "layers.local": f"{SOURCES}.layers.locally_connected",
    "layers.merge": f"{SOURCES}.layers.merging",
    "layers.multi_head_attention": f"{SOURCES}.layers.attention.multi_head_attention",
    "layers.noise": f"{TREE}.layers",
    "layers.normalization": f"{TREE}.layers",
    "layers.normalization_v2": f"{SOURCES}.layers.normalization.batch_normalization",
    "layers.pooling": f"{TREE}.layers",
    "layers.recurrent": f"{TREE}.layers",
    "layers.recurrent_v2": f"{TREE}.layers",
    "layers.rnn_cell_wrapper_v2": f"{SOURCES}.layers.rnn.cell_wrappers",
    "layers.wrappers": f"{TREE}.layers",
    "losses.losses_utils": f"{SOURCES}.utils.losses_utils",
    "mixed_precision.experimental": "ipu_tf.compat.tf_keras.experimental_precision",
    "objectives": f"{TREE}.losses",
    "optimizer_v1": f"{SOURCES}.optimizers.optimizer_v1",
    "optimizer_v2": f"{SOURCES}.optimizers.legacy",
    "optimizer_v2.learning_rate_schedule": f"{SOURCES}.optimizers.schedules.learning_rate_schedule",
    "optimizers.optimizer_v2": f"{SOURCES}.optimizers.legacy",
    "premade": f"{SOURCES}.premade_models",
    "saving.hdf5_format": f"{SOURCES}.saving.legacy.hdf5_format",
    "saving.model_config": f"{SOURCES}.saving.legacy.model_config",
    "saving.save": f"{SOURCES}.saving.legacy.save",
    "saving.saved_model": f"{SOURCES}.saving.legacy.saved_model",
    "saving.saving_utils": f"{SOURCES}.saving.legacy.saving_utils",
    "testing_utils": f"{SOURCES}.testing_infra.test_utils",
    "utils.all_utils": f"{TREE}.utils",
}
"""Modules of Keras 2.6 that moved or split until 2.15, by their names below `keras`."""


def check_installed() -> None:
    """Checks that there is a tf_keras.

    Raises:
        ImportError: It is not installed.
    """
    if _spec("tf_keras") is None:
        raise ImportError(MISSING)


def place_of(name: str) -> str | None:
    """Returns the name in tf_keras of a module of Keras, None for a module of anything else."""
    for root, place in _NAMES.items():
        if name == root or name.startswith(f"{root}."):
            return place + name[len(root) :]
    return None


def source_of(path_below: str) -> str | None:
    """Returns the module with the content of one of Keras 2.6 that the public tree lacks.

    Args:
        path_below: Its name below `keras`, such as "engine.data_adapter".

    Returns:
        Its full name, None if there is no such module.
    """
    parts = path_below.split(".")
    for length in range(len(parts), 0, -1):
        place = _NEW_PLACES.get(".".join(parts[:length]))
        source = None if place is None else _module_name(".".join((place, *parts[length:])))
        if source is not None:
            return source
    return _module_name(f"{SOURCES}.{path_below}")


def _spec(name: str) -> ModuleSpec | None:
    import importlib.util  # It costs milliseconds, and this file is loaded at every start.

    return importlib.util.find_spec(name)


def _module_name(name: str) -> str | None:
    try:
        return name if _spec(name) is not None else None
    except ModuleNotFoundError:  # Its package is not there, or is a module.
        return None
