"""The base of optimizers that wrap an optimizer of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tf.internals.structures import Gradient

GradientsAndVariables = Iterable[tuple[Gradient, tf.Variable]]


class IpuOptimizer(tf.compat.v1.train.Optimizer):
    """Passes everything on to the wrapped optimizer.

    Args:
        opt: A `tf.compat.v1.train.Optimizer`.
        name: Name of this optimizer; None stands for that of its class.

    Raises:
        TypeError: `opt` is another kind of optimizer.
    """

    def __init__(self, opt: tf.compat.v1.train.Optimizer, name: str | None = None) -> None:
        if not isinstance(opt, tf.compat.v1.train.Optimizer):
            raise TypeError(
                f"{type(self).__name__} wraps a tf.compat.v1.train.Optimizer. For a Keras "
                "optimizer use the Keras options of the model, or ipu_tf.keras.optimizers. "
                f"Received: opt={opt!r}."
            )
        super().__init__(use_locking=False, name=name or type(self).__name__)
        self._opt = opt
        self._own_name = name or type(self).__name__

    @property
    def wrapped(self) -> tf.compat.v1.train.Optimizer:
        """The wrapped optimizer."""
        return self._opt

    def compute_gradients(
        self, loss: tf.Tensor, var_list: Sequence[tf.Variable] | None = None, **kwargs: object
    ) -> list[tuple[tf.Tensor, tf.Variable]]:
        """Returns the gradients of a loss, each with its variable."""
        pairs: list[tuple[Any, Any]] = self._opt.compute_gradients(
            loss, var_list=var_list, **kwargs
        )
        return pairs

    def apply_gradients(
        self,
        grads_and_vars: GradientsAndVariables,
        global_step: tf.Variable | None = None,
        name: str | None = None,
    ) -> tf.Operation:
        """Returns an operation that updates the variables."""
        return self._opt.apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def get_name(self) -> str:
        """Returns the name of this optimizer."""
        return self._own_name

    def get_slot(self, *args: object, **kwargs: object) -> tf.Variable:
        """Returns a slot of the wrapped optimizer."""
        return self._opt.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: object, **kwargs: object) -> list[str]:
        """Returns the names of the slots of the wrapped optimizer."""
        names: list[str] = self._opt.get_slot_names(*args, **kwargs)
        return names

    def variables(self) -> list[tf.Variable]:
        """Returns the variables of the wrapped optimizer."""
        result: list[Any] = self._opt.variables()
        return result
