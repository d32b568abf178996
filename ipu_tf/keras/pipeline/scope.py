"""`PipelineStage`: the scope in which layers belong to a stage of a pipeline."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.strategy import IPUStrategyV1

_STAGE: ContextVar[int | None] = ContextVar("ipu_tf.keras.pipeline.stage", default=None)
_MADE_IN = "_ipu_tf_pipeline_stage"
_CALLED_IN = "_ipu_tf_pipeline_stage_of_calls"

_stock_new = keras.Layer.__dict__["__new__"].__func__
_stock_call = keras.Layer.__dict__["__call__"]
_lock = threading.Lock()
_open_scopes = 0


class PipelineStage:
    """A scope that assigns a pipeline stage to the layers made or called in it.

    The stage of a call goes before the one of the layer's construction. In the `call` of a
    subclassed model the scope assigns the layers that are called in it.

    Args:
        stage: Number of the stage, from 0.

    Raises:
        ValueError: `stage` is no integer of at least 0.

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

    def __enter__(self) -> PipelineStage:
        """Enters the scope.

        Raises:
            RuntimeError: There is no IPU strategy around it, or another stage is.
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
        _open()
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
            _close()


@contextlib.contextmanager
def outside_of_stages() -> Iterator[None]:
    """Leaves the scopes of stages that are open on this thread, for a while."""
    token = _STAGE.set(None)
    try:
        yield
    finally:
        _STAGE.reset(token)


def check_stage(stage: Any) -> int:
    """Returns the number of a pipeline stage.

    Raises:
        ValueError: It is no integer of at least 0.
    """
    if type(stage) is not int or stage < 0:
        raise ValueError(f"A pipeline stage must be an integer of at least 0. Received: {stage!r}.")
    return stage


def recorded_stage(layer_or_node: Any) -> int | None:
    """Returns the stage in whose scope a layer, or a symbolic call's node, was made, or None."""
    return vars(layer_or_node).get(_MADE_IN)


def was_called_in_stage(layer: keras.Layer) -> bool:
    """Returns whether a layer was ever called in the scope of a stage."""
    return _CALLED_IN in vars(layer)


def _open() -> None:
    """Replaces how layers are made and called, as long as any scope is open on any thread."""
    global _open_scopes
    with _lock:
        if _open_scopes == 0:
            keras.Layer.__new__ = _new_in_stage
            keras.Layer.__call__ = _call_in_stage
        _open_scopes += 1


def _close() -> None:
    global _open_scopes
    with _lock:
        _open_scopes -= 1
        if _open_scopes == 0:
            keras.Layer.__new__ = staticmethod(_stock_new)
            keras.Layer.__call__ = _stock_call


def _new_in_stage(cls: type[keras.Layer], *args: Any, **kwargs: Any) -> keras.Layer:
    layer = _stock_new(cls, *args, **kwargs)
    _record(layer, _MADE_IN)
    return layer


@functools.wraps(_stock_call)
def _call_in_stage(self: keras.Layer, *args: Any, **kwargs: Any) -> Any:
    nodes = len(self._inbound_nodes)
    _record(self, _CALLED_IN)
    outputs = _stock_call(self, *args, **kwargs)
    if len(self._inbound_nodes) > nodes:  # A call with symbolic tensors.
        _record(self._inbound_nodes[-1], _MADE_IN)
    return outputs


def _record(layer_or_node: Any, what: str) -> None:
    stage = _STAGE.get()
    if stage is not None:
        # Past `Layer.__setattr__`, which needs an initialised layer.
        vars(layer_or_node)[what] = stage
