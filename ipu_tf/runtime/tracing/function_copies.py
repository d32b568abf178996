"""Changed copies of a function and of all functions that it calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tf.internals.graphs import atomic_function_from_def, function_type_of
from ipu_tf.internals.tensorflow import FunctionDef
from ipu_tf.runtime.tracing.call_ops import functions_of


def copy_of(find: Callable[[str], FunctionDef], name: str, new_name: str) -> FunctionDef:
    """Returns a copy of the FunctionDef of a function, with another name."""
    definition = FunctionDef()
    definition.CopyFrom(find(name))
    definition.signature.name = new_name
    return definition


def library_function(
    definition: FunctionDef,
    find: Callable[[str], FunctionDef],
    change: Callable[[FunctionDef], None],
    new_name: Callable[[str], str],
    function_type: tf.types.experimental.FunctionType | None = None,
) -> tf.types.experimental.AtomicFunction:
    """Returns a function of TensorFlow's library that calls changed copies.

    Args:
        definition: The FunctionDef, of a new name; it is changed, too.
        find: Finds the FunctionDefs of the called functions, which are left as they are.
        change: Changes a FunctionDef; an error of it ends the copying.
        new_name: From the name of a called function to that of its copy.
        function_type: The types of arguments and results.
    """
    functions: dict[str, Any] = {}

    def make(definition: Any, function_type: Any) -> Any:
        change(definition)
        children: dict[str, Any] = {}
        for node in definition.node_def:
            for value in node.attr.values():
                for callee in functions_of(value):
                    children[callee.name] = callee_of(callee.name)
                    callee.name = new_name(callee.name)
        callees = [child for child in children.values() if child is not None]
        return atomic_function_from_def(definition, function_type, callees)

    def callee_of(name: str) -> Any:
        if name not in functions:
            functions[name] = None  # A function that calls itself is not copied again.
            copy = copy_of(find, name, new_name(name))
            functions[name] = make(copy, function_type_of(copy))
        return functions[name]

    return make(definition, function_type)
