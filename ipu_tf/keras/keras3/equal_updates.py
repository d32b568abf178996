"""Traces the update of a weight once for all weights of its shape, in steps that never run.

An optimizer of Keras updates every weight by the same operations, and so it lets it decay; only the
weight, its slots and its gradient differ. Where a trace is for figures alone, the operations are a
function that is traced for the second weight of a shape and called for all further ones, with their
variables in place of its own. The compiler sees the operations of every call.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

import keras
import tensorflow as tf

from ipu_tf.internals.graphs import call_flat, trace
from ipu_tf.internals.keras_optimizers import WEIGHT_DECAY, Variable, decay, decays, slots_in
from ipu_tf.internals.structures import Gradient
from ipu_tf.internals.tensorflow import ConcreteFunction
from ipu_tf.keras.adapters.models import replaced_methods
from ipu_tf.runtime.programs import device_programs

STOCK_OPTIMIZERS = frozenset(
    {
        keras.optimizers.Adadelta,
        keras.optimizers.Adagrad,
        keras.optimizers.Adam,
        keras.optimizers.Adamax,
        keras.optimizers.AdamW,
        keras.optimizers.Lamb,
        keras.optimizers.Lion,
        keras.optimizers.Nadam,
        keras.optimizers.RMSprop,
        keras.optimizers.SGD,
    }
)
"""Optimizers whose update of a weight depends on its shape and type alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _TracedUpdate:
    """The update of a weight as a function.

    Attributes:
        function: The function of its gradient, or of nothing.
        handles: The handles of the weight and of its slots.
    """

    function: ConcreteFunction
    handles: Sequence[tf.Tensor]

    def call(self, inputs: Sequence[tf.Tensor], handles: Sequence[tf.Tensor]) -> None:
        """Updates a weight, given its handle and those of its slots."""
        handle_of = {id(own): other for own, other in zip(self.handles, handles, strict=True)}
        captures = [handle_of.get(id(tensor), tensor) for tensor in self.function.captured_inputs]
        call_flat(self.function, [*inputs, *captures])


def tracing_equal_updates_once(
    optimizer: keras.optimizers.Optimizer,
) -> AbstractContextManager[None]:
    """Returns a context in which an optimizer traces equal updates once, if the step never runs.

    Other optimizers than Keras' own trace every update: it may depend on more than shapes.
    """
    is_stock = type(optimizer) in STOCK_OPTIMIZERS and "update_step" not in vars(optimizer)
    if is_stock and device_programs.never_runs():
        updates = _Updates(optimizer)
        methods: dict[str, Callable[..., None]] = {
            "update_step": updates.update_step,
            WEIGHT_DECAY: updates.decay,
        }
        return replaced_methods(optimizer, **methods)
    return contextlib.nullcontext()


class _Updates:
    """The updates of an optimizer's weights in one trace.

    Args:
        optimizer: An optimizer of Keras.
    """

    def __init__(self, optimizer: keras.optimizers.Optimizer) -> None:
        self._optimizer = optimizer
        self._stock = optimizer.update_step
        self._kinds: set[object] = set()
        self._traces: dict[object, _TracedUpdate] = {}

    def update_step(self, gradient: Gradient, variable: tf.Variable, learning_rate: object) -> None:
        """Updates a weight as the optimizer's own method does."""
        if not isinstance(gradient, tf.Tensor):  # Some rows of a table: their number is open.
            self._stock(gradient, variable, learning_rate)
            return

        def update(gradient: tf.Tensor) -> None:
            self._stock(gradient, variable, learning_rate)

        self._once(update, (gradient,), variable, id(learning_rate))

    def decay(self, weights: Iterable[Variable]) -> None:
        """Lets weights decay as the optimizer's own method does."""
        for weight in weights:
            if decays(self._optimizer, weight):
                variable = weight.value if isinstance(weight, keras.Variable) else weight
                self._once(functools.partial(decay, self._optimizer, variable), (), variable)

    def _once(
        self,
        update: Callable[..., None],
        inputs: tuple[tf.Tensor, ...],
        variable: tf.Variable,
        *key: Hashable,
    ) -> None:
        """Updates a weight by a function of inputs, or by what that was for an equal weight.

        Args:
            update: The function; it updates the weight and its slots.
            inputs: Its inputs.
            variable: The weight.
            *key: What the function depends on besides shapes and types.
        """
        specs = tuple(tf.TensorSpec(tensor.shape, tensor.dtype) for tensor in inputs)
        kind = (specs, tf.TensorSpec(variable.shape, variable.dtype), *key)
        if kind not in self._kinds:  # A function of one call would cost more.
            self._kinds.add(kind)
            update(*inputs)
            return
        slots = slots_in(self._optimizer, variable)
        handles = [variable.handle, *(slot.value.handle for slot in slots)]
        if kind not in self._traces:
            function = trace(update, specs, name="update")
            self._traces[kind] = _TracedUpdate(function=function, handles=handles)
        self._traces[kind].call(inputs, handles)
