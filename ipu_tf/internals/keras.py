"""The private names of Keras that ipu_tf uses, each with its reason.

Modules outside of this folder may not import from `keras.src`, nor use an attribute of Keras'
objects that begins with an underscore; a test over the syntax tree keeps it so.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Iterable, Mapping
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


def register_mappings_in(structure: object) -> bool:
    """Makes Keras' structures of the mappings in a structure that Keras takes for leaves, for good.

    Returns whether there are any. Keras' own registration takes classes with methods for it.
    Relies on the namespace "keras", in which Keras looks for structures.
    """
    found = False
    for leaf in keras.tree.flatten(structure):
        if isinstance(leaf, Mapping) and not tf.is_tensor(leaf):
            _register_mapping(type(leaf))
            register_mappings_in(leaf)
            found = True
    return found


@functools.cache
def _register_mapping(kind: type) -> None:
    """Makes structures of the objects of a mapping; the children are in the order of sorted keys.

    Relies on the namespace "keras".
    """

    def flattened(mapping: Any) -> tuple[list[object], tuple[str, ...]]:
        return [mapping[key] for key in sorted(mapping)], tuple(mapping)

    def unflattened(keys: Any, children: Iterable[object]) -> Any:
        values = dict(zip(sorted(keys), children, strict=True))
        return kind((key, values[key]) for key in keys)

    optree.register_pytree_node(kind, flattened, unflattened, namespace="keras")
