"""Which strategy is in force in the scope of another one."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_OF_TENSORFLOW = (
    "Must not nest tf.distribute.Strategy scopes",
    "Mixing different tf.distribute.Strategy objects",
)
"""TensorFlow's errors of an optimizer that updates weights, or makes its slots, elsewhere."""


def in_force(strategy: tf.distribute.Strategy) -> tf.distribute.Strategy:
    """Returns the strategy of the open scope if it is one with an IPU strategy, else the latter.

    Strategies of one kind, device and settings are one: what was made under one of them runs under
    the others, in whose scope it is then, and in whose report.

    Raises:
        RuntimeError: The open scope is that of another strategy.
    """
    around = tf.distribute.get_strategy() if tf.distribute.has_strategy() else strategy
    if are_one(around, strategy):
        return around
    raise RuntimeError(
        f"What was made under {_described(strategy)} cannot run in the scope of "
        f"{_described(around)}: leave that scope, or make the model, its optimizer and its "
        "functions under that strategy."
    )


def are_one(strategy: tf.distribute.Strategy, other: tf.distribute.Strategy) -> bool:
    """Returns whether strategies are the same, or IPU strategies of one kind and settings."""
    if strategy is other:
        return True
    settings, of_other = _settings(strategy), _settings(other)
    return type(strategy) is type(other) and settings is not None and settings == of_other


def outer_optimizer(error: Exception) -> RuntimeError | None:
    """Returns the error of an optimizer that belongs to no strategy, behind TensorFlow's; or None.

    Args:
        error: The error of a program's trace.
    """
    # AutoGraph's error in its place quotes it.
    if not any(message in str(error) for message in _OF_TENSORFLOW):
        return None
    return RuntimeError(
        "An optimizer that was made outside of the scope of the strategy cannot update weights in "
        "its programs. Make it inside of `with strategy.scope():`. A Keras model that is made and "
        "compiled there trains on the IPU; to train one on the host, leave the scope."
    )


def _settings(strategy: tf.distribute.Strategy) -> dict[str, Any] | None:
    """Returns the settings of an IPU strategy, None for another."""
    return getattr(strategy.extended, "settings", None)


def _described(strategy: tf.distribute.Strategy) -> str:
    settings = _settings(strategy) or {}
    arguments = ", ".join(f"{name}={value!r}" for name, value in settings.items())
    return f"{type(strategy).__name__}({arguments})"
