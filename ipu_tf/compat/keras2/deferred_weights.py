"""Sets the weights of a model from a checkpoint, those that do not exist yet when they are made."""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2 import patches
from ipu_tf.compat.keras2.object_graphs import ObjectGraph
from ipu_tf.compat.keras2.own_checkpoints import OwnCheckpoint
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras_layers import layers_within
from ipu_tf.internals.patches import Patch, Wrap

_LAYERS_BUILT = Patch(keras.Layer, "_post_build", "new weights get the values of a checkpoint")
_WEIGHT_LOADING = Patch(keras.Model, "load_weights", "weights are read from checkpoints")


class RestoredWeights:
    """The weights of a model and the state of its optimizer, set from a checkpoint as they come.

    It has the methods of the status that `tf.train.Checkpoint.restore` returns.

    Args:
        model: The model.
        path: The checkpoint, without the ending of its files.
    """

    def __init__(self, model: keras.Model, path: str) -> None:
        own = OwnCheckpoint(path)
        self._path = path
        self._model = weakref.ref(model)
        self._source: OwnCheckpoint | ObjectGraph = own if own.is_own else ObjectGraph(path)
        self._optimizer: Callable[[], Any] = lambda: None

    def concerns(self, layer: keras.Layer) -> bool:
        """Returns whether a layer is in the model."""
        model = self._model()
        return model is not None and any(part is layer for part in layers_within(model))

    def proceed(self) -> None:
        """Sets what exists and was not set.

        Raises:
            ValueError: The checkpoint lacks a weight of the model, or has another shape for it.
        """
        model = self._model()
        if model is None:
            return
        found = {id(variable) for variable in self._source.set_weights(model)}
        missing = [weight.path for weight in model.weights if id(weight) not in found]
        if missing and not self._unbuilt():
            raise ValueError(
                f"The checkpoint {self._path!r} has no values of {len(missing)} of the "
                f"{len(model.weights)} weights of model '{model.name}': {', '.join(missing[:5])}. "
                "It has to be of a model with the same layers under the same names; otherwise save "
                "the weights as `.h5` there."
            )
        self._set_optimizer(model)

    def assert_consumed(self) -> RestoredWeights:
        """Returns itself.

        Raises:
            AssertionError: Layers of the model have no weights yet.
        """
        unbuilt = self._unbuilt()
        if unbuilt:
            raise AssertionError(
                f"Layers of the model have no weights yet: {', '.join(unbuilt[:5])}. They are set "
                "from the checkpoint when they are made; call the model with a batch."
            )
        return self

    def expect_partial(self) -> RestoredWeights:
        """Returns itself."""
        return self

    assert_existing_objects_matched = assert_nontrivial_match = expect_partial

    def _unbuilt(self) -> list[str]:
        model = self._model()
        layers = () if model is None else (model, *layers_within(model))
        return [layer.name for layer in layers if not layer.built]

    def _set_optimizer(self, model: keras.Model) -> None:
        """Sets the state of the model's optimizer, if need be once it is built."""
        optimizer = getattr(model, "optimizer", None)
        if optimizer is None or optimizer is self._optimizer():
            return
        self._optimizer = weakref.ref(optimizer)
        if optimizer.built:
            self._source.set_optimizer(optimizer, model)
            return
        build = optimizer.build

        def build_and_set(variables: Any) -> None:
            build(variables)
            vars(optimizer).pop("build", None)
            self._source.set_optimizer(optimizer, model)

        vars(optimizer)["build"] = build_and_set  # As Keras does with the `build` of layers.


_FILES_OF_KERAS = (".h5", ".hdf5", ".keras")

_RESTORED: weakref.WeakKeyDictionary[keras.Model, RestoredWeights] = weakref.WeakKeyDictionary()
"""What each model was last restored from."""


def weights_file(path: str) -> str:
    """Returns the checkpoint of a path: of the directory of a SavedModel, the one in it."""
    return os.path.join(path, "variables", "variables") if is_saved_model(path) else path


def is_saved_model(path: str) -> bool:
    """Returns whether a path is the directory of a SavedModel."""
    return os.path.exists(os.path.join(path, "saved_model.pb"))


def is_missing(path: str) -> bool:
    """Returns whether nothing is at a path of this computer."""
    return "://" not in path and not os.path.exists(path)


def restore_weights(model: keras.Model, path: str) -> RestoredWeights:
    """Sets the variables of a model from a checkpoint, those that do not exist yet when they do.

    Args:
        model: The model.
        path: The checkpoint, without the ending of its files.

    Raises:
        ValueError: The checkpoint is not of this model's weights.
    """
    restored = RestoredWeights(model, path)
    restored.proceed()
    _RESTORED[model] = restored
    return restored


def _loading(notify: Notify) -> Wrap:
    """Returns the factory of `Model.load_weights`, which also reads checkpoints."""

    def wrap(stock: Callable[..., Any]) -> Callable[..., Any]:
        def load_weights(model: keras.Model, filepath: Any, *args: Any, **kwargs: Any) -> Any:
            path = weights_file(os.fspath(filepath))
            if not os.path.exists(f"{path}.index"):
                if is_missing(path):
                    raise _not_found(path)
                return stock(model, filepath, *args, **kwargs)
            notify()
            return restore_weights(model, path)

        return load_weights

    return wrap


def _not_found(path: str) -> Exception:
    """Returns the error for weights that are missing: that of their format in Keras 2."""
    message = (
        f"There are no weights at '{path}'. Save them by `model.save_weights('{path}')` first."
    )
    if path.endswith(_FILES_OF_KERAS):
        return FileNotFoundError(message)
    return tf.errors.NotFoundError(None, None, message)


def _after_builds(notify: Notify) -> Wrap:
    """Returns the factory of the method that Keras calls once a layer has weights."""
    del notify  # Given by `load_weights`.

    def wrap(stock: Callable[[Any], None]) -> Callable[[Any], None]:
        def post_build(layer: keras.Layer) -> None:
            stock(layer)
            for model, restored in tuple(_RESTORED.items()):
                # Keras hides what is raised while it tries the call of a model.
                is_whole = layer is model
                with contextlib.nullcontext() if is_whole else contextlib.suppress(ValueError):
                    if is_whole or restored.concerns(layer):
                        restored.proceed()

        return post_build

    return wrap


def _after_compilation(notify: Notify) -> Wrap:
    """Returns the factory of `compile`, whose optimizer gets the state of a checkpoint."""
    del notify  # Given by `load_weights`.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def compile_model(model: keras.Model, *args: Any, **kwargs: Any) -> None:
            stock(model, *args, **kwargs)
            restored = _RESTORED.get(model)
            if restored is not None:
                restored.proceed()

        return compile_model

    return wrap


SPELLINGS = (
    Spelling(
        name="`model.load_weights(path)` of a checkpoint",
        keras_2="It set the weights and the state of the optimizer, also those that were made "
        "later.",
        here="It sets them, now or when they are made, from a checkpoint, also of Keras 2 itself "
        "or in the directory of a SavedModel. A model whose weights the checkpoint lacks is "
        "refused.",
        wraps=MappingProxyType(
            {
                _WEIGHT_LOADING: _loading,
                _LAYERS_BUILT: _after_builds,
                patches.COMPILATION: _after_compilation,
            }
        ),
    ),
)
