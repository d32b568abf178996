"""What tf_keras, which is Keras 2, keeps private. Imported only where tf_keras is loaded."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import tensorflow as tf
import tf_keras

# The class of functional models, which tf_keras does not export.
from tf_keras.src.engine.functional import Functional as TfKerasFunctional

# The layers that operations on symbolic tensors become in functional models.
from tf_keras.src.layers.core import tf_op_layer

# The class of symbolic tensors, exported in a private namespace alone.
from tf_keras.src.engine.keras_tensor import KerasTensor as TfKerasTensor

# The class of symbolic calls, which layers keep.
from tf_keras.src.engine.node import Node as TfKerasNode

# What is being called, which tf_keras keeps for each thread.
from tf_keras.src.engine.base_layer_utils import CallContext, CallContextManager, call_context

# Which strategies scale losses; tf_keras lists its own.
from tf_keras.src.mixed_precision import loss_scale_optimizer

# What tf_keras writes of a model beside its weights, and how it reads `.h5` files and SavedModels.
from tf_keras.src.saving.legacy import hdf5_format, saving_utils
from tf_keras.src.saving.legacy.saved_model import load as saved_model_loading

# How `fit` makes batches of arrays, weights their classes, and unpacks them.
from tf_keras.src.engine import data_adapter

# How losses leave out the steps that layers mask.
from tf_keras.src.utils import losses_utils

# Where dtypes of layers are set.
from tf_keras.src.mixed_precision import policy as policy_module

# The package of the optimizers of Keras 2.6, and the module of their schedules.
from tf_keras.src.optimizers import legacy as legacy_package
from tf_keras.src.optimizers.schedules import learning_rate_schedule as schedules_module

# From what initializers draw their values.
from tf_keras.src.backend import RandomGenerator

# By what a legacy optimizer tells variables apart.
from tf_keras.src.optimizers.legacy.optimizer_v2 import OptimizerV2 as LegacyOptimizer
from tf_keras.src.optimizers.legacy.optimizer_v2 import _var_key

# How optimizers join the gradients of replicas, unless a script says otherwise.
from tf_keras.src.optimizers import utils as optimizer_utils

# The values of variables that a checkpoint has.
CheckpointInitialValueCallable = tf.__internal__.tracking.CheckpointInitialValueCallable

# How names of optimizers are read; which class a name means is no argument of public functions.
from tf_keras.src import optimizers as optimizers_module

# Whether arguments are those of a functional model.
from tf_keras.src.engine.training import is_functional_model_init_params as is_functional_call

from ipu_tf.internals.patches import Patch
from ipu_tf.internals.structures import Gradient, TensorStructure

Optimizer: TypeAlias = "tf_keras.optimizers.Optimizer | LegacyOptimizer"
"""An optimizer of tf_keras, a new or a legacy one."""

Schedule: TypeAlias = tf_keras.optimizers.schedules.LearningRateSchedule

Hyper: TypeAlias = "float | tf.Tensor | Callable[[], tf.Tensor] | Schedule"
"""What a legacy optimizer takes for a number, such as its learning rate."""

MODEL_CREATION = Patch(tf_keras.Model, "__new__", "models of the scope are IPU models")
LAYER_CREATION = Patch(
    tf_keras.layers.Layer, "__init__", "layers know the pipeline stage they are made in"
)
CALLS_IN_STAGES = Patch(
    tf_keras.layers.Layer, "__call__", "calls of layers know their pipeline stage"
)
LAYER_CALLS = Patch(CallContext, "enter", "reports name the layers that are called")
UPDATES = tuple(
    Patch(owner, "apply_gradients", "reports name updates, whose gradients have static shapes")
    for owner in (
        tf_keras.optimizers.Optimizer,
        tf_keras.optimizers.legacy.Optimizer,
        loss_scale_optimizer.LossScaleOptimizer,
        loss_scale_optimizer.LossScaleOptimizerV3,
    )
)
ADAPTATION = Patch(
    tf_keras.layers.experimental.preprocessing.PreprocessingLayer,
    "adapt",
    "the host reads the dataset",
)
LegacyLossScaleOptimizer = loss_scale_optimizer.LossScaleOptimizer
LOSS_SCALING = Patch(
    loss_scale_optimizer, "strategy_supports_loss_scaling", "IPU strategies scale losses"
)
LOSS_REDUCTION = Patch(
    tf_keras.losses.Loss, "_get_reduction", "own steps take the mean of a loss over their batch"
)
LOSS_MASKS = Patch(
    losses_utils, "apply_valid_mask", "masked steps count in means of losses of scripts"
)
FILE_METADATA = Patch(saving_utils, "model_metadata", "`.h5` files and SavedModels hold options")
H5_LOADING = Patch(hdf5_format, "load_model_from_hdf5", "models of `.h5` files get their options")
SAVED_MODEL_LOADING = Patch(saved_model_loading, "load", "models of SavedModels get their options")
RESUMING = Patch(
    tf_keras.callbacks.BackupAndRestore, "on_train_begin", "runs of IPU strategies are resumed"
)
NAN_STOPS = Patch(
    tf_keras.callbacks.TerminateOnNaN, "on_batch_end", "its message names the operation of a NaN"
)
STEPS_OF_DATA = Patch(data_adapter.DataHandler, "steps", "loops of the host are tried out, too")
OPTIMIZER_OF = Patch(
    optimizers_module, "get", "names of optimizers are those of Keras 2.6 in scripts"
)
DRAWS = Patch(RandomGenerator, "__init__", "initializers draw from TensorFlow's seed in scripts")
REPEATED_DRAWS = Patch(
    tf_keras.initializers.Initializer, "_warn_reuse", "no draw of scripts repeats another"
)
DRAWS_THAT_REPEAT = RandomGenerator.RNG_STATELESS
DRAWS_OF_TENSORFLOW = RandomGenerator.RNG_LEGACY_STATEFUL
_AROUND = "ipu_tf_around"


def noting_callers(stock: Callable[..., CallContextManager]) -> Callable[..., CallContextManager]:
    """Makes the call of a layer know the call around it, for `open_layers`.

    Relies on `_state`, a dictionary of a call that the context has while it is open.
    """

    def enter(context: CallContext, *args: object, **kwargs: object) -> CallContextManager:
        result = stock(context, *args, **kwargs)
        result._state[_AROUND] = context._state
        return result

    return enter


def open_layers() -> list[tf_keras.layers.Layer]:
    """Returns the layers that are being called on this thread, the innermost last."""
    layers, state = [], call_context()._state
    while state is not None and state["layer"] is not None:
        layers.append(state["layer"])
        state = state.get(_AROUND)
    return layers[::-1]


def h5_attribute(file: object, name: str) -> bytes | str | None:
    """Returns an attribute of an `.h5` file, in which `save` keeps metadata; None without it.

    Args:
        file: An open file of TensorFlow, or an `h5py.File`.
        name: Name of the attribute.
    """
    h5py = hdf5_format.h5py
    context = contextlib.nullcontext(file) if isinstance(file, h5py.File) else h5py.File(file, "r")
    with context as attributed:
        return attributed.attrs.get(name)


def saved_model_metadata(model: tf_keras.Model) -> Mapping[str, object]:
    """Returns the metadata of the SavedModel that a model is from.

    Relies on `_serialized_attributes`, which a model of a SavedModel has.
    """
    return getattr(model, "_serialized_attributes", {}).get("metadata", {})


def support_strategies(callback: tf_keras.callbacks.BackupAndRestore, kind: type) -> None:
    """Makes a callback resume runs of strategies of a kind.

    Relies on `BackupAndRestore._supported_strategies`, the kinds that it knows.
    """
    if kind not in callback._supported_strategies:
        callback._supported_strategies += (kind,)


def is_functional(layer: object) -> bool:
    """Returns whether a layer is a functional model, and no Sequential, which is one, too."""
    return isinstance(layer, TfKerasFunctional) and not isinstance(layer, tf_keras.Sequential)


OPERATION_LAYERS = (
    tf_op_layer.ClassMethod,
    tf_op_layer.InstanceMethod,
    tf_op_layer.InstanceProperty,
    tf_op_layer.TFOpLambda,
)
"""The classes of layers that operations on symbolic tensors become."""


class UntimedCallbackList(tf_keras.callbacks.CallbackList):
    """A list of callbacks that does not compare their time with that of a batch.

    For callbacks that run beside the device: the list does not see how long a batch takes. Relies
    on `_check_timing`.
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        self._check_timing = False


def counter_of(model: tf_keras.Model, step: str) -> tf.Variable:
    """Returns the variable that counts the batches of a method, which callbacks read.

    Relies on `Model._train_counter`, `Model._test_counter` and `Model._predict_counter`.

    Args:
        model: The model.
        step: "train_step", "test_step" or "predict_step".
    """
    return getattr(model, f"_{step.removesuffix('_step')}_counter")


def is_compiled(model: tf_keras.Model) -> bool:
    """Returns whether `compile` was called. Relies on `Model._is_compiled`."""
    return bool(model._is_compiled)


def node_of(tensor: TfKerasTensor | tf.Tensor) -> TfKerasNode | None:
    """Returns the symbolic call that makes a tensor of a functional model, None if none does.

    Relies on `_keras_history`: inside of a `tf.Graph` such tensors are TensorFlow's own.
    """
    history = getattr(tensor, "_keras_history", None)
    return None if history is None else history.layer.inbound_nodes[history.node_index]


def layers_within(model: tf_keras.Model) -> list[tf_keras.layers.Layer]:
    """Returns all layers in a model, those of layers, too. Relies on `Layer._flatten_layers`."""
    return list(model._flatten_layers(include_self=False))


def nodes_by_depth(model: TfKerasFunctional) -> list[TfKerasNode]:
    """Returns the calls of a graph, those farthest from its outputs first.

    Relies on `Functional._nodes_by_depth`.
    """
    depths = sorted(model._nodes_by_depth.items(), reverse=True)
    return [node for _, nodes in depths for node in nodes]


def steps_variable_of(model: tf_keras.Model) -> tf.Variable | None:
    """Returns the variable of the steps of an execution, which the loop of tf_keras reads.

    None before `compile`. Relies on `Model._steps_per_execution`.
    """
    return model._steps_per_execution


def array_batches(
    data: Mapping[str, object],
    *,
    batch_size: int | None,
    steps: int | None,
    epochs: int,
    shuffle: bool,
) -> tuple[tf.data.Dataset, int]:
    """Returns the batches of all epochs that `fit` makes of arrays, and their number in an epoch.

    They are shuffled as without us. Relies on `data_adapter.select_data_adapter`.

    Raises:
        ValueError: tf_keras does not know the kind of data.
    """
    adapter = data_adapter.select_data_adapter(data["x"], data["y"])(
        data["x"],
        data["y"],
        sample_weights=data["sample_weight"],
        batch_size=batch_size,
        steps=steps,
        epochs=epochs,
        shuffle=shuffle,
    )
    return adapter.get_dataset(), int(adapter.get_size())


def as_array(part: object) -> object:
    """Returns a list of numbers as the array that `fit` makes of it; any other part as it is.

    Relies on `data_adapter.ListsOfScalarsDataAdapter.can_handle`.
    """
    is_list = isinstance(part, list) and data_adapter.ListsOfScalarsDataAdapter.can_handle(part)
    return np.asarray(part) if is_list else part


def with_class_weight(
    dataset: tf.data.Dataset, class_weight: Mapping[int, float]
) -> tf.data.Dataset:
    """Returns a dataset whose samples have the weights of their classes.

    Relies on `data_adapter._make_class_weight_map_fn`, which `fit` uses.
    """
    return dataset.map(data_adapter._make_class_weight_map_fn(class_weight))


def check_loss(model: tf_keras.Model, targets: TensorStructure, loss: tf.Tensor) -> None:
    """Checks that a model has something to minimize. Relies on `Model._validate_target_and_loss`.

    Raises:
        TypeError: There are no targets, though the loss needs them.
        ValueError: There is no loss.
    """
    model._validate_target_and_loss(targets, loss)


def set_strategy_of(optimizer: Optimizer, strategy: tf.distribute.Strategy) -> None:
    """Makes a strategy the one that an optimizer updates its variables under.

    Legacy optimizers take that of the step. Relies on `Optimizer._distribution_strategy`.
    """
    if isinstance(optimizer, tf_keras.optimizers.Optimizer):
        optimizer._distribution_strategy = strategy


def optimizer_name(optimizer: Optimizer) -> str:
    """Returns the name of an optimizer; a `LossScaleOptimizer` has that of the one it wraps.

    Legacy ones keep it as `_name`.
    """
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    return str(getattr(inner, "name", None) or inner._name)


def slots_of(
    optimizer: Optimizer, weights: Sequence[tf.Variable]
) -> Iterator[tuple[tf.Variable, tf.Variable]]:
    """Yields the variables that an optimizer keeps, each with its weight, or with itself.

    New optimizers name a slot after its weight. Relies on `Variable._shared_name`, which they use.
    """
    if isinstance(optimizer, tf_keras.optimizers.legacy.Optimizer):
        names = optimizer.get_slot_names()
        yield from ((optimizer.get_slot(one, name), one) for one in weights for name in names)
        yield optimizer.iterations, optimizer.iterations
        return
    endings = {f"/{weight._shared_name}": weight for weight in weights}
    for slot in optimizer.variables():
        name = slot.name.rpartition(":")[0]
        ending = max((one for one in endings if name.endswith(one)), key=len, default=None)
        yield slot, slot if ending is None else endings[ending]


def own_minimize(optimizer: object) -> str | None:
    """Returns the class of a script whose `minimize` updates otherwise than its `apply_gradients`.

    None for the optimizers of tf_keras. Relies on their modules being in `tf_keras`.
    """
    for base in type(optimizer).__mro__:
        if "minimize" in vars(base):
            is_stock = base.__module__.partition(".")[0] == "tf_keras"
            return None if is_stock or "apply_gradients" in vars(base) else base.__name__
    return None


def computes_gradients(optimizer: object) -> bool:
    """Returns whether the class of a script computes the gradients of a legacy optimizer.

    Relies on `_compute_gradients`, which `minimize` calls, and on the modules of optimizers.
    """
    return is_of_script(optimizer, "_compute_gradients")


def is_of_script(optimizer: object, method: str) -> bool:
    """Returns whether the class of a script defines a method of an optimizer.

    Relies on the modules of optimizers.
    """
    classes = type(optimizer).__mro__
    owner = next((base for base in classes if method in vars(base)), object)
    return owner.__module__.partition(".")[0] not in ("builtins", "ipu_tf", "tf_keras")


def aggregates_gradients(optimizer: object) -> bool:
    """Returns whether a script says how gradients of replicas are joined.

    It may be the class of the optimizer or of one that it wraps, or an argument of a legacy one.
    Relies on the methods that `apply_gradients` calls, and on `gradient_aggregator`.
    """
    if any(is_of_script(optimizer, method) for method in _AGGREGATION):
        return True
    if getattr(optimizer, "gradient_aggregator", _STOCK_SUM) is not _STOCK_SUM:
        return True
    inner = getattr(optimizer, "inner_optimizer", None)
    return inner is not None and aggregates_gradients(inner)


_AGGREGATION = ("_aggregate_gradients", "_transform_unaggregated_gradients", "aggregate_gradients")
_STOCK_SUM = optimizer_utils.all_reduce_sum_gradients


def gradients_by(
    optimizer: LegacyOptimizer,
    tape: tf.GradientTape,
    loss: tf.Tensor,
    weights: Sequence[tf.Variable],
) -> list[Gradient]:
    """Returns the gradients that a legacy optimizer computes, None where it gives none.

    Relies on `_compute_gradients`, which `minimize` calls so.
    """
    pairs = optimizer._compute_gradients(loss, var_list=weights, grad_loss=None, tape=tape)
    gradients = {weight.ref(): gradient for gradient, weight in pairs}
    return [gradients.get(weight.ref()) for weight in weights]


def dense(gradients: Sequence[Gradient]) -> list[tf.Tensor | None]:
    """Returns gradients as tensors: those of embeddings are lists of rows, of unknown length."""
    return [
        tf.convert_to_tensor(one) if isinstance(one, tf.IndexedSlices) else one for one in gradients
    ]


RECURRENT_LAYERS = (tf_keras.layers.LSTM, tf_keras.layers.GRU)
"""Layers that compute by kernels of a library, or by their cells."""


def forgo_library_kernels(layer: tf_keras.layers.Layer) -> None:
    """Makes a recurrent layer compute by its cell, whatever device the program is for.

    Relies on `_could_use_gpu_kernel`, which `LSTM` and `GRU` read when they are called.
    """
    layer._could_use_gpu_kernel = False


def forget_input_shape(layer: tf_keras.layers.Layer) -> None:
    """Makes a layer not know the shape of its inputs, which a Sequential asks its first layer for.

    Relies on `_batch_input_shape`, which a layer has if it knows.
    """
    del layer._batch_input_shape


def set_hyper(optimizer: LegacyOptimizer, name: str, value: Hyper) -> None:
    """Makes a number, a function or a schedule one that a legacy optimizer keeps in a variable.

    Relies on `Optimizer._set_hyper`, which subclasses are to call.
    """
    optimizer._set_hyper(name, value)


def config_of_hyper(optimizer: LegacyOptimizer, name: str) -> object:
    """Returns what `set_hyper` set, for a configuration.

    Relies on `Optimizer._serialize_hyperparameter`.
    """
    return optimizer._serialize_hyperparameter(name)


def learning_rate_of_step(optimizer: LegacyOptimizer, dtype: tf.DType) -> tf.Tensor:
    """Returns the learning rate of this step of a legacy optimizer, with its schedule and decay.

    Relies on `Optimizer._decayed_lr`, which its updates use.
    """
    return optimizer._decayed_lr(dtype)


def add_slot_of(
    optimizer: LegacyOptimizer,
    variable: tf.Variable,
    name: str,
    *,
    initializer: str | Callable[..., tf.Tensor] | tf.Tensor,
    shape: Sequence[int] | None,
    dtype: tf.DType,
) -> tf.Variable:
    """Returns the slot of a variable; makes it if there is none of that name.

    The public `Optimizer.add_slot` takes no dtype. Relies on the lists that it keeps, `_slots`,
    `_slot_names` and `_weights`, and on `_restore_slot_variable`.
    """
    slots = optimizer._slots.setdefault(_var_key(variable), {})
    if name in slots:
        return slots[name]
    if name not in optimizer._slot_names:
        optimizer._slot_names.append(name)
    value = initializer
    if isinstance(initializer, str) or callable(initializer):
        is_of_file = isinstance(initializer, CheckpointInitialValueCallable)
        sizes = variable.shape if shape is None and not is_of_file else shape
        make = tf_keras.initializers.get(initializer)
        value = functools.partial(make, shape=sizes, dtype=dtype)
    with optimizer._distribution_strategy_scope():
        label = f"{variable._shared_name}/{name}"
        slot = tf.Variable(value, trainable=False, dtype=dtype, name=label)
    slots[name] = slot
    optimizer._restore_slot_variable(slot_name=name, variable=variable, slot_variable=slot)
    optimizer._weights.append(slot)
    return slot


def track(owner: LegacyOptimizer, name: str, value: Optimizer) -> None:
    """Makes checkpoints of a legacy optimizer hold another one that it wraps.

    Relies on `Trackable._track_trackable`, since legacy optimizers track no attributes.
    """
    owner._track_trackable(value, name, overwrite=True)


def make_state(optimizer: Optimizer, variables: Sequence[tf.Variable]) -> None:
    """Makes the variables that an optimizer keeps of weights, unless they are there.

    Relies on `_create_all_weights` of legacy optimizers; new ones have a public method.
    """
    if isinstance(optimizer, LegacyOptimizer):
        optimizer._create_all_weights(variables)
    else:
        optimizer.build(variables)
