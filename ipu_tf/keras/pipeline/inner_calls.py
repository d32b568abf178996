"""Traces the `call` of a nested subclassed model with symbolic inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tensorflow as tf
from keras import tree

from ipu_tf.keras.adapters.graphs import (
    GraphAdapter,
    GraphModel,
    Node,
    Structure,
    StructureT,
    SymbolicTensor,
    graphs_of,
)
from ipu_tf.keras.pipeline.scope import outside_of_stages

_CALL_ATTRIBUTE = "_ipu_tf_inner_call"


class SymbolicCallError(ValueError):
    """Says that the `call` of a model does not run on symbolic inputs."""

    def __init__(self, model: GraphModel, inputs: str, error: Exception) -> None:
        super().__init__(
            f"The layers of model '{model.name}' cannot be assigned to pipeline stages, because "
            "its `call` does not run on symbolic inputs. In `call`, use layers and keras.ops "
            "instead of TensorFlow functions (in tf_keras, no control flow over tensors). If "
            "inputs are not floating point numbers, first call the model on "
            "`keras.Input(shape, dtype=...)`. "
            f"Received: inputs {inputs}, which raise {type(error).__name__}: {error}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerCall:
    """The symbolic tensors at the beginning and the end of a model's call.

    Attributes:
        inputs: New tensors, one for each argument tensor of the call.
        outputs: The results of the call.
    """

    inputs: tuple[SymbolicTensor, ...]
    outputs: tuple[SymbolicTensor, ...]


def symbolic_call(
    model: GraphModel,
    args: Sequence[Structure],
    kwargs: Mapping[str, Structure],
    strategy: tf.distribute.Strategy,
) -> Structure:
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
    model: GraphModel, node: Node, strategy: tf.distribute.Strategy
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
    cache: dict[str, InnerCall | SymbolicCallError] = node.__dict__
    if _CALL_ATTRIBUTE not in cache:
        cache[_CALL_ATTRIBUTE] = _inner_call(model, node, strategy)
    return cache[_CALL_ATTRIBUTE]


def _inner_call(
    model: GraphModel, node: Node, strategy: tf.distribute.Strategy
) -> InnerCall | SymbolicCallError:
    graphs = graphs_of(model)
    args, kwargs = graphs.arguments_of(node)
    args, kwargs = fresh(graphs, args), fresh(graphs, kwargs)
    try:
        outputs = symbolic_call(model, args, kwargs, strategy)
    except SymbolicCallError as error:
        return error.with_traceback(None)
    inputs = tuple(graphs.tensors_in((args, kwargs)))
    return InnerCall(inputs=inputs, outputs=tuple(graphs.tensors_in(outputs)))


def inputs_of(args: Structure, kwargs: Structure) -> str:
    """Returns the shapes and types of symbolic arguments, as text."""
    return str(
        tree.map_structure(
            lambda leaf: (leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else leaf,
            (args, kwargs),
        )
    )


def fresh(graphs: GraphAdapter, structure: StructureT) -> StructureT:
    """Returns a structure with new symbolic tensors in place of its tensors and specs."""
    return tree.map_structure(
        lambda leaf: (
            graphs.fresh_tensor(leaf.shape, leaf.dtype) if hasattr(leaf, "shape") else leaf
        ),
        structure,
    )
