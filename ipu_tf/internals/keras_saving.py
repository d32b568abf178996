"""What Keras keeps private of the files and configurations of models."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

# `.h5` files of weights by layers, which `load_weights` reads and no public function writes.
from keras.src.legacy.saving.legacy_h5_format import save_weights_to_hdf5_group
from keras.src.legacy.saving.legacy_h5_format import load_attributes_from_hdf5_group
from keras.src.legacy.saving.legacy_h5_format import save_attributes_to_hdf5_group

from ipu_tf.internals.keras import json_utils, keras_h5_models, keras_option_scope


def write_weights_as_h5(model: keras.Model, path: str) -> None:
    """Writes the weights of a model by layers, under the names of Keras 2, such as "dense/bias:0".

    `load_weights` reads the file; the public `save_weights` writes another format. Relies on
    `save_weights_to_hdf5_group`, and on how it keeps the names.
    """
    # Keras, too, loads it where it is needed.
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "w") as file:
        save_weights_to_hdf5_group(file, model)
        for group in file.values():
            names = load_attributes_from_hdf5_group(group, "weight_names")
            for name in names:
                group.move(name, f"{name}:0")
            numbered = [f"{name}:0".encode() for name in names]
            save_attributes_to_hdf5_group(group, "weight_names", numbered)


def decode_keras_2_config(text: str | bytes) -> dict[str, object]:
    """Returns a configuration that Keras 2 wrote as JSON, with its tuples and shapes.

    Relies on the decoder that Keras has for `.h5` files.
    """
    config: dict[str, object] = json_utils.decode(text)
    return config


def model_of_keras_2(config: dict[str, object], custom_objects: dict[str, object]) -> keras.Model:
    """Returns the model of a configuration of Keras 2, without its weights.

    The public functions read configurations of Keras 3. Relies on what Keras does for `.h5` files.
    """
    with keras_option_scope(use_legacy_config=True):
        return keras_h5_models.model_from_config(config, custom_objects=custom_objects)


@contextlib.contextmanager
def keeping_compile_config(model: keras.Model) -> Iterator[None]:
    """Keeps what a model was compiled with while it is written to an `.h5` file.

    A later file would lack the optimizer. Relies on `Trainer._compile_config`, out of which Keras
    takes it there.
    """
    compiled = getattr(model, "_compile_config", None)
    config = None if compiled is None else dict(compiled.config)
    try:
        yield
    finally:
        if compiled is not None:
            compiled.config = config


def newest_checkpoint(callback: keras.callbacks.ModelCheckpoint) -> str | None:
    """Returns the newest file that fits the path of a `ModelCheckpoint`, None without one.

    Relies on `ModelCheckpoint._get_most_recently_modified_file_matching_pattern`.
    """
    path: str | None = callback._get_most_recently_modified_file_matching_pattern(callback.filepath)
    return path
