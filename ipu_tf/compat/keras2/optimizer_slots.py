"""State of optimizers under the names of Keras 2: slots and the coefficients of an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import keras
import tensorflow as tf

from ipu_tf.internals.keras_optimizers import key_in, position_in

_SLOTS = "keras_2_slots"

_STOCK: Mapping[type, Mapping[str, str]] = MappingProxyType(
    {
        keras.optimizers.SGD: {"momentum": "momentums"},
        keras.optimizers.Nadam: {"m": "_momentums", "v": "_velocities"},
        keras.optimizers.Adamax: {"m": "_m", "v": "_u"},
        keras.optimizers.Adam: {"m": "_momentums", "v": "_velocities", "vhat": "_velocity_hats"},
        keras.optimizers.RMSprop: {
            "rms": "_velocities",
            "momentum": "_momentums",
            "mg": "_average_gradients",
        },
        keras.optimizers.Adagrad: {"accumulator": "_accumulators"},
        keras.optimizers.Adadelta: {
            "accum_grad": "_accumulated_grads",
            "accum_var": "_accumulated_delta_vars",
        },
        keras.optimizers.Ftrl: {"accumulator": "_accumulators", "linear": "_linears"},
    }
)
"""The attributes of Keras 3's optimizers that are the slots of Keras 2's."""


def add_slot(
    optimizer: Any, var: Any, slot_name: str, initializer: Any = "zeros", shape: Any = None
) -> tf.Variable:
    """Returns a slot of a variable; makes it if there is none of that name."""
    found = vars(optimizer).setdefault(_SLOTS, {})
    key = key_in(optimizer, var), slot_name
    if key not in found:
        owner = getattr(var, "path", var.name).replace("/", "_").replace(":", "_")
        found[key] = optimizer.add_variable(
            shape=var.shape if shape is None else shape,
            initializer=initializer,
            dtype=tf.as_dtype(var.dtype).name,
            name=f"{owner}_{slot_name}",
        )
    return found[key].value


def get_slot(optimizer: Any, var: Any, slot_name: str) -> tf.Variable:
    """Returns a slot of a variable, as the variable of TensorFlow; see `slot_in`."""
    return slot_in(optimizer, var, slot_name).value


def slot_in(optimizer: Any, var: Any, slot_name: str) -> keras.Variable:
    """Returns a slot of a variable.

    Raises:
        KeyError: The optimizer has no such slot for the variable.
    """
    own: keras.Variable | None
    own = vars(optimizer).get(_SLOTS, {}).get((key_in(optimizer, var), slot_name))
    if own is not None:
        return own
    attribute = _stock_slots(optimizer).get(slot_name)
    variables = getattr(optimizer, attribute or "", None)
    if not variables:
        raise KeyError(
            f"Optimizer '{optimizer.name}' has no slot '{slot_name}' of variable '{var.name}'. Its "
            f"slots are {get_slot_names(optimizer)}, made when it is built with its variables."
        )
    found: keras.Variable = variables[position_in(optimizer, var)]
    return found


def get_slot_names(optimizer: Any) -> list[str]:
    """Returns the names of the slots that exist."""
    own = [name for _, name in vars(optimizer).get(_SLOTS, {})]
    stock = [
        name
        for name, attribute in _stock_slots(optimizer).items()
        if getattr(optimizer, attribute, None)
    ]
    return list(dict.fromkeys((*stock, *own)))


def coefficients(optimizer: Any, dtype: Any, rate: tf.Tensor) -> dict[str, Any]:
    """Returns the values that Keras 2's optimizer of that class has in its `apply_state`."""
    found = {"lr_t": rate}
    for base, values in _COEFFICIENTS.items():
        if isinstance(optimizer, base):
            found |= values(optimizer, dtype, rate)
    return found


def _of_sgd(optimizer: Any, dtype: Any, rate: Any) -> dict[str, Any]:
    return {"momentum": tf.cast(optimizer.momentum, dtype)}


def _of_rmsprop(optimizer: Any, dtype: Any, rate: Any) -> dict[str, Any]:
    rho = tf.cast(optimizer.rho, dtype)
    return {
        "neg_lr_t": -rate,
        "epsilon": tf.cast(optimizer.epsilon, dtype),
        "rho": rho,
        "momentum": tf.cast(optimizer.momentum, dtype),
        "one_minus_rho": 1 - rho,
    }


def _of_adam(optimizer: Any, dtype: Any, rate: Any) -> dict[str, Any]:
    step = tf.cast(optimizer.iterations, dtype) + 1
    beta_1, beta_2 = tf.cast(optimizer.beta_1, dtype), tf.cast(optimizer.beta_2, dtype)
    power_1, power_2 = tf.pow(beta_1, step), tf.pow(beta_2, step)
    return {
        "lr": rate * tf.sqrt(1 - power_2) / (1 - power_1),
        "epsilon": tf.cast(optimizer.epsilon, dtype),
        "beta_1_t": beta_1,
        "beta_1_power": power_1,
        "one_minus_beta_1_t": 1 - beta_1,
        "beta_2_t": beta_2,
        "beta_2_power": power_2,
        "one_minus_beta_2_t": 1 - beta_2,
    }


_COEFFICIENTS: Mapping[type, Callable[[Any, Any, Any], dict[str, Any]]] = MappingProxyType(
    {
        keras.optimizers.SGD: _of_sgd,
        keras.optimizers.RMSprop: _of_rmsprop,
        keras.optimizers.Adam: _of_adam,
    }
)


def _stock_slots(optimizer: Any) -> Mapping[str, str]:
    return next((of for base, of in _STOCK.items() if isinstance(optimizer, base)), {})
