"""Every private name and attribute of Keras that ipu_tf uses, each with its reason.

No other module may import from `keras.src`, or use an attribute of Keras' objects that begins with
an underscore; a test over the syntax tree keeps it so.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import optree
import tensorflow as tf

# Keras exports no name for the class of functional models, nor its test for their arguments.
from keras.src.models.functional import Functional as KerasFunctional
from keras.src.models.model import functional_init_arguments as is_functional_call

# The function behind `keras.remat` and `keras.RematScope`, which find it in this module.
from keras.src.backend.tensorflow import core as keras_backend_core

# Their `pythonify_logs` sorts the logs, which spellings of Keras 2 undo.
from keras.src.backend.tensorflow import trainer as keras_backend_trainer
from keras.src.utils import python_utils as keras_python_utils

# Its `add` adds a column as if it were a row, which spellings of Keras 2 replace.
from keras.src.backend.tensorflow import numpy as keras_backend_numpy

# Every symbolic call of a layer goes through a function of Keras' backend, found in this module.
from keras.src import backend as keras_backend

# Keras' training loop is a base class of its models that it does not export.
from keras.src.trainers.trainer import Trainer as KerasTrainer

# Keras takes a data adapter of one's own in place of data, but exports neither its base class nor
# the function that finds the stock adapter of some data.
from keras.src.trainers.data_adapters import get_data_adapter as keras_data_adapter
from keras.src.trainers.data_adapters.data_adapter import DataAdapter as KerasDataAdapter

# Whether a model is written to an `.h5` file, which has a configuration and no assets; what is
# being called.
from keras.src.backend.common.global_state import (
    get_global_attribute as keras_global_attribute,
)

# `.h5` files of weights by layers, which `load_weights` reads and no public function writes.
from keras.src.legacy.saving.legacy_h5_format import save_weights_to_hdf5_group

# The graph between symbolic tensors, which functional models find when they are made.
from keras.src.ops.function import map_graph

# Layers of Keras 2 take shapes and numbers beside tensors, in one argument.
from keras.src.layers.layer import CallSpec as KerasCallSpec

# Scripts of Keras 2 look for the operation of a slice by its class.
from keras.src.ops.numpy import GetItem as KerasGetItem

# Scripts of Keras 2 subclass the base of the losses that are functions.
from keras.src.losses.losses import LossFunctionWrapper as KerasFunctionLoss

# Scripts of Keras 2 walk the graph of a functional model by their attributes.
from keras.src.ops.node import KerasHistory as KerasHistory
from keras.src.ops.node import Node as KerasNode

# What compiles a model of an `.h5` file, and makes a model of a configuration of Keras 2.
from keras.src.legacy.saving import json_utils
from keras.src.legacy.saving import saving_utils as keras_h5_models
from keras.src.legacy.saving.saving_options import keras_option_scope

# The modules with the tables in which `Dense(activation="relu")` and the like are looked up.
from keras.src import activations as keras_activations
from keras.src import constraints as keras_constraints
from keras.src import losses as keras_losses
from keras.src import metrics as keras_metrics
from keras.src import regularizers as keras_regularizers

# The base class of callbacks that watch a metric, which finds out whether more of it is better.
from keras.src.callbacks.monitor_callback import MonitorCallback as MonitorCallback

# Names of operations that no user named, and the function that begins them anew.
from keras.src.utils.naming import reset_uids as reset_names
from keras.src.utils.naming import uniquify as unique_name_like


def application_builder(module: str, name: str) -> Callable[..., keras.Model]:
    """Returns the function that builds a network of `keras.applications` of given blocks.

    Keras exports the networks alone. Relies on the modules of `keras.src.applications`.

    Args:
        module: A module of `keras.applications`.
        name: Name of the function.
    """
    found: Callable[..., keras.Model] = getattr(
        importlib.import_module(f"keras.src.applications.{module}"), name
    )
    return found


# Keras keeps the graphs of functional models out of its tracking.
from keras.src.utils.tracking import DotNotTrackScope

_BESIDE = "ipu_tf_beside_outputs"


def callers_of_open_scopes() -> list[Any]:
    """Returns the layers, optimizers and metrics that are being called, the outermost first.

    Some are None. The public name scopes have only names. Relies on the `name_scope_stack` among
    Keras' global attributes, and on `name_scope.caller`.
    """
    return [scope.caller for scope in keras_global_attribute("name_scope_stack") or ()]


def keras_layer_path() -> str:
    """Returns the path of the layer that is being called, "" outside of layers.

    A layer in another one is below it, wherever it was built: for Keras, a layer that was built on
    its own stays outside. TensorFlow's name scopes number layers anew. Relies on the
    `name_scope_stack` among Keras' global attributes, and on `name_scope.caller` and
    `name_scope.override_parent`, the path where the caller was built.
    """
    parts: list[str] = []
    in_layer = False
    for scope in keras_global_attribute("name_scope_stack") or ():
        if scope.override_parent is not None and not in_layer:
            parts = [part for part in scope.override_parent.split("/") if part]
        parts.append(scope.name)
        if scope.caller is not None:
            in_layer = isinstance(scope.caller, keras.Layer)
            in_layer = in_layer and not isinstance(scope.caller, keras.Model)
    return "/".join(parts)


def inbound_nodes(operation: Any) -> list[Any]:
    """Returns the symbolic calls of a layer or operation, in their order.

    The public `input` and `output` of a layer fail where it was called more than once. Relies on
    `Operation._inbound_nodes`.
    """
    nodes: list[Any] = operation._inbound_nodes
    return nodes


def history_of(tensor: Any) -> Any:
    """Returns what made a symbolic tensor: operation, number of its call, number of the output.

    The public graph of a model has layers alone. Relies on `KerasTensor._keras_history`.
    """
    return tensor._keras_history


def outbound_nodes(layer: keras.Layer) -> list[Any]:
    """Returns the symbolic calls that take a layer's outputs.

    Relies on `Operation._outbound_nodes`.
    """
    nodes: list[Any] = layer._outbound_nodes
    return nodes


def layers_within(model: keras.Layer) -> list[keras.Layer]:
    """Returns all layers in a model, those of nested models and layers, too, but not itself.

    The public `Model.layers` leaves out layers that are attributes of layers. Relies on
    `Layer._flatten_layers`.
    """
    return list(model._flatten_layers(include_self=False))


def first_path_of(layer: keras.Layer) -> str | None:
    """Returns the path of the layers in which a layer was first called, None before.

    The public `Layer.path` ends with the layer's own name. Relies on `Layer._parent_path`.
    """
    path: str | None = layer._parent_path
    return path


def seed_generators_of(layer: keras.Layer) -> list[keras.random.SeedGenerator]:
    """Returns the generators of random seeds of a layer itself.

    No public name tells their states from those of metrics. Relies on `Layer._seed_generators`.
    """
    generators: list[keras.random.SeedGenerator] = layer._seed_generators
    return generators


def all_layers_of(model: keras.Sequential) -> list[keras.Layer]:
    """Returns the layers of a Sequential, its InputLayer among them.

    The public `Sequential.layers` leaves the InputLayer out. Relies on `Sequential._layers`.
    """
    layers: list[keras.Layer] = model._layers
    return layers


def takes_training(layer: keras.Layer) -> bool:
    """Returns whether the `call` of a layer has an argument `training`.

    Keras' own train step asks the same. Relies on `Layer._call_has_training_arg`.
    """
    return bool(layer._call_has_training_arg)


def compute_loss(model: keras.Model, **arguments: Any) -> Any:
    """Returns the loss of a model, also of one whose `compute_loss` takes no `training`.

    Keras' own train step calls it so. Relies on `Trainer._compute_loss`.
    """
    return model._compute_loss(**arguments)


def has_loss(model: keras.Model) -> bool:
    """Returns whether a model is compiled with a loss, or its layers add one.

    Relies on `Trainer._compile_loss`.
    """
    return model._compile_loss is not None or bool(model.losses)


def forget_loss_and_metrics(model: keras.Model) -> None:
    """Removes the loss and the metrics that a model is compiled with.

    `compile` keeps those that it does not get. Relies on `Trainer._compile_loss` and
    `Trainer._compile_metrics`.
    """
    model.loss = model._compile_loss = model._compile_metrics = None


def loss_tracker_of(model: keras.Model) -> keras.metrics.Mean:
    """Returns the mean of a compiled model's loss.

    The public `Model.metrics` has it among others. Relies on `Trainer._loss_tracker`.
    """
    return model._loss_tracker


def build_for_training(model: keras.Model, batch: Any) -> None:
    """Builds the layers, optimizer, loss and metrics of a model for a batch, as `fit` does.

    No public method builds loss and metrics. Relies on `Trainer._symbolic_build`.

    Args:
        model: A compiled model.
        batch: A structure of data or of its specs.
    """
    model._symbolic_build(data_batch=batch)


def build_missing_parts(model: keras.Model, batch: Any) -> None:
    """Builds what `fit` would build of a model for a batch, unless it is built already.

    No public method builds loss and metrics. Relies on `Trainer._maybe_symbolic_build`.

    Args:
        model: A model.
        batch: A structure of data or of its specs.
    """
    model._maybe_symbolic_build(data_batch=batch)


def element_spec_of(epoch_iterator: Any) -> Any:
    """Returns the specification of the batches of the iterator that `fit` reads.

    Reading a batch would lose it. Relies on `EpochIterator._get_iterator`, which gives TensorFlow's
    dataset.
    """
    return epoch_iterator._get_iterator().element_spec


def variables_trained_by(optimizer: keras.optimizers.Optimizer) -> list[keras.Variable]:
    """Returns the variables that an optimizer was built with, in their order.

    The public `Optimizer.variables` are those of the optimizer itself. Relies on
    `Optimizer._trainable_variables`.
    """
    variables: list[keras.Variable] = optimizer._trainable_variables
    return variables


def position_in(optimizer: keras.optimizers.Optimizer, variable: Any) -> int:
    """Returns where a variable is among those that an optimizer was built with.

    A variable of TensorFlow is found as its Keras variable is. Relies on
    `Optimizer._get_variable_index`, as Keras' own optimizers do.
    """
    return int(optimizer._get_variable_index(variable))


def key_in(optimizer: keras.optimizers.Optimizer, variable: Any) -> Any:
    """Returns what an optimizer tells a variable by; it is the same for its Keras variable.

    Relies on the `Optimizer._var_key` of TensorFlow's base class of optimizers.
    """
    return optimizer._var_key(variable)


def check_is_built_for(optimizer: keras.optimizers.Optimizer, variables: Any) -> None:
    """Checks that an optimizer was built with variables.

    Relies on `Optimizer._check_variables_are_known`, whose error says what to do.

    Raises:
        ValueError: It was not built with one of them.
    """
    optimizer._check_variables_are_known(variables)


def set_validation_steps(model: keras.Model, steps_per_execution: int) -> None:
    """Sets how many steps at once the validation data is read in, which `fit` reads.

    `fit` takes it from the training. Relies on `Trainer._eval_epoch_iterator`.
    """
    model._eval_epoch_iterator.steps_per_execution = steps_per_execution


def set_strategy_of(optimizer: keras.optimizers.Optimizer, strategy: Any) -> None:
    """Makes a strategy the one that an optimizer makes and updates its variables under.

    It is public only as the scope in which the optimizer is made. Relies on the
    `_distribution_strategy` of TensorFlow's base class of optimizers.
    """
    optimizer._distribution_strategy = strategy


def function_of(loss_or_metric: Any) -> Any:
    """Returns the function that a loss or a metric wraps, None if it wraps none.

    The public classes of wrapped functions do not tell the function. Relies on
    `LossFunctionWrapper.fn` and `MeanMetricWrapper._fn`.
    """
    return getattr(loss_or_metric, "fn", None) or getattr(loss_or_metric, "_fn", None)


def product_of_momenta_in(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the variable of a Nadam that no other optimizer has; None in others.

    Relies on `Nadam._u_product`.
    """
    return getattr(optimizer, "_u_product", None)


def learning_rate_in(optimizer: keras.optimizers.Optimizer) -> Any:
    """Returns the learning rate of an optimizer as it was set: a variable, a schedule, a function.

    The public `Optimizer.learning_rate` is the value of this step. Relies on
    `Optimizer._learning_rate`.
    """
    return optimizer._learning_rate


def training_of_call() -> bool | None:
    """Returns whether the layers that are being called train, None outside of layers.

    No public name tells it. Relies on the `current_call_ctx` among Keras' global attributes.
    """
    context = keras_global_attribute("current_call_ctx")
    training: bool | None = None if context is None else context.get_value("training")
    return training


def write_weights_as_h5(model: keras.Model, path: str) -> None:
    """Writes the weights of a model by layers to a file that `load_weights` reads.

    The public `save_weights` writes another format. Relies on `save_weights_to_hdf5_group`.
    """
    # Keras, too, loads it where it is needed.
    import h5py  # type: ignore[import-untyped]

    with h5py.File(path, "w") as file:
        save_weights_to_hdf5_group(file, model)


def adopt_variable(layer: keras.Layer, variable: tf.Variable) -> None:
    """Makes a variable of TensorFlow a weight of a layer, unless it is one.

    Keras tracks its own variables alone. Relies on `Layer._track_variable`, on the lock of
    `Layer._tracker`, and on Keras' variables taking one of TensorFlow as their value.
    """
    own = (*layer._trainable_variables, *layer._non_trainable_variables)
    if any(weight._value is variable for weight in own):
        return
    name = variable.name.partition(":")[0].replace("/", "_")
    dtype = variable.dtype.name
    weight = keras.Variable(variable, trainable=variable.trainable, dtype=dtype, name=name)
    is_locked = layer._tracker.locked
    layer._tracker.unlock()
    layer._track_variable(weight)
    if is_locked:
        layer._tracker.lock()


def was_called(layer: keras.Layer) -> bool:
    """Returns whether a layer was called. Relies on `Layer._called`."""
    called: bool = layer._called
    return called


def set_variable(variable: keras.Variable, value: Any) -> None:
    """Sets a variable, also one that gets its first value once a symbolic call has ended.

    Relies on `Variable._value`, and on `Variable._initializer`, which such a variable calls then.
    """
    if variable._value is None:
        variable._initializer = lambda shape, dtype: tf.cast(value, dtype)
        return
    with tf.init_scope():
        variable._value.assign(value)


def adopt_metric(layer: keras.Layer, metric: keras.Metric) -> None:
    """Makes a metric one of a layer's, unless it is one, also after the layer was built.

    Relies on `Layer._metrics` and on the lock of `Layer._tracker`.
    """
    if any(own is metric for own in layer._metrics):
        return
    is_locked = layer._tracker.locked
    layer._tracker.unlock()
    layer._tracker.track(metric)
    if is_locked:
        layer._tracker.lock()


def graph_in(layer: keras.Layer) -> KerasFunctional | None:
    """Returns the functional model that a layer is, or that a Sequential runs; None without one.

    Relies on `Sequential._functional`.
    """
    if isinstance(layer, keras.Sequential):
        layer = layer._functional
    return layer if isinstance(layer, KerasFunctional) else None


def add_to_graph(model: KerasFunctional, tensors: Sequence[keras.KerasTensor]) -> None:
    """Makes a functional model compute symbolic tensors beside its outputs.

    No public name changes the graph of a model. Relies on the attributes in which
    `Function.__init__` keeps it, and on `Layer._tracker`.
    """
    beside = [*vars(model).get(_BESIDE, ()), *tensors]
    vars(model)[_BESIDE] = beside
    graph = map_graph(model._inputs, [*model._outputs, *beside])
    with DotNotTrackScope():
        model._nodes, model._nodes_by_depth, model._operations, model._operations_by_depth = graph
    for layer in model.layers:
        model._tracker.track(layer)


def layers_beside(model: KerasFunctional) -> list[keras.Layer]:
    """Returns the layers that compute what `add_to_graph` added to a functional model.

    Relies on `KerasTensor._keras_history`.
    """
    return [history_of(tensor)[0] for tensor in vars(model).get(_BESIDE, ())]


def clear_losses(layer: keras.Layer) -> None:
    """Forgets the losses of the last call of a layer. Relies on `Layer._clear_losses`."""
    layer._clear_losses()


def operations_after(model: KerasFunctional) -> list[Any]:
    """Returns the operations that compute from tensors of a functional model, itself left out.

    Relies on `Operation._outbound_nodes`.
    """
    found = dict.fromkeys(model.operations)
    waiting = list(found)
    while waiting:
        after = [node.operation for node in waiting.pop()._outbound_nodes]
        waiting += [operation for operation in after if operation not in found]
        found.update(dict.fromkeys(after))
    return [operation for operation in found if operation not in model.operations]


@contextlib.contextmanager
def keeping_scale_of_gradients(
    optimizer: keras.mixed_precision.LossScaleOptimizer,
) -> Iterator[None]:
    """Makes a `LossScaleOptimizer` apply gradients as they are, for a while.

    Relies on its not unscaling gradients that are to replace their variables, of which
    `Optimizer._overwrite_variable_with_gradient` of this optimizer, not of the inner one, tells.
    """
    vars(optimizer)["_overwrite_variable_with_gradient"] = lambda variable: True
    try:
        yield
    finally:
        del vars(optimizer)["_overwrite_variable_with_gradient"]


def result_names_of(model: keras.Model) -> list[str]:
    """Returns the names of a model's results: the loss, those of outputs, metrics.

    The public `metrics_names` has one name for all metrics of `compile`. Relies on the attributes
    of `Trainer` that hold them. Empty before the metrics are built.
    """
    compiled, losses = model._compile_metrics, model._compile_loss
    if compiled is not None and not compiled.built:
        return []
    of_trainer = [model._loss_tracker, compiled, *(losses.metrics if losses is not None else ())]
    others = [metric for metric in model.metrics if not any(metric is own for own in of_trainer)]
    names = [metric.name for metric in of_trainer if metric not in (None, compiled)]
    names += [] if compiled is None else list(compiled.result())
    return names + [metric.name for metric in others]


def decode_keras_2_config(text: Any) -> dict[str, Any]:
    """Returns a configuration that Keras 2 wrote as JSON, with its tuples and shapes.

    Relies on the decoder that Keras has for `.h5` files.
    """
    config: dict[str, Any] = json_utils.decode(text)
    return config


def model_of_keras_2(config: dict[str, Any], custom_objects: dict[str, Any]) -> keras.Model:
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


def stored_weight(layer: keras.Layer, name: str) -> str | None:
    """Returns the attribute whose value a property without a setter returns, None for another.

    Relies on `_kernel` of `Dense` and `Conv`, `_embeddings` of `Embedding`, and others like them.
    """
    of_class, stored = getattr(type(layer), name, None), f"_{name}"
    is_read_only = isinstance(of_class, property) and of_class.fset is None
    return stored if is_read_only and stored in vars(layer) else None


def allow_positional_arguments(layer: keras.Layer) -> None:
    """Lets a layer take arguments that are no tensors by their position.

    Relies on `Layer._allow_non_tensor_positional_args`.
    """
    layer._allow_non_tensor_positional_args = True


def keep_training_from(layer: keras.Layer) -> None:
    """Calls a layer in functional models with its own arguments alone, without `training`.

    Relies on `Layer._call_context_args`.
    """
    layer._call_context_args = set()


def new_without_config(kind: type) -> Any:
    """Returns a new layer, not yet initialized, for which Keras keeps no arguments.

    Relies on `Operation._auto_config` and `Operation._lock`.
    """
    layer: Any = object.__new__(kind)
    vars(layer).update(_auto_config=None, _lock=True)
    return layer


def register_mapping(kind: type) -> None:
    """Makes Keras' structures of the objects of a subclass of `dict`, for good.

    The children are in the order of their sorted keys. Keras' own registration takes classes with
    methods for it. Relies on the namespace "keras", in which Keras looks for structures.
    """

    def flattened(mapping: Any) -> tuple[list[Any], tuple[Any, ...]]:
        return [mapping[key] for key in sorted(mapping)], tuple(mapping)

    def unflattened(keys: Any, children: Any) -> Any:
        values = dict(zip(sorted(keys), children, strict=True))
        return kind((key, values[key]) for key in keys)

    optree.register_pytree_node(kind, flattened, unflattened, namespace="keras")


def tracks_attributes(layer: keras.Layer) -> bool:
    """Returns whether what is assigned to attributes of a layer becomes a part of it.

    Relies on `_self_setattr_tracking`, by which TensorFlow and scripts of Keras 2 switch it off.
    """
    return bool(getattr(layer, "_self_setattr_tracking", True))
