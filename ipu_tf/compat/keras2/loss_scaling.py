"""`LossScaleOptimizer` as Keras 2 had it: a fixed scale, and scripts that scale the loss."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.compat.spellings.spelling import Notify, Spelling
from ipu_tf.internals.keras_optimizers import keeping_scale_of_gradients
from ipu_tf.internals.patches import Patch, Wrap

_LOSS_SCALING_METHODS = tuple(
    Patch(keras.mixed_precision.LossScaleOptimizer, name, reason, is_new=is_new)
    for name, reason, is_new in (
        ("__init__", "the scale of the loss may be fixed", False),
        ("apply", "the scale may be fixed, or the script may have unscaled", False),
        ("get_config", "a fixed scale is saved", False),
        ("dynamic", "the optimizer tells whether its scale changes", True),
        ("loss_scale", "the optimizer tells its scale", True),
        ("get_scaled_loss", "scripts scale the loss", True),
        ("get_unscaled_gradients", "scripts unscale gradients", True),
    )
)

_FIXED = "keras_2_fixed_scale"
_UNSCALED = "keras_2_has_unscaled"


def _arguments(
    inner_optimizer: Any,
    dynamic: Any = True,
    initial_scale: float | None = None,
    dynamic_growth_steps: int | None = None,
    loss_scale: Any = None,
) -> tuple[float | None, dict[str, Any]]:
    """Returns the fixed scale, None if it changes, and the arguments of Keras 3's optimizer.

    Args:
        inner_optimizer: Updates the weights.
        dynamic: Whether the scale changes; in `mixed_precision.experimental` the second position
            is that of `loss_scale`.
        initial_scale: The scale at the start; a fixed scale needs it.
        dynamic_growth_steps: Steps after which the scale doubles.
        loss_scale: "dynamic" or the fixed scale, as in `mixed_precision.experimental`.

    Raises:
        ValueError: A fixed scale is missing, or has steps after which it grows.
    """
    if loss_scale is None and not isinstance(dynamic, bool):
        loss_scale, dynamic = dynamic, True
    if loss_scale not in (None, "dynamic"):
        dynamic, initial_scale = False, float(loss_scale)
    if not dynamic and (initial_scale is None or dynamic_growth_steps is not None):
        raise ValueError(
            "A LossScaleOptimizer with `dynamic=False` has an `initial_scale`, which stays, and no "
            f"`dynamic_growth_steps`. Received: initial_scale={initial_scale}, "
            f"dynamic_growth_steps={dynamic_growth_steps}."
        )
    given = {"initial_scale": initial_scale, "dynamic_growth_steps": dynamic_growth_steps}
    stock = {name: value for name, value in given.items() if value is not None}
    return (None if dynamic else initial_scale), {"inner_optimizer": inner_optimizer, **stock}


_OWN = ("dynamic", "initial_scale", "dynamic_growth_steps", "loss_scale")


def _making(notify: Notify) -> Wrap:
    """Returns the factory of the initializer, which takes the arguments of Keras 2."""

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def init(optimizer: Any, inner_optimizer: Any = None, *args: Any, **kwargs: Any) -> None:
            # Keras 2's base class had them, too, in `get_config`.
            inner = kwargs.pop("optimizer", inner_optimizer)
            if args or kwargs.keys() & {"dynamic", "loss_scale"}:
                notify()
            own = {name: kwargs.pop(name) for name in _OWN if name in kwargs}
            fixed, arguments = _arguments(inner, *args, **own)
            stock(optimizer, **arguments, **kwargs)
            vars(optimizer)[_FIXED] = fixed

        return init

    return wrap


def _applying(notify: Notify) -> Wrap:
    """Returns the factory of `apply`, which unscales gradients unless the script has done so."""
    del notify  # Given where the optimizer is made, or by the script's own scaling.

    def wrap(stock: Callable[..., None]) -> Callable[..., None]:
        def apply(optimizer: Any, grads: Sequence[Any], trainable_variables: Any = None) -> None:
            has_unscaled = vars(optimizer).pop(_UNSCALED, False)
            fixed = vars(optimizer).get(_FIXED)
            if fixed is not None:
                if not optimizer.built:
                    optimizer.build(trainable_variables)
                unscaled = grads if has_unscaled else _divided(grads, fixed)
                optimizer.inner_optimizer.apply(unscaled, trainable_variables)
            elif has_unscaled:
                with keeping_scale_of_gradients(optimizer):
                    stock(optimizer, grads, trainable_variables)
            else:
                stock(optimizer, grads, trainable_variables)

        return apply

    return wrap


def _configuration(notify: Notify) -> Wrap:
    """Returns the factory of `get_config`, which tells that a scale is fixed."""
    del notify

    def wrap(stock: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
        def get_config(optimizer: Any) -> dict[str, Any]:
            config = stock(optimizer)
            if vars(optimizer).get(_FIXED) is not None:
                config["dynamic"] = False
                del config["dynamic_growth_steps"]
            return config

        return get_config

    return wrap


class LossScaling:
    """The methods that Keras 3's optimizer lacks; `self` is a `LossScaleOptimizer`."""

    built: bool
    initial_scale: float
    dynamic_scale: Any

    @property
    def dynamic(self) -> bool:
        """Whether the scale changes."""
        return vars(self).get(_FIXED) is None

    @property
    def loss_scale(self) -> tf.Tensor:
        """The scale of this step."""
        scale = self.dynamic_scale if self.built else self.initial_scale
        return tf.convert_to_tensor(scale, dtype=tf.float32)

    def get_scaled_loss(self, loss: Any) -> Any:
        """Returns a loss, a tensor or a function, times the scale."""
        if callable(loss):
            return lambda: self.get_scaled_loss(loss())
        return loss * tf.cast(self.loss_scale, loss.dtype)

    def get_unscaled_gradients(self, grads: Sequence[Any]) -> list[Any]:
        """Returns gradients by the scale; the next `apply_gradients` takes them as they are."""
        vars(self)[_UNSCALED] = True
        return _divided(grads, self.loss_scale)


def _divided(grads: Sequence[Any], scale: Any) -> list[Any]:
    """Returns gradients by a scale; those of rows of a variable stay so."""
    return [None if grad is None else _quotient(grad, scale) for grad in grads]


def _quotient(grad: Any, scale: Any) -> Any:
    if isinstance(grad, tf.IndexedSlices):
        values = _quotient(grad.values, scale)
        return tf.IndexedSlices(values, grad.indices, grad.dense_shape)
    # A float16 cannot hold every scale; the inverse of a power of two is exact.
    return tf.cast(tf.cast(grad, tf.float32) / scale, grad.dtype)


def _added(name: str) -> Callable[[Notify], Wrap]:
    """Returns the factory of a method or a property of `LossScaling`."""
    member = vars(LossScaling)[name]

    def of_notify(notify: Notify) -> Wrap:
        if isinstance(member, property):
            return lambda stock: member

        def noticed(*args: Any, **kwargs: Any) -> Any:
            notify()
            return member(*args, **kwargs)

        return lambda stock: noticed

    return of_notify


_OF_METHODS: Mapping[str, Callable[[Notify], Wrap]] = MappingProxyType(
    {"__init__": _making, "apply": _applying, "get_config": _configuration}
)

SPELLINGS = (
    Spelling(
        name="`LossScaleOptimizer(optimizer, dynamic=False, initial_scale=)`, `loss_scale`, "
        "`get_scaled_loss`, `get_unscaled_gradients`",
        keras_2="A fixed scale, or one that changes; scripts with a step of their own scaled the "
        "loss and unscaled gradients.",
        here="A fixed scale stays, and no step is skipped. `apply_gradients` does not unscale "
        "what `get_unscaled_gradients` has unscaled.",
        wraps=MappingProxyType(
            {
                patch: _OF_METHODS.get(patch.name) or _added(patch.name)
                for patch in _LOSS_SCALING_METHODS
            }
        ),
    ),
)
