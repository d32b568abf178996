"""The methods of TensorFlow and Keras that runs replace, and the context that replaces methods.

Each is replaced only while something needs it: a trace, a scope. Contexts may be open on several
threads at once, and a replacement is in force on all of them, so it has to call through to the
stock method on a thread that did not ask for it. The methods that a spelling of an earlier release
replaces stand beside its code, in `compat`.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals.keras import keras_backend_core
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
    tracing_compilation,
)

Wrap = Callable[..., object]
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

    owner: type | ModuleType
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
SCALED_LOSSES = Patch(
    keras.mixed_precision.LossScaleOptimizer,
    "scale_loss",
    "sums of gradients that overflow by the loss scale are found",
)
FINITE_GRADIENTS = Patch(
    keras.mixed_precision.LossScaleOptimizer,
    "check_finite",
    "gradients that overflow by the loss scale are found",
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
NAN_STOPS = Patch(
    keras.callbacks.TerminateOnNaN, "on_batch_end", "its message names the operation of a NaN"
)
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

_lock = threading.RLock()  # The collector may close a forgotten context while another one opens.
_INHERITED = object()
_openings: dict[Patch, int] = {}
_stock: dict[Patch, Any] = {}


def patches_of(module: ModuleType) -> Iterator[Patch]:
    """Returns the patches that a module names, alone or in tuples, in their order."""
    for value in vars(module).values():
        group = value if isinstance(value, tuple) else (value,)
        yield from (one for one in group if isinstance(one, Patch))


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
                _install(patch, wrap)
                stack.callback(_close, patch)
        yield


def _install(patch: Patch, wrap: Wrap) -> None:
    openings = _openings.get(patch, 0)
    if openings == 0:
        stock = None if patch.is_new else getattr(patch.owner, patch.name)
        # As a class holds it: a static method, not the function that it gives out.
        original = vars(patch.owner).get(patch.name, _INHERITED)
        replacement: Any = wrap(stock)
        if isinstance(original, staticmethod):
            replacement = staticmethod(replacement)
        setattr(patch.owner, patch.name, replacement)
        _stock[patch] = original
    _openings[patch] = openings + 1


def _close(patch: Patch) -> None:
    with _lock:
        _openings[patch] -= 1
        if _openings[patch] > 0:
            return
        original = _stock.pop(patch)
        if original is _INHERITED:
            delattr(patch.owner, patch.name)
        else:
            setattr(patch.owner, patch.name, original)
