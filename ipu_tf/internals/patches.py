"""The methods of TensorFlow and Keras that ipu_tf replaces, and the context that does so.

Each is replaced only while something needs it: a trace, a scope. Contexts may be open on several
threads at once, and a replacement is in force on all of them, so it has to call through to the
stock method on a thread that did not ask for it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from ipu_tf.internals.keras import (
    keras_activations,
    keras_backend,
    keras_backend_core,
    keras_backend_numpy,
    keras_backend_trainer,
    keras_python_utils,
    keras_constraints,
    keras_losses,
    keras_metrics,
    keras_regularizers,
)
from ipu_tf.internals.keras import KerasFunctional
from ipu_tf.internals.keras import KerasCallSpec, KerasHistory, KerasNode, KerasTrainer
from ipu_tf.internals.keras import MonitorCallback
from ipu_tf.internals.keras_training import KerasCompiledLoss, KerasCompiledMetrics
from ipu_tf.internals.tensorflow import (
    ConcreteFunction,
    CondGradientGraph,
    DefaultGraphStack,
    FuncGraph,
    OptionalXlaContext,
    PolymorphicFunction,
    eager_context_module,
    function_context,
    gradient_registry,
    nn_kernels,
    tracing_compilation,
)

Wrap = Callable[[Any], Any]
"""Makes the replacement of a method or a property, given the stock one."""


@dataclass(frozen=True, slots=True, eq=False)
class Patch:
    """A method that is replaced while something needs it.

    Attributes:
        owner: The class or module that has it.
        name: Its name there.
        reason: The purpose of its replacement, as the end of "so that ...".
        is_new: Whether the owner lacks the method: it is added, and removed afterwards.
    """

    owner: Any
    name: str
    reason: str
    is_new: bool = False

    def __str__(self) -> str:
        return f"{self.owner.__name__.rpartition('.')[2]}.{self.name}"


OP_CREATION = Patch(FuncGraph, "_create_op_internal", "the tracer creates each op")
NAME_SCOPES = Patch(FuncGraph, "__init__", "ops of a called function are in the layer's scope")
CONCRETE_CALLS = Patch(
    ConcreteFunction, "_call_flat", "finished functions are copied through the tracer"
)
TRACE_KEYS = Patch(function_context, "make_function_context", "each run has traces of its own")
SIGNATURES = Patch(
    tracing_compilation,
    "trace_function",
    "nested functions have the static shapes of their calls",
)
JITTED_CONTEXTS = Patch(
    OptionalXlaContext, "__enter__", "jitted functions of replicas are part of the program"
)
INITIALIZED_VALUES = Patch(
    tf.Variable, "initialized_value", "variables tell the value that they begin with"
)
SESSIONS = Patch(tf.compat.v1.Session, "__init__", "they run operations that are placed on an IPU")
INTERACTIVE_SESSIONS = Patch(
    tf.compat.v1.InteractiveSession, "__init__", "they run operations that are placed on an IPU"
)
STATISTICS_OPTIONS = Patch(
    tf.data.Options, "experimental_stats", "scripts set an aggregator of statistics", is_new=True
)
SIZES_OF_SHAPES = Patch(
    tf.compat.v1.Dimension, "__init__", "sizes of shapes may be whole numbers that are floats"
)
OPTIONALS = Patch(
    eager_context_module,
    "optionals_in_gradients_enabled",
    "branches give their gradients plain tensors",
)
BRANCH_CAPTURES = Patch(
    CondGradientGraph, "_capture_helper", "gradients of branches take handles from the inputs"
)
GRADIENT_LOOKUP = Patch(
    type(gradient_registry),
    "lookup",
    "gradients of slices keep their static shape, and that of a shared matrix is one product",
)
DATASET_ITERATION = Patch(
    tf.data.Dataset, "__iter__", "datasets are checked and fed as the machine needs it"
)
GRAPH_RESETS = Patch(
    DefaultGraphStack, "reset", "`keras.utils.clear_session` leaves the scope in force"
)
MODEL_CREATION = Patch(keras.Model, "__new__", "models of the scope are IPU models")
LAYER_CREATION = Patch(keras.Layer, "__new__", "layers know the pipeline stage they are made in")
LAYER_CALLS = Patch(keras.Layer, "__call__", "calls of layers know their pipeline stage")
REMATERIALIZATION = Patch(
    keras_backend_core, "remat", "the device program recomputes, and the host does not"
)
ADAPTATIONS = tuple(
    Patch(owner, "adapt", "the host reads the dataset")
    for owner in (
        keras.layers.Discretization,
        keras.layers.IntegerLookup,
        keras.layers.Normalization,
        keras.layers.StringLookup,
        keras.layers.TextVectorization,
        keras.utils.FeatureSpace,
    )
)
FUNCTION_CALLS = Patch(
    PolymorphicFunction, "__call__", "calls that run programs are spans of the host timeline"
)
CHECKPOINT_FILES = tuple(
    Patch(owner, name, "files of checkpoints are spans of the host timeline")
    for owner, name in (
        (tf.train.Checkpoint, "save"),
        (tf.train.Checkpoint, "write"),
        (tf.train.Checkpoint, "restore"),
        (tf.train.Checkpoint, "read"),
        (tf.train.CheckpointManager, "save"),
    )
)
ADDITION = Patch(keras_backend_numpy, "add", "tensors broadcast along their own axes")
LAYER_BUILDS = Patch(keras.Layer, "build", "models make the weights of their layers")
LAYERS_BUILT = Patch(keras.Layer, "_post_build", "new weights get the values of a checkpoint")
INPUT_LAYERS = Patch(keras.layers.InputLayer, "__init__", "a shape may be a whole number")
SEQUENTIAL_LAYERS = Patch(keras.Sequential, "add", "the first layer may tell the batch size")
OPERATION_CREATION = Patch(keras.Operation, "__new__", "initializers of layers may be decorated")
LAYER_NAMES = (
    Patch(keras.Operation, "__init__", "names of layers may have a slash"),
    Patch(keras.Model, "get_layer", "names of layers may have a slash"),
)
LAYER_COMPUTATION = Patch(keras.Layer, "call", "a layer may return its inputs")
LAYER_ARGUMENTS = Patch(keras.Layer, "__init__", "layers take the arguments of Keras 2")
LAYER_CONFIGURATIONS = Patch(keras.Layer, "get_config", "the dtype of a layer may be open")
WEIGHT_CREATION = Patch(keras.Layer, "add_weight", "its arguments may come in Keras 2's order")
VARIABLE_CREATION = Patch(keras.Layer, "add_variable", "it takes the arguments of `add_weight`")
VARIABLE_NAMES = Patch(keras.Variable, "name", "scripts find the layer in it")
VARIABLE_SHAPES = Patch(keras.Variable, "shape", "shapes have whole numbers in TensorFlow 1, too")
VARIABLE_VALUES = Patch(
    keras.Variable, "_initialize", "the variable of TensorFlow is named after its layer"
)
METRIC_VARIABLES = Patch(keras.Metric, "add_weight", "its name may come first")
EMBEDDING_ARGUMENTS = Patch(
    keras.layers.Embedding, "__init__", "`input_length` is the shape of its input"
)
OPTIMIZER_ARGUMENTS = Patch(
    keras.optimizers.Optimizer, "__init__", "optimizers take the arguments of Keras 2"
)
OPTIMIZER_ATTRIBUTES = Patch(
    keras.optimizers.Optimizer, "__setattr__", "they may be set before the optimizer's own"
)
GRADIENT_CLIPPING = Patch(
    keras.optimizers.Optimizer, "_clip_gradients", "values and norms may both be clipped"
)
MOMENTUM_ARGUMENTS = Patch(keras.optimizers.SGD, "__init__", "a momentum may be a whole number")
LEARNING_RATES = Patch(
    keras.optimizers.Optimizer, "learning_rate", "it can be assigned beside a decay"
)
OPTIMIZER_BUILDS = Patch(keras.optimizers.Optimizer, "build", "an epsilon of None is the default")
OPTIMIZER_METHODS = tuple(
    Patch(keras.optimizers.Optimizer, name, "optimizers have the methods of Keras 2", is_new=True)
    for name in (
        "lr",
        "weights",
        "minimize",
        "get_gradients",
        "add_slot",
        "get_slot",
        "get_slot_names",
        "get_weights",
        "set_weights",
        "_create_all_weights",
        "_decayed_lr",
        "_get_hyper",
        "_serialize_hyperparameter",
        "_set_hyper",
    )
)
OPTIMIZER_HOOKS = tuple(
    Patch(keras.optimizers.Optimizer, name, "subclasses call and override them", is_new=True)
    for name in (
        "gradients_on_tape",
        "minimize_on_tape",
        "_compute_gradients",
        "_create_slots",
        "_fallback_apply_state",
        "_hyper",
        "_prepare",
        "_prepare_local",
        "_resource_apply_dense",
        "_resource_apply_sparse",
        "_use_locking",
    )
)
OPTIMIZER_APPLICATION = Patch(
    keras.optimizers.Optimizer, "apply_gradients", "it takes the arguments of Keras 2"
)
OPTIMIZER_UPDATES = Patch(
    keras.optimizers.Optimizer,
    "_distributed_tf_update_step",
    "subclasses of Keras 2 update their variables",
)
GRADIENT_AGGREGATION = Patch(
    keras.optimizers.Optimizer,
    "_all_reduce_sum_gradients",
    "functions of Keras 2 aggregate and transform gradients",
)
TRAIN_STEPS = Patch(keras.Model, "train_step", "subclasses of Keras 2 compute their gradients")
INFERRED_RESULTS = Patch(
    keras_backend, "compute_output_spec", "layers may return mappings of a script's own"
)
FUNCTIONAL_MODELS = Patch(
    KerasFunctional, "__init__", "models may return mappings of a script's own"
)
SYMBOLIC_SHAPES = Patch(keras.KerasTensor, "shape", "shapes have the methods of a `TensorShape`")
SYMBOLIC_DTYPES = Patch(keras.KerasTensor, "dtype", "dtypes have the attributes of a `DType`")
SYMBOLIC_GET_SHAPE = Patch(
    keras.KerasTensor, "get_shape", "symbolic tensors tell a `TensorShape`", is_new=True
)
SYMBOLIC_REFERENCES = Patch(keras.KerasTensor, "ref", "symbolic tensors may be keys", is_new=True)
GRAPH_OF_LAYERS = tuple(
    Patch(owner, name, "scripts walk the graph of layers", is_new=True)
    for owner, name in (
        (KerasHistory, "layer"),
        (KerasNode, "layer"),
        (KerasNode, "outbound_layer"),
        (KerasNode, "call_args"),
        (KerasNode, "call_kwargs"),
        (keras.Layer, "_name"),
        (keras.Metric, "_name"),
        (keras.Layer, "inbound_nodes"),
        (keras.Layer, "outbound_nodes"),
    )
)
INPUTS_OF_INPUTS = Patch(
    keras.layers.InputLayer, "input", "the input of an input layer is its output"
)
VARIABLE_DTYPES = Patch(keras.Variable, "dtype", "dtypes have the attributes of a `DType`")
VARIABLE_ATTRIBUTES = Patch(
    keras.Variable, "__getattr__", "weights have the methods of TensorFlow's variables", is_new=True
)
MODEL_SAVING = Patch(keras.Model, "save", "models are written to directories")
WEIGHT_SAVING = Patch(keras.Model, "save_weights", "weights are written to checkpoints")
WEIGHT_LOADING = Patch(keras.Model, "load_weights", "weights are read from checkpoints")
CHECKPOINTS = Patch(keras.callbacks.ModelCheckpoint, "__init__", "its path may have any ending")
CHECKPOINT_STARTS = Patch(
    keras.callbacks.ModelCheckpoint, "on_train_begin", "training may begin with the newest file"
)
CHECKPOINT_CHOICES = Patch(
    keras.callbacks.ModelCheckpoint, "_should_save_model", "without its metric no file is the best"
)
CHECKPOINTED_EPOCHS = Patch(
    keras.callbacks.ModelCheckpoint, "on_epoch_end", "a period may pass between two files"
)
SCHEDULERS = Patch(
    keras.callbacks.LearningRateScheduler, "__init__", "its function may return a tensor"
)
LOGGED_RATES = tuple(
    Patch(owner, "on_epoch_end", "logs have the learning rate under the name `lr`")
    for owner in (keras.callbacks.LearningRateScheduler, keras.callbacks.ReduceLROnPlateau)
)
BOARDS = Patch(keras.callbacks.TensorBoard, "__init__", "it takes the arguments of Keras 2")
BARS = Patch(keras.callbacks.ProgbarLogger, "__init__", "it takes the arguments of Keras 2")
PLATEAUS = Patch(keras.callbacks.ReduceLROnPlateau, "__init__", "`epsilon` is the smallest change")
IDENTIFIERS = tuple(
    Patch(owner, "ALL_OBJECTS_DICT", "strings find custom objects")
    for owner in (
        keras_activations,
        keras_constraints,
        keras_losses,
        keras_metrics,
        keras_regularizers,
    )
)
POOLING_ARGUMENTS = tuple(
    Patch(owner, "__init__", "the size of the pools has a default")
    for owner in (
        keras.layers.AveragePooling1D,
        keras.layers.AveragePooling2D,
        keras.layers.AveragePooling3D,
    )
)
SIZE_ARGUMENTS = tuple(
    Patch(owner, "__init__", "sizes may be NumPy numbers")
    for owner in (
        keras.layers.Dense,
        keras.layers.GroupNormalization,
        keras.layers.MultiHeadAttention,
        keras.layers.RepeatVector,
        keras.layers.UpSampling1D,
    )
)
ENCODING_ARGUMENTS = Patch(
    keras.layers.CategoryEncoding, "__init__", "its arguments have their names of Keras 2"
)
DISCRETIZATION_ARGUMENTS = Patch(
    keras.layers.Discretization, "__init__", "its arguments have their names of Keras 2"
)
LAYER_ATTRIBUTES = Patch(keras.Layer, "__setattr__", "variables of TensorFlow become weights")
NORM_BUILDS = Patch(keras.layers.LayerNormalization, "build", "the axes are counted from the first")
LAYER_LOCKS = Patch(keras.Layer, "_lock_state", "built layers may get further layers and weights")
LAYER_METHODS = tuple(
    Patch(keras.Layer, name, "layers have the methods of Keras 2", is_new=True)
    for name in ("add_update", "input_shape", "output_shape", "updates", "_compute_dtype")
)
LAYER_FLAGS = tuple(
    Patch(keras.Layer, name, "layers have the attributes of Keras 2", is_new=True)
    for name in ("dynamic", "stateful")
)
LOSSES_OF_LAYERS = Patch(keras.Layer, "add_loss", "a loss may be a function")
LOSSES_OF_MODELS = Patch(KerasFunctional, "add_loss", "a loss may be a symbolic tensor")
LAYERS_OF_SEQUENTIALS = Patch(
    keras.Sequential, "_flatten_layers", "losses and metrics of its tensors are among its own"
)
CLEARED_SEQUENTIALS = Patch(
    keras.Sequential, "_clear_losses", "losses of its tensors are those of the last call"
)
OWN_LOSSES = Patch(keras.Layer, "_get_own_losses", "losses of functions are among a layer's losses")
METRICS_OF_LAYERS = Patch(keras.Layer, "add_metric", "layers add metrics to the logs")
METRIC_RESULTS = Patch(keras.Metric, "__call__", "a metric's result tells the metric")
FUNCTIONAL_CONFIGS = Patch(
    KerasFunctional, "from_config", "losses and metrics of a model's tensors are read"
)
MODEL_CONFIGS = Patch(keras.Model, "from_config", "initializers get the arguments that they take")
LOSS_SCALING_METHODS = tuple(
    Patch(keras.mixed_precision.LossScaleOptimizer, name, reason, is_new=is_new)
    for name, reason, is_new in (
        ("__init__", "the scale of the loss may be fixed", False),
        ("apply", "the scale may be fixed, or the script may have unscaled", False),
        ("get_config", "a fixed scale is saved", False),
        ("dynamic", "the optimizer tells whether its scale changes", True),
        ("loss_scale", "the optimizer tells its scale", True),
        ("get_scaled_loss", "scripts scale the loss", True),
        ("get_unscaled_gradients", "scripts unscale gradients", True),
    )
)
SCHEDULED_RATES = Patch(
    keras.optimizers.Optimizer,
    "_get_current_learning_rate",
    "schedules get the step as a float",
)
MODEL_METHODS = tuple(
    Patch(keras.Model, name, "models have the methods of Keras 2", is_new=True)
    for name in (
        "predict_classes",
        "predict_proba",
        "reset_states",
        "state_updates",
        "to_yaml",
        "_get_distribution_strategy",
        "_is_graph_network",
    )
)
MODEL_ENDS = tuple(
    Patch(keras.Sequential, name, "a Sequential has the tensors at its ends")
    for name in ("input", "output")
)
NAMES_OF_ENDS = (
    Patch(keras.Model, "input_names", "models tell the names of their inputs", is_new=True),
    Patch(keras.Sequential, "output_names", "models tell the names of their outputs", is_new=True),
)
METRICS_NAMES = Patch(keras.Model, "metrics_names", "they are the names of what `evaluate` returns")
RESULTS_IN_ORDER = Patch(
    keras.Model, "_flatten_metrics_in_order", "results of several outputs are in their order"
)
OPTIMIZER_VARIABLES = tuple(
    Patch(owner, "variables", "the list of an optimizer's variables may be called")
    for owner in (keras.optimizers.Optimizer, keras.mixed_precision.LossScaleOptimizer)
)
METRIC_RESETS = Patch(keras.Metric, "reset_state", "metrics may override `reset_states`")
STATE_RESETS = tuple(
    Patch(owner, "reset_states", "states are reset by their name in Keras 2", is_new=True)
    for owner in (keras.Metric, keras.layers.RNN)
)
# Keras looks whether a model overrides the method of this class.
COMPILATION = Patch(KerasTrainer, "compile", "models take the arguments of Keras 2")
LOSS_COMPUTATION = Patch(KerasTrainer, "compute_loss", "models are evaluated without a loss")
COMPILED_LOSS_CALLS = Patch(
    KerasCompiledLoss, "__call__", "outputs in a dictionary may have one target"
)
COMPILED_METRIC_UPDATES = Patch(
    KerasCompiledMetrics, "update_state", "outputs in a dictionary may have one target"
)
COMPILED_LOSSES = Patch(keras.Model, "compiled_loss", "steps of scripts count its values")
COMPILED_METRICS = Patch(
    keras.Model, "compiled_metrics", "steps of scripts update the metrics of `compile` alone"
)
MONITOR_DIRECTIONS = Patch(
    MonitorCallback, "_set_monitor_op", "names tell whether more of a value is better"
)
CALLBACK_LISTS = Patch(
    keras.callbacks.CallbackList, "__init__", "callbacks name their arguments as they like"
)
CALLBACK_MODELS = Patch(keras.callbacks.Callback, "model", "scripts set the model of a callback")
RNN_ARGUMENTS = Patch(keras.layers.RNN, "__init__", "cells may tell their sizes as shapes")
CALL_ARGUMENTS = Patch(KerasCallSpec, "__init__", "layers may take shapes beside tensors")
SYMBOLIC_CALLS = Patch(KerasNode, "__init__", "layers may return shapes and numbers")
LOSS_ARGUMENTS = Patch(keras.Loss, "__init__", 'the reduction "auto" has its meaning of Keras 2')
METRIC_ARGUMENTS = Patch(keras.Metric, "__init__", "control flow over tensors is converted")
LAMBDA_CONFIGS = Patch(keras.layers.Lambda, "get_config", "lambdas keep their globals")
LAMBDA_COPIES = Patch(keras.layers.Lambda, "from_config", "layers of lambdas can be copied")
LAMBDA_SPECS = Patch(keras.layers.Lambda, "compute_output_spec", "lambdas get sparse inputs")
LAMBDA_CALLS = Patch(keras.layers.Lambda, "call", "control flow over tensors is converted")
LOSS_DTYPES = Patch(keras.Loss, "dtype", "a script's own losses may set it")
LOSS_CALLS = Patch(keras.Loss, "__call__", "targets may lack the last dimension")
METRIC_CALLS = Patch(
    keras.metrics.MeanMetricWrapper, "update_state", "targets may lack the last dimension"
)
SORTED_LOGS = tuple(
    Patch(owner, "pythonify_logs", "logs keep their order")
    for owner in (keras_backend_trainer, keras_python_utils)
)
SYMBOLIC_BUILDS = Patch(
    KerasTrainer, "_symbolic_build", "models without a `call` are trained by their own step"
)
BUILT_SEQUENTIALS = Patch(keras.Sequential, "build", "a Sequential with an Input may be built")
STEP_LOGS = Patch(
    KerasTrainer, "_get_metrics_result_or_logs", "an epoch's logs are what its last step returned"
)
WATCHED_VARIABLES = Patch(tf.GradientTape, "watch", "tapes watch weights of Keras")
FUSED_BATCH_NORMS = Patch(nn_kernels, "fused_batch_norm_v3", "their scales may be halves")
NUMPY_NAMES = Patch(np, "__getattr__", "NumPy has the names that it dropped")
LOOP_ARGUMENTS = tuple(
    Patch(keras.Model, name, "the loop takes the arguments of Keras 2")
    for name in ("fit", "evaluate", "predict")
)
BATCH_METHODS = tuple(
    Patch(keras.Model, name, "batches take the arguments of Keras 2")
    for name in ("train_on_batch", "test_on_batch", "predict_on_batch")
)
GENERATOR_METHODS = tuple(
    Patch(keras.Model, name, "models have the loops over generators", is_new=True)
    for name in ("fit_generator", "evaluate_generator", "predict_generator")
)

TABLE = (
    OP_CREATION,
    NAME_SCOPES,
    CONCRETE_CALLS,
    TRACE_KEYS,
    SIGNATURES,
    JITTED_CONTEXTS,
    INITIALIZED_VALUES,
    SESSIONS,
    INTERACTIVE_SESSIONS,
    STATISTICS_OPTIONS,
    SIZES_OF_SHAPES,
    OPTIONALS,
    BRANCH_CAPTURES,
    GRADIENT_LOOKUP,
    DATASET_ITERATION,
    GRAPH_RESETS,
    MODEL_CREATION,
    LAYER_CREATION,
    LAYER_CALLS,
    REMATERIALIZATION,
    *ADAPTATIONS,
    FUNCTION_CALLS,
    *CHECKPOINT_FILES,
    INPUT_LAYERS,
    ADDITION,
    LAYER_BUILDS,
    LAYERS_BUILT,
    SEQUENTIAL_LAYERS,
    OPERATION_CREATION,
    *LAYER_NAMES,
    LAYER_ARGUMENTS,
    LAYER_CONFIGURATIONS,
    LAYER_COMPUTATION,
    WEIGHT_CREATION,
    VARIABLE_CREATION,
    VARIABLE_NAMES,
    VARIABLE_SHAPES,
    VARIABLE_VALUES,
    METRIC_VARIABLES,
    EMBEDDING_ARGUMENTS,
    OPTIMIZER_ARGUMENTS,
    OPTIMIZER_ATTRIBUTES,
    GRADIENT_CLIPPING,
    MOMENTUM_ARGUMENTS,
    LEARNING_RATES,
    OPTIMIZER_BUILDS,
    *OPTIMIZER_METHODS,
    *OPTIMIZER_HOOKS,
    OPTIMIZER_APPLICATION,
    OPTIMIZER_UPDATES,
    GRADIENT_AGGREGATION,
    TRAIN_STEPS,
    INFERRED_RESULTS,
    FUNCTIONAL_MODELS,
    SYMBOLIC_SHAPES,
    SYMBOLIC_DTYPES,
    SYMBOLIC_REFERENCES,
    *GRAPH_OF_LAYERS,
    INPUTS_OF_INPUTS,
    VARIABLE_DTYPES,
    VARIABLE_ATTRIBUTES,
    SYMBOLIC_GET_SHAPE,
    MODEL_SAVING,
    WEIGHT_SAVING,
    WEIGHT_LOADING,
    CHECKPOINTS,
    CHECKPOINT_STARTS,
    CHECKPOINT_CHOICES,
    CHECKPOINTED_EPOCHS,
    SCHEDULERS,
    *LOGGED_RATES,
    BOARDS,
    BARS,
    PLATEAUS,
    *IDENTIFIERS,
    *POOLING_ARGUMENTS,
    *SIZE_ARGUMENTS,
    ENCODING_ARGUMENTS,
    DISCRETIZATION_ARGUMENTS,
    LAYER_ATTRIBUTES,
    NORM_BUILDS,
    LAYER_LOCKS,
    *LAYER_METHODS,
    *LAYER_FLAGS,
    LOSSES_OF_LAYERS,
    LAYERS_OF_SEQUENTIALS,
    CLEARED_SEQUENTIALS,
    LOSSES_OF_MODELS,
    OWN_LOSSES,
    METRICS_OF_LAYERS,
    METRIC_RESULTS,
    FUNCTIONAL_CONFIGS,
    MODEL_CONFIGS,
    *LOSS_SCALING_METHODS,
    SCHEDULED_RATES,
    *MODEL_METHODS,
    *MODEL_ENDS,
    *NAMES_OF_ENDS,
    METRICS_NAMES,
    RESULTS_IN_ORDER,
    *OPTIMIZER_VARIABLES,
    METRIC_RESETS,
    *STATE_RESETS,
    COMPILATION,
    LOSS_COMPUTATION,
    COMPILED_LOSS_CALLS,
    COMPILED_METRIC_UPDATES,
    COMPILED_LOSSES,
    COMPILED_METRICS,
    MONITOR_DIRECTIONS,
    CALLBACK_LISTS,
    CALLBACK_MODELS,
    RNN_ARGUMENTS,
    CALL_ARGUMENTS,
    SYMBOLIC_CALLS,
    LOSS_ARGUMENTS,
    METRIC_ARGUMENTS,
    LAMBDA_CONFIGS,
    LAMBDA_COPIES,
    LAMBDA_SPECS,
    LAMBDA_CALLS,
    LOSS_DTYPES,
    LOSS_CALLS,
    METRIC_CALLS,
    *SORTED_LOGS,
    SYMBOLIC_BUILDS,
    BUILT_SEQUENTIALS,
    STEP_LOGS,
    WATCHED_VARIABLES,
    FUSED_BATCH_NORMS,
    NUMPY_NAMES,
    *LOOP_ARGUMENTS,
    *BATCH_METHODS,
    *GENERATOR_METHODS,
)
"""Every method that is ever replaced."""

_lock = threading.RLock()  # The collector may close a forgotten context while another one opens.
_INHERITED = object()
_openings: dict[Patch, int] = {}
_stock: dict[Patch, Any] = {}


@contextlib.contextmanager
def installed(replacements: Mapping[Patch, Wrap]) -> Iterator[None]:
    """Replaces methods while the context is open; the last to close puts the stock ones back.

    Args:
        replacements: The factory of each method's replacement. It has to be the same wherever the
            method is replaced: the first context that opens installs its own for all of them.
    """
    with contextlib.ExitStack() as stack:
        with _lock:
            for patch, wrap in replacements.items():
                _open(patch, wrap)
                stack.callback(_close, patch)
        yield


def _open(patch: Patch, wrap: Wrap) -> None:
    openings = _openings.get(patch, 0)
    if openings == 0:
        stock = None if patch.is_new else getattr(patch.owner, patch.name)
        # As a class holds it: a static method, not the function that it gives out.
        held = vars(patch.owner).get(patch.name, _INHERITED)
        replacement: Any = wrap(stock)
        if isinstance(held, staticmethod):
            replacement = staticmethod(replacement)
        setattr(patch.owner, patch.name, replacement)
        _stock[patch] = held
    _openings[patch] = openings + 1


def _close(patch: Patch) -> None:
    with _lock:
        _openings[patch] -= 1
        if _openings[patch] > 0:
            return
        held = _stock.pop(patch)
        if held is _INHERITED:
            delattr(patch.owner, patch.name)
        else:
            setattr(patch.owner, patch.name, held)
