"""The open calls of layers and optimizers of tf_keras, for the rooms that trace."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import tensorflow as tf

from ipu_tf.base import call_path
from ipu_tf.internals import patches
from ipu_tf.internals.structures import Gradient
from ipu_tf.internals.tf_keras import (
    LAYER_CALLS,
    UPDATES,
    Optimizer,
    dense,
    is_functional,
    noting_callers,
    open_layers,
    optimizer_name,
    slots_of,
)
from ipu_tf.keras.tf_keras.loss_scaling import scales
from ipu_tf.runtime.tracing import hooks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """Work that belongs to no layer.

    Attributes:
        name: Its name in reports.
        is_update: Whether an optimizer does it.
        depth: The calls of layers around it.
    """

    name: str
    is_update: bool
    depth: int


class _Thread(threading.local):
    works: tuple[_Work, ...] = ()


_thread = _Thread()


@contextlib.contextmanager
def work(name: str, *, is_update: bool = False) -> Iterator[None]:
    """Names the work inside, other than that of layers, in reports.

    Args:
        name: Name of the optimizer, or `LOSS` or `METRICS`.
        is_update: Whether it is an optimizer's.
    """
    around = _thread.works
    _thread.works = (*around, _Work(name=name, is_update=is_update, depth=len(open_layers())))
    try:
        yield
    finally:
        _thread.works = around


@contextlib.contextmanager
def update(optimizer: Optimizer) -> Iterator[None]:
    """Names the work inside as the update of an optimizer; a wrapper opens no scope itself."""
    name = optimizer_name(optimizer)
    scope = tf.name_scope(name) if scales(optimizer) else contextlib.nullcontext()
    with work(name, is_update=True), scope:
        yield


@call_path.add_source
def layer_calls() -> call_path.CallPath:
    """Returns the calls of tf_keras that are open on this thread.

    A functional model around all of them is no part of the path, as with Keras 3: its layers are
    made outside of it.
    """
    layers = open_layers()
    work = _thread.works[-1] if _thread.works else None
    if work is not None and work.depth == len(layers):
        return call_path.CallPath(path=work.name, is_in_optimizer=work.is_update)
    if len(layers) > 1 and is_functional(layers[0]):
        layers = layers[1:]
    return call_path.CallPath(path="/".join(layer.name for layer in layers))


def updating(stock: Callable[..., object], *, casts: bool = False) -> Callable[..., object]:
    """Makes updates in a trace work of their optimizer, with gradients of static shape.

    tf_keras would look for the rows that occur twice in the gradient of an embedding.

    Args:
        stock: The `apply_gradients` of an optimizer.
        casts: Whether it gets gradients in the dtypes of weights: accumulators have others.
    """

    @functools.wraps(stock)
    def apply_gradients(
        optimizer: Optimizer,
        grads_and_vars: Iterable[tuple[Gradient, tf.Variable]],
        *args: object,
        **kwargs: object,
    ) -> object:
        tracer = hooks.active()
        if tracer is None:
            return stock(optimizer, grads_and_vars, *args, **kwargs)
        pairs = list(grads_and_vars)
        gradients = dense([gradient for gradient, _ in pairs])
        pairs = [(one, variable) for one, (_, variable) in zip(gradients, pairs, strict=True)]
        if casts:
            pairs = [(None if one is None else tf.cast(one, of.dtype), of) for one, of in pairs]
        trained = [variable for gradient, variable in pairs if gradient is not None]
        with update(optimizer):
            updated = stock(optimizer, pairs, *args, **kwargs)
        for slot, weight in slots_of(optimizer, trained):
            tracer.note_slot(slot, weight)
        return updated

    return apply_gradients


REPLACEMENTS: Mapping[patches.Patch, patches.Wrap] = MappingProxyType(
    {LAYER_CALLS: noting_callers} | dict.fromkeys(UPDATES, functools.partial(updating, casts=True))
)
"""What the scope of a strategy replaces, so that traces know the calls."""
