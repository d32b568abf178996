"""The one table of Keras 2 spellings."""

from __future__ import annotations

from ipu_tf.compat.keras2 import (
    added_terms,
    backend,
    callbacks,
    gradient_functions,
    graph_layers,
    graph_of_layers,
    layers,
    loss_scaling,
    losses,
    methods,
    model_attributes,
    model_loading,
    modules_of_keras,
    numpy_names,
    optimizer_arguments,
    optimizer_classes,
    optimizer_methods,
    python_keras,
    saving,
    shapes,
    tensorflow_modules,
    tensorflow_ops,
    training,
    variables,
)
from ipu_tf.compat.keras2.spelling import Spelling

SPELLINGS: tuple[Spelling, ...] = (
    *shapes.SPELLINGS,
    *layers.SPELLINGS,
    *optimizer_arguments.SPELLINGS,
    *gradient_functions.SPELLINGS,
    *optimizer_methods.SPELLINGS,
    *optimizer_classes.SPELLINGS,
    *loss_scaling.SPELLINGS,
    *training.SPELLINGS,
    *losses.SPELLINGS,
    *methods.SPELLINGS,
    *added_terms.SPELLINGS,
    *model_attributes.SPELLINGS,
    *callbacks.SPELLINGS,
    *saving.SPELLINGS,
    *model_loading.SPELLINGS,
    *graph_of_layers.SPELLINGS,
    *tensorflow_modules.SPELLINGS,
    *tensorflow_ops.SPELLINGS,
    *variables.SPELLINGS,
    *numpy_names.SPELLINGS,
    *backend.SPELLINGS,
    *graph_layers.SPELLINGS,
    *modules_of_keras.SPELLINGS,
    *python_keras.SPELLINGS,
)
"""Every spelling. It adapts Keras, and is the section on Keras 2 of docs/compatibility.md."""
