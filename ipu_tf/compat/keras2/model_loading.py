"""`load_model` of the files that Keras 2 wrote."""

from __future__ import annotations

import inspect
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.keras2.deferred_weights import (
    is_missing,
    is_saved_model,
    restore_weights,
    weights_file,
)
from ipu_tf.compat.keras2.metadata_file import metadata_of
from ipu_tf.compat.keras2.optimizer_slots import get_slot, get_slot_names
from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras import keras_h5_models
from ipu_tf.internals.keras_optimizers import (
    learning_rate_in,
    product_of_momenta_in,
    variables_trained_by,
)
from ipu_tf.internals.keras_saving import decode_keras_2_config, model_of_keras_2
from ipu_tf.internals.patches import Patch, Wrap

_MODEL_CONFIGS = Patch(keras.Model, "from_config", "initializers get the arguments that they take")

_OF_KERAS_3 = "config.json"
_WRAPPED = frozenset({"layer", "backward_layer", "cell"})
_OF_KERAS_2_11 = "iteration:0"
_REGISTERED = "Custom>"
_ONLY_KERAS_2 = frozenset({"is_legacy_optimizer", "jit_compile"})
_ENDS = frozenset({"input_layers", "output_layers"})
_OF_EVERY_MODEL = frozenset({"name", "trainable", "dtype"})
_GRAPHS = ("Functional", "Model", "Sequential")


def load_model(
    filepath: Any,
    custom_objects: Mapping[str, Any] | None = None,
    compile: bool = True,
    safe_mode: bool = True,
    options: Any = None,
) -> Any:
    """Returns a model from a file or a directory that Keras 2 or Keras 3 wrote.

    Args:
        filepath: A `.keras` or `.h5` file, or the directory of a SavedModel.
        custom_objects: Classes and functions by name.
        compile: Whether the model is compiled as it was.
        safe_mode: Whether functions of Python in the file are refused.
        options: Not used.

    Raises:
        FileNotFoundError: There is neither a file nor a directory.
        ValueError: The directory is that of a model of a class that `custom_objects` lacks.
    """
    del options
    path, objects = os.fspath(filepath), dict(custom_objects or {})
    if is_missing(path):
        raise FileNotFoundError(
            f"There is no model at '{path}'. Save one by `model.save('{path}')` first."
        )
    if is_saved_model(path) and not os.path.exists(os.path.join(path, _OF_KERAS_3)):
        return _load_saved_model(path, objects, is_compiled=compile)
    if os.path.isfile(path) and _is_h5(path):
        return _load_h5(path, objects, is_compiled=compile, safe_mode=safe_mode)
    return _STOCK(filepath, custom_objects=objects, compile=compile, safe_mode=safe_mode)


_STOCK: Callable[..., Any] = keras.saving.load_model


def _is_h5(path: str) -> bool:
    # Keras, too, loads it where it is needed.
    import h5py  # type: ignore[import-untyped]

    return bool(h5py.is_hdf5(path))


def _load_h5(
    path: str, objects: dict[str, Any], *, is_compiled: bool, safe_mode: bool
) -> keras.Model:
    """Returns the model of an `.h5` file of any ending, with the state of its optimizer."""
    import h5py

    with tempfile.TemporaryDirectory() as folder, h5py.File(path, "r") as file:
        link = Path(folder) / "model.h5"
        link.symlink_to(Path(path).resolve())
        if _text(file.attrs.get("keras_version", "")).startswith("2"):
            config = decode_keras_2_config(file.attrs["model_config"])
            model = model_of_keras_2(_for_keras_3(config), objects)
            model.load_weights(str(link))
        else:
            model = _STOCK(str(link), custom_objects=objects, compile=False, safe_mode=safe_mode)
        training = file.attrs.get("training_config")
        if not is_compiled or training is None:
            return model
        _compile(model, decode_keras_2_config(training), objects)
        group = file.get("optimizer_weights")
        if group is not None:
            names = [_text(name) for name in group.attrs["weight_names"]]
            values = [group[name][()] for name in names]
            _set_state(model.optimizer, values, by_variables=names[:1] == [_OF_KERAS_2_11])
    return model


def _text(name: Any) -> str:
    return name.decode() if isinstance(name, bytes) else str(name)


def _compile(model: keras.Model, training: dict[str, Any], objects: dict[str, Any]) -> None:
    """Compiles a model as its file says, and makes the state of its optimizer."""
    own = {
        "loss": _losses(training["loss"], objects),
        "metrics": _metrics(training.get("metrics"), objects),
        "weighted_metrics": _metrics(training.get("weighted_metrics"), objects),
    }
    config = {**training, "loss": own["loss"], "metrics": None, "weighted_metrics": None}
    config["optimizer_config"] = _optimizer(training["optimizer_config"])
    arguments = keras_h5_models.compile_args_from_training_config(config, objects)
    metrics = {name: own[name] for name in ("metrics", "weighted_metrics")}
    model.compile(**{**arguments, **metrics})
    model.optimizer.build(model.trainable_variables)


def _optimizer(config: Any) -> Any:
    """Returns the configuration of an optimizer as that of the same one of Keras 3.

    Keras 2.11 registered its own optimizers, and Keras 3 would take one without its arguments.
    """
    if not isinstance(config, dict):
        return config
    found = {key: _optimizer(part) for key, part in config.items() if key not in _ONLY_KERAS_2}
    if found.get("name", "") is None:
        del found["name"]
    if "class_name" in found:
        found["class_name"] = found["class_name"].removeprefix(_REGISTERED)
        if hasattr(keras.optimizers.schedules, found["class_name"]):
            found |= {"module": "keras.optimizers.schedules", "registered_name": None}
    return found


def _losses(config: Any, objects: Mapping[str, Any]) -> Any:
    """Returns a structure of losses with full names; Keras 3 does not find short ones in files."""
    if isinstance(config, dict) and "class_name" not in config:
        return {name: _losses(part, objects) for name, part in config.items()}
    if isinstance(config, list | tuple):
        return [_losses(part, objects) for part in config]
    if not isinstance(config, str) or config in objects or not hasattr(tf.keras.losses, config):
        return config
    return getattr(keras.losses.get(config), "__name__", config)


def _metrics(config: Any, objects: Mapping[str, Any]) -> Any:
    """Returns metrics from a structure of their configurations and names."""
    if isinstance(config, list | tuple):
        return [_metrics(part, objects) for part in config]
    if not isinstance(config, dict):
        return config
    if "class_name" not in config:
        return {output: _metrics(part, objects) for output, part in config.items()}
    given = config["config"]
    if config["class_name"] == "MeanMetricWrapper" and isinstance(given.get("fn"), str):
        function = objects.get(given["fn"]) or getattr(tf.keras.metrics, given["fn"])
        return keras.metrics.MeanMetricWrapper(function, name=given["name"])
    with keras.saving.custom_object_scope(objects):
        return keras.metrics.deserialize(config)


def _set_state(optimizer: Any, values: list[Any], *, by_variables: bool) -> None:
    """Sets the variables of an optimizer from those of an `.h5` file of Keras 2 or Keras 3.

    Args:
        optimizer: The optimizer.
        values: The values.
        by_variables: Whether they are in the order of Keras 3's, as Keras 2.11 wrote them.
    """
    own = optimizer.variables
    if by_variables:
        # Keras 2.11 kept neither the rate, which is an argument, nor a product of schedules.
        lacking = (learning_rate_in(optimizer), product_of_momenta_in(optimizer))
        own = [part for part in own if not any(part is one for one in lacking)]
    if [value.shape for value in values] == [tuple(variable.shape) for variable in own]:
        for variable, value in zip(own, values, strict=True):
            variable.assign(value)
        return
    trained = variables_trained_by(optimizer)
    slots = [(name, variable) for name in get_slot_names(optimizer) for variable in trained]
    # Keras 2 wrote the count of updates, then each slot of all variables.
    if [value.shape for value in values[1:]] != [tuple(variable.shape) for _, variable in slots]:
        raise ValueError(
            f"The file has {len(values)} variables of optimizer '{optimizer.name}', which are not "
            f"those of its slots {get_slot_names(optimizer)}. Load the model with `compile=False`, "
            "and compile it."
        )
    optimizer.iterations.assign(values[0])
    for (name, variable), value in zip(slots, values[1:], strict=True):
        get_slot(optimizer, variable, name).assign(value)


def _load_saved_model(path: str, objects: dict[str, Any], *, is_compiled: bool) -> keras.Model:
    """Returns the model of a SavedModel that Keras 2 wrote.

    Raises:
        ValueError: It is of a class without a configuration, or not of Keras.
    """
    metadata = metadata_of(path)
    if metadata is None:
        raise ValueError(
            f"{path!r} is a SavedModel that Keras did not write. For predictions, use "
            f"keras.layers.TFSMLayer({path!r}) or tf.saved_model.load."
        )
    described = decode_keras_2_config(metadata)
    kind = described["class_name"]
    if not described.get("is_graph_network", kind in _GRAPHS) and kind not in objects:
        raise ValueError(
            f"{path!r} is a SavedModel of the class {kind}, whose `call` it does not keep for "
            f"Keras 3. Give `custom_objects={{{kind!r}: {kind}}}` if the class has `get_config`; "
            f"or make the model, build it, and call model.load_weights({path!r}). For predictions "
            f"alone, use keras.layers.TFSMLayer({path!r})."
        )
    config = {"class_name": kind, "config": _for_keras_3(described["config"])}
    model = model_of_keras_2(config, objects)
    if not model.built:
        # A symbolic call makes the weights of all layers.
        model(keras.tree.map_structure(_input_of, described["build_input_shape"]))
    training: Any = described.get("training_config")
    if is_compiled and training is not None:
        _compile(model, training, objects)
    restore_weights(model, weights_file(path))
    return model


def _input_of(shape: tf.TensorShape) -> keras.KerasTensor:
    return keras.Input(batch_shape=tuple(shape))


def _for_keras_3(config: Any) -> Any:
    """Returns a configuration whose models have one input or output as itself, not as a list.

    Layers in wrappers tell their modules: Keras 3 does not find them otherwise.
    """
    if isinstance(config, list):
        return [_for_keras_3(part) for part in config]
    if not isinstance(config, dict):
        return config
    found = {key: _for_keras_3(part) for key, part in config.items()}
    for key in _WRAPPED & found.keys():
        found[key] = _with_module(found[key])
    for key in _ENDS & found.keys():
        ends = found[key]
        found[key] = ends[0] if len(ends) == 1 else ends
    return found


def _with_module(layer: Any) -> Any:
    """Returns the configuration of a layer with its module."""
    if not isinstance(layer, dict) or "class_name" not in layer or "module" in layer:
        return layer
    is_stock = hasattr(keras.layers, layer["class_name"])
    module = "keras.layers" if is_stock else None
    return {**layer, "module": module, "registered_name": None if is_stock else layer["class_name"]}


def _without_foreign_arguments(notify: Notify) -> Wrap:
    """Returns the factory of `from_config`, which leaves out what an initializer does not take.

    Keras 3 gives every model its name, `trainable` and dtype; classes of Keras 2 rarely take them.
    """

    def wrap(stock: Any) -> Any:
        def from_config(cls: Any, config: dict[str, Any], custom_objects: Any = None) -> Any:
            parameters = inspect.signature(cls.__init__).parameters
            takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
            of_keras_3 = config.keys() & _OF_EVERY_MODEL - parameters.keys()
            if "layers" in config or takes_all or not of_keras_3:
                return stock.__func__(cls, config, custom_objects=custom_objects)
            notify()
            own = {name: value for name, value in config.items() if name not in of_keras_3}
            return stock.__func__(cls, own, custom_objects=custom_objects)

        return classmethod(from_config)

    return wrap


SPELLINGS = (
    Spelling(
        name="`load_model` of a class of models without `get_config`, or whose `__init__` takes no "
        "`name`",
        keras_2="The class was called without arguments.",
        here="The initializer gets those of `name`, `trainable` and `dtype` that it takes.",
        wraps=MappingProxyType({_MODEL_CONFIGS: _without_foreign_arguments}),
    ),
    Spelling(
        name="`load_model` of a SavedModel or an `.h5` file of Keras 2",
        keras_2="It returned the model, compiled as it was, with the state of its optimizer.",
        here="It does so for models of layers. For a model of a class it needs the class, with "
        "`get_config`, in `custom_objects`. State of optimizers that Keras 3 lacks is refused. "
        "Where there is no file, it raises an `OSError`, as `load_weights` raises that of its "
        "format.",
        names=MappingProxyType(
            {module: {"load_model": lambda: load_model} for module in ("models", "saving")}
        ),
        replaces_names=True,
        notes_names=False,
    ),
)
