"""Traces the `call` of a nested subclassed model with symbolic inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.keras.pipeline.scope import outside_of_stages

_CALL_ATTRIBUTE = "_ipu_tf_inner_call"


class SymbolicCallError(ValueError):
    """Says that the `call` of a model does not run on symbolic inputs."""

    def __init__(self, model: keras.Model, inputs: str, error: Exception) -> None:
        super().__init__(
            f"The layers of model '{model.name}' cannot be assigned to pipeline stages, because "
            "its `call` does not run on symbolic inputs. In `call`, use layers and keras.ops "
            "instead of TensorFlow functions. If inputs are not floating point numbers, first "
            f"call the model on `keras.Input(shape, dtype=...)`. Received: inputs {inputs}, which "
            f"raise {type(error).__name__}: {error}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerCall:
    """The symbolic tensors at the beginning and the end of a model's call.

    Attributes:
        inputs: New tensors, one for each argument tensor of the call.
        outputs: The results of the call.
    """

    inputs: tuple[Any, ...]
    outputs: tuple[Any, ...]


def symbolic_call(
    model: keras.Model, args: Any, kwargs: Any, strategy: tf.distribute.Strategy
) -> Any:
    """Returns the result of a model's `call` on symbolic tensors; its layers record the call.

    Args:
        model: The model.
        args: Positional arguments.
        kwargs: Keyword arguments.
        strategy: The strategy in whose scope it is called.

    Raises:
        RuntimeError: Its `PipelineStage` scopes are nested.
        SymbolicCallError: It cannot be called with symbolic tensors.
    """
    try:
        with strategy.scope(), outside_of_stages():
            return model.call(*args, **kwargs)
    except Exception as error:  # A user's code may raise anything here.
        if isinstance(error, RuntimeError) and not isinstance(error, NotImplementedError):
            raise
        raise SymbolicCallError(model, inputs_of(args, kwargs), error) from error


def inner_call(
    model: keras.Model, node: Any, strategy: tf.distribute.Strategy
) -> InnerCall | SymbolicCallError:
    """Returns the result of a symbolic call of a nested model, or the error that prevents it.

    It is computed once for each call, so that the calls of the layers inside keep their numbers.

    Args:
        model: The nested model.
        node: Its call.
        strategy: The strategy of the model around it.

    Raises:
        RuntimeError: Its `PipelineStage` scopes are nested.
    """
    found: InnerCall | SymbolicCallError | None = vars(node).get(_CALL_ATTRIBUTE)
    if found is None:
        found = vars(node)[_CALL_ATTRIBUTE] = _inner_call(model, node, strategy)
    return found


def _inner_call(
    model: keras.Model, node: Any, strategy: tf.distribute.Strategy
) -> InnerCall | SymbolicCallError:
    args, kwargs = fresh(node.arguments.args), fresh(node.arguments.kwargs)
    try:
        outputs = symbolic_call(model, args, kwargs, strategy)
    except SymbolicCallError as error:
        return error.with_traceback(None)
    return InnerCall(inputs=_tensors((args, kwargs)), outputs=_tensors(outputs))


def inputs_of(args: Any, kwargs: Any) -> str:
    """Returns the shapes and types of symbolic arguments, as text."""
    return str(
        keras.tree.map_structure(
            lambda leaf: (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else leaf,
            (args, kwargs),
        )
    )


def fresh(structure: Any) -> Any:
    """Returns a structure with new symbolic tensors in place of its tensors and specs."""
    return keras.tree.map_structure(
        lambda leaf: (
            fresh_tensor(leaf.shape, keras.backend.standardize_dtype(leaf.dtype))
            if hasattr(leaf, "shape")
            else leaf
        ),
        structure,
    )


def fresh_tensor(shape: Any, dtype: str) -> Any:
    """Returns a new symbolic tensor."""
    return keras.KerasTensor(tuple(shape), dtype=dtype)


def _tensors(structure: Any) -> tuple[Any, ...]:
    leaves = keras.tree.flatten(structure)
    return tuple(leaf for leaf in leaves if isinstance(leaf, keras.KerasTensor))
