"""`PipelineStage`: the scope that assigns layers to a pipeline stage."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from contextvars import ContextVar, Token
from types import TracebackType

import tensorflow as tf

from ipu_tf.internals import patches
from ipu_tf.keras.adapters.graphs import Layer, Structure, graphs_of
from ipu_tf.strategy import IPUStrategyV1

_STAGE: ContextVar[int | None] = ContextVar("ipu_tf.keras.pipeline.stage", default=None)
_MADE_IN = "_ipu_tf_pipeline_stage"
_CALLED_IN = "_ipu_tf_pipeline_stage_of_calls"


class PipelineStage:
    """A scope that assigns a pipeline stage to the layers made or called inside.

    The stage of a call overrides the stage of the layer's construction. In the `call` of a
    subclassed model the scope assigns the layers that are called inside it.

    Args:
        stage: Number of the stage, from 0.

    Raises:
        ValueError: `stage` is not an integer of at least 0.

    Example:
        >>> with strategy.scope():
        ...     x = inputs = keras.Input((64,))
        ...     with PipelineStage(0):
        ...         x = keras.layers.Dense(128)(x)
        ...     with PipelineStage(1):
        ...         x = keras.layers.Dense(10)(x)
        ...     model = keras.Model(inputs, x)
    """

    def __init__(self, stage: int) -> None:
        self._stage = check_stage(stage)
        self._token: Token[int | None] | None = None
        self._patches = contextlib.ExitStack()

    def __enter__(self) -> PipelineStage:
        """Enters the scope.

        Raises:
            RuntimeError: It is outside of an IPU strategy's scope, or inside another stage.
        """
        if not isinstance(tf.distribute.get_strategy(), IPUStrategyV1):
            raise RuntimeError(
                "PipelineStage may only be used from within an IPUStrategy context. "
                f"Put `with PipelineStage({self._stage})` inside of `with strategy.scope()`."
            )
        if _STAGE.get() is not None:
            raise RuntimeError(
                "Pipeline stages must not be nested. "
                f"Received: PipelineStage({self._stage}) inside of PipelineStage({_STAGE.get()})."
            )
        self._patches.enter_context(patches.installed(_REPLACEMENTS))
        self._token = _STAGE.set(self._stage)
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Leaves the scope."""
        if self._token is not None:
            _STAGE.reset(self._token)
            self._token = None
            self._patches.close()


@contextlib.contextmanager
def outside_of_stages() -> Iterator[None]:
    """Leaves, for a while, the stage scopes that are open on this thread."""
    token = _STAGE.set(None)
    try:
        yield
    finally:
        _STAGE.reset(token)


def check_stage(stage: object) -> int:
    """Returns the number of a pipeline stage.

    Raises:
        ValueError: It is not an integer of at least 0.
    """
    if type(stage) is not int or stage < 0:
        raise ValueError(f"A pipeline stage must be an integer of at least 0. Received: {stage!r}.")
    return stage


def recorded_stage(layer_or_node: object) -> int | None:
    """Returns the stage scope in which a layer or a symbolic call's node was made, None if none."""
    return vars(layer_or_node).get(_MADE_IN)


def was_called_in_stage(layer: Layer) -> bool:
    """Returns whether a layer was ever called in the scope of a stage."""
    return _CALLED_IN in vars(layer)


def may_have_stages(model: Layer) -> bool:
    """Returns whether a layer of a model was made or called in the scope of a stage."""
    graphs = graphs_of(model)
    return any(
        recorded_stage(layer) is not None
        or was_called_in_stage(layer)
        or any(recorded_stage(node) is not None for node in graphs.nodes(layer))
        for layer in graphs.layers_within(model)
    )


def note_creation(layer: Layer) -> None:
    """Makes a layer keep the stage scope in which it is made."""
    _record(layer, _MADE_IN)


def _layer_creation(stock: Callable[..., Layer]) -> Callable[..., Layer]:
    """Makes layers keep the stage scope in which they are made."""

    def new(cls: type[Layer], *args: object, **kwargs: object) -> Layer:
        layer = stock(cls, *args, **kwargs)
        note_creation(layer)
        return layer

    return new


def noting_calls(stock: Callable[..., Structure]) -> Callable[..., Structure]:
    """Makes layers, and their symbolic calls, keep the stage scope in which they are called."""

    @functools.wraps(stock)
    def call(layer: Layer, *args: Structure, **kwargs: Structure) -> Structure:
        graphs = graphs_of(layer)
        nodes = len(graphs.nodes(layer))
        _record(layer, _CALLED_IN)
        outputs = stock(layer, *args, **kwargs)
        if len(graphs.nodes(layer)) > nodes:  # A call with symbolic tensors.
            _record(graphs.nodes(layer)[-1], _MADE_IN)
        return outputs

    return call


def _record(layer_or_node: object, attribute: str) -> None:
    stage = _STAGE.get()
    if stage is not None:
        # Bypasses `Layer.__setattr__`, which needs an initialised layer.
        vars(layer_or_node)[attribute] = stage


_REPLACEMENTS: dict[patches.Patch, patches.Wrap] = {
    patches.LAYER_CREATION: _layer_creation,
    patches.LAYER_CALLS: noting_calls,
}
"""The replacements that a scope of a stage installs."""


def replace_in_stages(patch: patches.Patch, wrap: patches.Wrap) -> None:
    """Lets scopes of stages replace a method of another Keras, too."""
    _REPLACEMENTS[patch] = wrap
