"""The private names of Keras that ipu_tf uses, each with its reason.

Modules outside of this folder may not import from `keras.src`, nor use an attribute of Keras'
objects that begins with an underscore; a test over the syntax tree keeps it so.
"""

from __future__ import annotations

import functools
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

# Keras takes a data adapter of one's own in place of data, but exports neither its base class nor
# the function that finds the stock adapter of some data.
from keras.src.trainers.data_adapters import get_data_adapter as keras_data_adapter
from keras.src.trainers.data_adapters.data_adapter import DataAdapter as KerasDataAdapter

# Whether a model is written to an `.h5` file, which has a configuration and no assets; what is
# being called.
from keras.src.backend.common.global_state import (
    get_global_attribute as keras_global_attribute,
)

# The classes of what is between symbolic tensors, whose graph Keras does not export.
from keras.src.ops.node import KerasHistory as KerasHistory
from keras.src.ops.node import Node as KerasNode


def spec_of_initial_value(initial_value: Callable[[], object]) -> tf.TensorSpec | None:
    """Returns shape and type of the initial value of a Keras variable; None of other functions.

    What Keras passes to TensorFlow tells them when it runs only. Relies on the function in
    `Variable._initialize_with_initializer`, which holds the variable, and on `Variable._dtype`: the
    public type is the one that a policy computes in.
    """
    if "._initialize_with_initializer." not in getattr(initial_value, "__qualname__", ""):
        return None
    for cell in getattr(initial_value, "__closure__", None) or ():
        if isinstance(cell.cell_contents, keras.Variable):
            variable = cell.cell_contents
            return tf.TensorSpec(variable.shape, variable._dtype)
    return None


def register_mappings_in(structure: object) -> bool:
    """Makes Keras' structures of the mappings in a structure that Keras takes for leaves, for good.

    Returns whether there are any. Keras' own registration takes classes with methods for it.
    Relies on the namespace "keras", in which Keras looks for structures.
    """
    has_mappings = False
    for leaf in keras.tree.flatten(structure):
        if isinstance(leaf, Mapping) and not tf.is_tensor(leaf):
            _register_mapping(type(leaf))
            register_mappings_in(leaf)
            has_mappings = True
    return has_mappings


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
