"""Files of models and weights as Keras 2 wrote them."""

from __future__ import annotations

import contextlib
import inspect
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.model_building import symbolic_inputs
from ipu_tf.compat.keras2.optimizer_classes import TensorFlowOptimizer
from ipu_tf.compat.keras2.own_checkpoints import OWN_STATE, OWN_WEIGHTS
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras import KerasFunctional
from ipu_tf.internals.keras_layers import was_called
from ipu_tf.internals.keras_saving import keeping_compile_config, write_weights_as_h5
from ipu_tf.internals.patches import Patch, Wrap
from ipu_tf.internals.tensorflow import update_checkpoint_state

_MODEL_SAVING = Patch(keras.Model, "save", "models are written to directories")
_WEIGHT_SAVING = Patch(keras.Model, "save_weights", "weights are written to checkpoints")

_H5 = (".h5", ".hdf5")
_ONE_FILE = (*_H5, ".keras")
_OWN_WEIGHTS = (".weights.h5", ".weights.json")
_OF_SAVED_MODELS = ("signatures", "options", "save_traces")
_OF_CHECKPOINTS = frozenset(
    {*inspect.signature(keras.callbacks.ModelCheckpoint).parameters, "period"}
)
"""Arguments of `ModelCheckpoint` that have an effect here; Keras 2.6 took any other, too."""


def _saving(notify: Notify) -> Wrap:
    """Returns the factory of `Model.save`, which also writes directories."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def save(
            model: keras.Model,
            filepath: Any,
            overwrite: bool = True,
            include_optimizer: bool | None = None,
            save_format: str | None = None,
            zipped: bool | None = None,
            **kwargs: Any,
        ) -> None:
            path = os.fspath(filepath)
            options = {"overwrite": overwrite}
            if zipped is not None or (path.endswith(".keras") and save_format is None):
                stock(model, path, zipped=zipped, **options, **kwargs)
                return
            is_h5 = save_format in ("h5", "hdf5") or (
                save_format is None and path.endswith(_ONE_FILE)
            )
            if include_optimizer is None and is_h5 and path.endswith(_ONE_FILE):
                with keeping_compile_config(model):
                    stock(model, path, **options, **kwargs)
                return
            notify()
            is_whole = include_optimizer is None or include_optimizer
            is_whole &= not isinstance(getattr(model, "optimizer", None), TensorFlowOptimizer)
            for name in _OF_SAVED_MODELS:
                kwargs.pop(name, None)
            if is_h5:
                with keeping_compile_config(model):
                    _save_h5(partial(stock, model, include_optimizer=is_whole, **options), path)
            else:
                _check_may_write(path, overwrite=overwrite)
                _save_directory(model, stock, path, include_optimizer=is_whole)

        return save

    return wrap


def _save_h5(save: Callable[[str], None], path: str) -> None:
    """Writes an `.h5` file to a path of any ending."""
    if path.endswith(_H5):
        save(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        save(f"{folder}/model.h5")
        shutil.move(f"{folder}/model.h5", path)


def _check_may_write(path: str, *, overwrite: bool) -> None:
    if os.path.exists(path) and not overwrite:
        raise FileExistsError(
            f"`save` of a model: {path!r} exists, and `overwrite` is False. Remove it, or save the "
            "model elsewhere."
        )


def _save_directory(
    model: keras.Model, stock: Callable[..., None], path: str, *, include_optimizer: bool
) -> None:
    """Writes a SavedModel, and beside its files those of an unzipped model of Keras 3."""
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / "model"
        with contextlib.nullcontext() if include_optimizer else _uncompiled(model):
            stock(model, str(own), zipped=False)
        _call_once(model)
        model.export(path, format="tf_saved_model", verbose=False)
        shutil.copytree(own, path, dirs_exist_ok=True)


@contextlib.contextmanager
def _uncompiled(model: keras.Model) -> Iterator[None]:
    """Makes Keras write a model as one that was never compiled."""
    compiled, model.compiled = model.compiled, False
    try:
        yield
    finally:
        model.compiled = compiled


def _call_once(model: keras.Model) -> None:
    """Calls a model of a class that was built but never called; Keras exports no other."""
    is_graph = isinstance(model, KerasFunctional | keras.Sequential)
    config = None if is_graph or was_called(model) else model.get_build_config()
    if config and config.get("input_shape"):
        model(symbolic_inputs(config["input_shape"]))


def _saving_weights(notify: Notify) -> Wrap:
    """Returns the factory of `Model.save_weights`, which also writes checkpoints."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def save_weights(
            model: keras.Model,
            filepath: Any,
            overwrite: bool = True,
            save_format: str | None = None,
            options: Any = None,
            **kwargs: Any,
        ) -> None:
            path = os.fspath(filepath)
            if path.endswith(_OWN_WEIGHTS) and save_format is None:
                stock(model, path, overwrite=overwrite, **kwargs)
                return
            notify()
            if save_format in ("h5", "hdf5") or (save_format is None and path.endswith(_ONE_FILE)):
                _check_may_write(path, overwrite=overwrite)
                write_weights_as_h5(model, path)
                return
            _check_may_write(f"{path}.index", overwrite=overwrite)
            _checkpoint(model).write(path, options=options)
            update_checkpoint_state(
                os.path.dirname(path) or ".", path, [path], save_relative_paths=True
            )

        return save_weights

    return wrap


def _checkpoint(model: keras.Model) -> tf.train.Checkpoint:
    """Returns a checkpoint of the weights of a model, and of the state of its optimizer.

    Raises:
        ValueError: The model has no weights yet.
    """
    if not model.built:
        raise ValueError(
            f"The weights of model '{model.name}' do not exist yet: Keras 3 makes them when the "
            "model is built. Call the model, or `build`, before its weights are saved."
        )
    parts: dict[str, list[tf.Variable]] = {OWN_WEIGHTS: _variables(model.weights)}
    optimizer = getattr(model, "optimizer", None)
    if optimizer is not None and optimizer.built:
        parts[OWN_STATE] = _variables(optimizer.variables)
    return tf.train.Checkpoint(**parts)


def _variables(variables: list[Any]) -> list[tf.Variable]:
    return [v.value if isinstance(v, keras.Variable) else v for v in variables]


def _checkpoints(notify: Notify) -> Wrap:
    """Returns the factory of the initializer of `ModelCheckpoint`, which takes any path."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(callback: Any, filepath: Any, *args: Any, **kwargs: Any) -> None:
            path = os.fspath(filepath)
            only_weights = args[3] if len(args) > 3 else kwargs.get("save_weights_only", False)
            ending = ".weights.h5" if only_weights else ".keras"
            # Subclasses of scripts give it to `save_weights`.
            vars(callback)["_options"] = kwargs.get("options")
            known = {name: value for name, value in kwargs.items() if name in _OF_CHECKPOINTS}
            is_own = path.endswith((ending, ".h5") if not only_weights else ending)
            if not is_own or len(known) < len(kwargs):
                notify()
            stock(callback, path if is_own else f"{path}{ending}", *args, **known)
            callback.filepath = path

        return init

    return wrap


def _save_model(model: keras.Model, filepath: Any, *args: Any, **kwargs: Any) -> None:
    """Writes a model; see `Model.save`."""
    model.save(filepath, *args, **kwargs)


def _wraps(patch: Patch, wrap: Callable[[Notify], Wrap]) -> Any:
    return MappingProxyType({patch: wrap})


SPELLINGS = (
    Spelling(
        name='`model.save(directory)`, `save_format="tf"` or `"h5"`, `include_optimizer=`',
        keras_2="A SavedModel that `load_model` reads back, with the optimizer, or an `.h5` file.",
        here="The directory is a SavedModel for TensorFlow, and holds the files of Keras 3's own "
        "format, which `load_model` reads: training goes on where it ended. Models of classes "
        "without `get_config` need it to be loaded. `signatures`, `options` and `save_traces` are "
        "left out, and an optimizer of TensorFlow, as in Keras 2.",
        wraps=_wraps(_MODEL_SAVING, _saving),
        names=MappingProxyType(
            {module: {"save_model": lambda: _save_model} for module in ("models", "saving")}
        ),
        replaces_names=True,
        notes_names=False,
    ),
    Spelling(
        name="`model.save_weights(path)` as a checkpoint or as `.h5`",
        keras_2="Any path was a checkpoint of TensorFlow, and `.h5` a file by layers.",
        here="They are written so. A checkpoint has the weights in the order of `model.weights`; "
        "programs of Keras 2 itself do not read it.",
        is_kept=False,
        wraps=_wraps(_WEIGHT_SAVING, _saving_weights),
    ),
    Spelling(
        name="`ModelCheckpoint(path)` of any path, with arguments of any name",
        keras_2="It wrote a SavedModel, or a checkpoint of the weights.",
        here="It writes what `model.save(path)` and `model.save_weights(path)` write. Keras 2 "
        "ignored arguments that it did not know, such as `include_optimizer`; so they are here.",
        wraps=_wraps(patches.CHECKPOINTS, _checkpoints),
    ),
)
